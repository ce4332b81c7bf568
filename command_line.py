"""Command line: the table of commands, each imported only when it is used.

Help, completion and usage errors are plain text within 80 columns, without truncated option names.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .reports.cli.options import function_with_options, require_writable
from .reports.cli.termination import LINE


class Entry(NamedTuple):
    """A command: its function or its dataclass of options, and the first sentence of its docstring."""

    module: str
    name: str
    summary: str
    work: str = ""
    """For a dataclass: module and function that take an instance, relative to the package of `module`."""


COMMANDS: dict[str, Entry | dict[str, Entry]] = {
    "run": Entry(
        "reports.cli.run",
        "RunOptions",
        "Run crash scenarios of the store, and check every promise.",
        work="campaign.run_campaign",
    ),
    "list": Entry("reports.cli.listing", "list_", "List scenarios, faults, disks, policies, mutants and other names."),
    "replay": Entry(
        "reports.cli.replays", "ReplayOptions", "Run a stored failure again.", work="replaying.replay_file"
    ),
    "shrink": Entry(
        "reports.cli.replays",
        "ShrinkOptions",
        "Shrink a stored failure to fewer messages, switches and faults.",
        work="replaying.shrink_file",
    ),
    "explore": Entry(
        "reports.cli.explore",
        "ExploreOptions",
        "Crash one run at every file operation, and check every state.",
        work="exploring.explore_run",
    ),
    "fuzz": Entry(
        "reports.cli.fuzz",
        "FuzzOptions",
        "Corrupt files, frames and directories, and check the readers.",
        work="fuzzing.fuzz_formats",
    ),
    "mutants": Entry(
        "reports.cli.mutants",
        "MutantsOptions",
        "Put known bugs into the store; show which scenarios find them.",
        work="mutation.run_mutants_command",
    ),
    "probe": Entry(
        "reports.cli.probe.command",
        "ProbeOptions",
        "Simulate a crash at each file operation of any program.",
        work="work.probe_program",
    ),
    "init": Entry(
        "reports.cli.init.command",
        "InitOptions",
        "Write a check and a CI job for a program, as a start for `probe`.",
        work="work.init_project",
    ),
    "sweep": Entry(
        "reports.pipeline.sweep.command",
        "SweepOptions",
        "Run many seeds, and write the results to a table.",
        work="sweeping.sweep_seeds",
    ),
    "analyze": Entry(
        "reports.pipeline.analysis.command",
        "AnalyzeOptions",
        "Analyze sweeps: pass rates, detections, coverage and latencies.",
        work="analysing.analyze_sweeps",
    ),
    "audit": Entry(
        "reports.pipeline.audit.command", "audit", "Verify a store of any size on any file system, with Spark."
    ),
    "plot": {
        "latency": Entry(
            "reports.studies.latency.command",
            "latency",
            "Draw put latencies by flush mode, disk and number of producers.",
        ),
        "topics": Entry(
            "reports.studies.topics.command", "topics", "Draw the cost of many topics, with one log or one per topic."
        ),
        "recovery": Entry(
            "reports.studies.recovery.command",
            "recovery",
            "Draw recovery times by log size and distance to the checkpoint.",
        ),
    },
    "inspect": Entry(
        "reports.cli.directories",
        "InspectOptions",
        "Recover a store directory in memory, and print its content.",
        work="directories.inspect_store",
    ),
    "verify": Entry(
        "reports.cli.directories",
        "VerifyOptions",
        "Check records, queues and checkpoint of a store directory.",
        work="directories.verify_store",
    ),
    "dump": Entry(
        "reports.cli.directories",
        "DumpOptions",
        "Print the messages of a log as JSON lines, in log order.",
        work="directories.dump_messages",
    ),
    "rebuild": Entry(
        "reports.cli.directories",
        "RebuildOptions",
        "Copy a log, and rebuild its queues, index and checkpoint.",
        work="directories.rebuild_store",
    ),
    "config": Entry(
        "reports.cli.directories",
        "ConfigOptions",
        "Print every setting of a store with its default and meaning.",
        work="directories.show_config",
    ),
    "serve": Entry(
        "reports.cli.serve",
        "ServeOptions",
        "Serve RocketMQ clients, as a broker or only a name server.",
        work="serve.serve_directory",
    ),
}
"""Every command by name, in the order of the help; groups are dictionaries."""

_PIPE_CLOSED = 141
"""The exit code of a shell for a process that SIGPIPE ended."""
DEVELOPERS = ("mutants",)
"""Commands for developers of tornlog, which help lists separately."""

GROUP_SUMMARIES = {"plot": "Draw pictures, with tables of their data."}


class Command(TyperCommand):
    """A command that checks its places for results first, and allows `--json` without a FILE.

    `--json` at the end or before another option means `-`, standard output. An option without a metavar shows `N` for a
    number, and `DIR`, `FILE` or the last word of its name for a text, where typer would show `<int range>` or `<str>`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            if parameter.metavar is None:
                parameter.metavar = _metavar(parameter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line, with the `-` inserted."""
        own = args.index("--") if "--" in args else len(args)
        completed = []
        for number, arg in enumerate(args):
            completed.append(arg)
            following = args[number + 1] if number + 1 < len(args) else "--"
            if number < own and arg == "--json" and following.startswith("-") and following != "-":
                completed.append("-")
        return super().parse_args(ctx, completed)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, unless a place for its results cannot be written."""
        for parameter in self.params:
            require_writable(parameter.name or "", ctx.params.get(parameter.name or ""), parameter.opts[0])
        from .sim.interruption import interruptible  # help needs no simulator

        with interruptible() as interruption:
            try:
                with interruption.interrupts_allowed():
                    try:
                        return super().invoke(ctx)
                    finally:
                        sys.stdout.flush()  # from here on a signal ends the process at once
            except KeyboardInterrupt:
                typer.echo(LINE, err=True)
                raise typer.Exit(interruption.exit_code) from None
            except (
                BrokenPipeError
            ):  # the reader closed the pipe; typer would exit with 1, which here means a broken promise
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(_PIPE_CLOSED) from None


def _metavar(parameter: Any) -> str | None:
    """Return a metavar, or None for typer's own: of flags, and of choices, which it lists."""
    if parameter.param_type_name == "argument":
        name = parameter.name.upper()
        return f"[{name}]..." if parameter.nargs == -1 else name
    if getattr(parameter, "is_flag", False) or hasattr(parameter.type, "choices"):
        return None
    if hasattr(parameter.type, "file_okay"):
        return "FILE" if parameter.type.file_okay else "DIR"
    return str(parameter.opts[0]).rpartition("-")[2].upper() if parameter.type.name == "str" else "N"


class _Late(TyperCommand):
    """Stands for a command until it is used."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.summary, rich_markup_mode=None)
        self._entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the loaded command."""
        return load(self.name or "", self._entry).make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """The commands of `COMMANDS`."""

    def __init__(self, *, entries: dict[str, Entry | dict[str, Entry]] | None = None, **options: Any) -> None:
        super().__init__(**{**options, "rich_markup_mode": None})
        for name, entry in (COMMANDS if entries is None else entries).items():
            self.add_command(_Late(name, entry) if isinstance(entry, Entry) else _group(name, entry))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in table order."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the summaries, those for developers of tornlog last."""
        width = formatter.width - 6 - max(map(len, self.commands))
        rows = [(name, command.get_short_help_str(width)) for name, command in self.commands.items()]
        for heading, are_developers in (("Commands", False), ("For developers of tornlog", True)):
            of_them = [row for row in rows if (row[0] in DEVELOPERS) is are_developers]
            if of_them:
                with formatter.section(heading):
                    formatter.write_dl(of_them)


def load(name: str, entry: Entry) -> Any:
    """Return a command that is ready to be used."""
    named = getattr(import_module(f".{entry.module}", __package__), entry.name)
    return get_command(application_of(name, _function_of(named, entry) if entry.work else named))


def application_of(name: str, function: Callable[..., None]) -> typer.Typer:
    """Return an application whose only command is a function."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Command)(function)
    return app


def _function_of(options: Any, entry: Entry) -> Callable[..., None]:
    """Return a function for typer with the fields of an options dataclass as parameters."""

    def work(given: Any) -> None:
        module, _, name = entry.work.partition(".")
        package = entry.module.rpartition(".")[0]
        getattr(import_module(f".{package}.{module}", __package__), name)(given)

    return function_with_options(options, work)


def _group(name: str, entries: dict[str, Entry]) -> Commands:
    return Commands(name=name, entries=dict(entries), help=GROUP_SUMMARIES[name], no_args_is_help=True)

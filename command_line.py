"""Which commands there are, and how a command line becomes one: what a command needs is imported when it is used.

Help, completion and errors of usage are plain text within 80 columns, in which the name of no option is cut.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .reports.cli.options import require_writable
from .reports.cli.termination import LINE


class Entry(NamedTuple):
    """A command: its function, or the dataclass of its options, and the first sentence of the docstring of that."""

    module: str
    name: str
    summary: str
    work: str = ""
    """Of a dataclass: the module and function, from the package of `module`, that take an instance of it."""


COMMANDS: dict[str, Entry | dict[str, Entry]] = {
    "run": Entry(
        "reports.cli.run",
        "RunOptions",
        "Pull the plug on the store, seed after seed, and judge what is left.",
        work="campaign.campaign",
    ),
    "list": Entry(
        "reports.cli.listing",
        "list_",
        "List scenarios, invariants, faults, disks, policies, mutants and versions.",
    ),
    "replay": Entry(
        "reports.cli.replays",
        "ReplayOptions",
        "Run a stored failure again, decision by decision, as far as the code still makes them.",
        work="replaying.replay_file",
    ),
    "shrink": Entry(
        "reports.cli.replays",
        "ShrinkOptions",
        "Make a stored failure small: fewer messages, switches, faults.",
        work="replaying.shrink_file",
    ),
    "explore": Entry(
        "reports.cli.explore",
        "ExploreOptions",
        "Pull the plug at every operation of one run, and judge every state that may be left.",
        work="exploring.explore_run",
    ),
    "fuzz": Entry(
        "reports.cli.fuzz",
        "FuzzOptions",
        "Break files, frames and whole store directories, and see that nothing worse than an error comes of it.",
        work="fuzzing.fuzz_formats",
    ),
    "mutants": Entry(
        "reports.cli.mutants",
        "MutantsOptions",
        "Put bugs into the store, one at a time, and see which scenario finds each, and in how many core-seconds.",
        work="mutation.mutate",
    ),
    "probe": Entry(
        "reports.cli.probe.command",
        "ProbeOptions",
        "Record a program, pull the plug at each of its file operations, and check what may be left.",
        work="work.probe_program",
    ),
    "sweep": Entry(
        "reports.pipeline.sweep.command",
        "sweep",
        "Run many seeds, one row each, and go on where an earlier call was interrupted.",
    ),
    "analyze": Entry(
        "reports.pipeline.analysis.command",
        "analyze",
        "Say what sweeps came to: pass rates, times to detection of mutants, coverage, latencies, trends over code.",
    ),
    "audit": Entry(
        "reports.pipeline.audit.command",
        "audit",
        "Verify a store of any size, part by part and wherever it is: its log, queues, index and checkpoint.",
    ),
    "plot": {
        "latency": Entry(
            "reports.studies.latency.command",
            "latency",
            "Draw how long puts take: sync flush, async flush, transient pool; on several disks;"
            " from 1 to 64 producers.",
        ),
        "topics": Entry(
            "reports.studies.topics.command",
            "topics",
            "Draw what many topics cost: one log for all of them, as RocketMQ has it, or one for each,"
            " as Kafka has it.",
        ),
        "recovery": Entry(
            "reports.studies.recovery.command",
            "recovery",
            "Draw how long recovery takes on this machine: by the log's size, and by what the checkpoint"
            " does not vouch for.",
        ),
    },
    "inspect": Entry(
        "reports.cli.directories",
        "inspect",
        "Open a store directory as the store would, recovery included but only in memory, and show what is in it.",
    ),
    "verify": Entry(
        "reports.cli.directories",
        "verify",
        "Check every record, queue entry and the checkpoint of a store directory as it stands, without recovery.",
    ),
    "dump": Entry(
        "reports.cli.directories",
        "dump",
        "Print messages as JSON lines, straight from the log, in its order.",
    ),
    "rebuild": Entry(
        "reports.cli.directories",
        "rebuild",
        "Copy a store's log to a new directory and make its consume queues, index and checkpoint anew.",
    ),
    "config": Entry(
        "reports.cli.directories",
        "show_config",
        "Show every setting of a store: its value, the default, and what it means.",
    ),
    "serve": Entry(
        "reports.cli.serve",
        "ServeOptions",
        "Answer RocketMQ's clients from a store directory, or as a name server alone, until SIGTERM or SIGINT.",
        work="serve.serve_directory",
    ),
}
"""Every command by name, in the order of the help; groups are dictionaries."""

_PIPE_CLOSED = 141
"""What a shell says of a program that SIGPIPE has ended."""
DEVELOPERS = ("mutants",)
"""Commands for who works on tornlog itself, which help lists apart."""

GROUP_SUMMARIES = {"plot": "Draw pictures, and leave their data beside them."}


class Command(TyperCommand):
    """A command whose places for results are looked at before it begins, and whose `--json` may stand without a FILE.

    That is at the end, or before another option: then it is `-`, standard output.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line, with the `-` put in."""
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
                with interruption.breakable():
                    try:
                        return super().invoke(ctx)
                    finally:
                        sys.stdout.flush()  # from here on a signal ends the process at once
            except KeyboardInterrupt:
                typer.echo(LINE, err=True)
                raise typer.Exit(interruption.exit_code) from None
            except BrokenPipeError:  # whoever read has seen enough; typer would end with 1, a broken promise here
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(_PIPE_CLOSED) from None


class _Late(TyperCommand):
    """Stands for a command until it is used."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.summary, rich_markup_mode=None)
        self._entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the command itself, which from there on stands in this one's place."""
        return load(self.name or "", self._entry).make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """The commands of `COMMANDS`."""

    def __init__(self, *, entries: dict[str, Entry | dict[str, Entry]] | None = None, **options: Any) -> None:
        super().__init__(**{**options, "rich_markup_mode": None})
        for name, entry in (COMMANDS if entries is None else entries).items():
            self.add_command(_Late(name, entry) if isinstance(entry, Entry) else _group(name, entry))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names, in their own order."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each is about, those for developers of tornlog behind the others."""
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
    """Return the function that typer reads: its parameters are the fields of a dataclass of options."""

    def function(**given: Any) -> None:
        module, _, name = entry.work.partition(".")
        package = entry.module.rpartition(".")[0]
        getattr(import_module(f".{package}.{module}", __package__), name)(options(**given))

    function.__doc__, function.__annotations__ = options.__doc__, get_type_hints(options, include_extras=True)
    vars(function)["__signature__"] = signature(options)
    return function


def _group(name: str, entries: dict[str, Entry]) -> Commands:
    return Commands(name=name, entries=dict(entries), help=GROUP_SUMMARIES[name], no_args_is_help=True)

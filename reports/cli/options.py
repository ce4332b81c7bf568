"""What commands share of their lines: options, exit codes, places for results, JSON, completions, wrong names.

Imports nothing of the simulator: help, completion and usage errors cost what the command line costs.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from shlex import join
from typing import Annotated, Any, NoReturn, TextIO

import typer

EXIT_HELD, EXIT_BROKEN, EXIT_USAGE, EXIT_HARNESS, EXIT_NONDETERMINISTIC = 0, 1, 2, 3, 4

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON to FILE, - for stdout.")
]
JunitFile = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", dir_okay=False, help="Write the result as JUnit XML to FILE."),
]
SummaryFile = Annotated[
    Path | None,
    typer.Option("--summary", metavar="FILE", dir_okay=False, help="Append a summary in Markdown to FILE."),
]
PicturesDir = Annotated[
    Path, typer.Option("--out", "-o", file_okay=False, help="Leave pictures and their data in DIR.")
]
TimelineFile = Annotated[
    Path | None,
    typer.Option("--timeline", metavar="FILE", dir_okay=False, help="Draw the run as one HTML page, in FILE."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", dir_okay=False, help="Write the run as trace events for Perfetto, in FILE."
    ),
]
AttributePoints = Annotated[
    bool, typer.Option("--attribute-points", help="Tasks switch at plain attributes of the store, too.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
Mutant = Annotated[str | None, typer.Option(help="With a known bug put back: see `list`; or FILE.py.")]
IN_PROCESS = "in-process"
Master = Annotated[
    str, typer.Option(help=f"Spark's master, as in local[2] or spark://host:7077; {IN_PROCESS}: no Spark.")
]
Ship = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="What a cluster's executors import: a wheel, .zip or .py, or an environment, as in "
        "environment.tar.gz#environment; repeatable.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A property of Spark, as in spark.executor.memory=2g; repeatable."),
]
_DIRECTORIES = ("out",)
_FILES = ("json_file", "junit", "summary", "timeline", "trace", "small")


def unknown(what: str, name: str, known: Collection[str], hint: str | None = None) -> typer.BadParameter:
    """Return the error of a name that there is none of: what it may have been meant to be, or where they all are."""
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    near += [one for one in known if name and name in one and one not in near][: 3 - len(near)]
    meant = f"did you mean {' or '.join(near)}?" if near else "`tornlog list` names them"
    return typer.BadParameter(f"no {what} {name}; {meant}", param_hint=hint)


def require_one_of(known: Collection[str], name: str, option: str) -> None:
    """Raise BadParameter if the value of an option is none of a few."""
    if name not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}, found {name}", param_hint=option)


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether the command line names a parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


# -- places for results ----------------------------------------------------------------------------


def require_writable(name: str, place: object, option: str) -> None:
    """Raise BadParameter, before any work is done, if a place for results cannot be written.

    name: of the parameter, which says what it is; others are passed over, as are - and URIs. A directory that is not
    there yet is made when it is needed.
    """
    if name not in (*_DIRECTORIES, *_FILES) or place is None or place == "-" or "://" in str(place):
        return
    reason = _why_not_writable(Path(str(place)), is_directory=name in _DIRECTORIES)
    if reason:
        raise typer.BadParameter(f"{place}: {reason}", param_hint=option)


def _why_not_writable(path: Path, *, is_directory: bool) -> str:
    """Return why a file, or files in a directory, cannot be made there; empty if nothing is known against it."""
    try:
        if not is_directory:
            if path.exists():
                if path.is_dir():
                    return "is a directory"
                return "" if os.access(path, os.W_OK) else "cannot be written"
            path = path.parent
        missing = None
        while not path.exists() and path != path.parent:
            missing, path = path, path.parent
        if not path.is_dir():
            return f"{path} is not a directory"
        if not os.access(path, os.W_OK | os.X_OK):
            return f"{path} cannot be written"
        if missing is not None:  # /proc and its like say that they can be written, and take no directory
            missing.mkdir()
            missing.rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def write_json(file: str | None, fields: Any) -> None:
    """Write a result as JSON to a file, - for stdout, None for nowhere; its directory is made if need be.

    A file that cannot be written is a usage error.
    """
    if file is None:
        return
    if file == "-":
        json.dump(fields, sys.stdout)
        sys.stdout.write("\n")
        return
    try:
        os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(fields, out)
            out.write("\n")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--json") from error


@contextmanager
def open_lines(file: str) -> Iterator[TextIO]:
    """Open a file for JSON lines, - for stdout, which is flushed at the end. A file that cannot be is a usage error."""
    if file == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        out = open(file, "w", encoding="utf-8")  # noqa: SIM115 - errors of the caller's block are not this one's
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--json") from error
    with out:
        yield out


@contextmanager
def results_written(option: str) -> Iterator[None]:
    """Make an error of the place that an option names, met while results are written there, a usage error."""
    try:
        yield
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise typer.BadParameter(f"{place}{error.strerror}", param_hint=option) from error


class ResultFiles:
    """Files of results. One that cannot be written keeps neither the others nor the printed result from the reader."""

    def __init__(self) -> None:
        self._problem: typer.BadParameter | None = None

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Go on after a `with` block in which a file could not be written. The first such error is kept."""
        try:
            yield
        except typer.BadParameter as error:
            self._problem = self._problem or error

    def exit(self, verdict: int) -> NoReturn:
        """Exit with a verdict. A place that could not be written is a usage error unless something worse was found."""
        if self._problem is None:
            raise typer.Exit(verdict)
        if verdict == EXIT_HELD:
            raise self._problem
        typer.echo(f"Error: {self._problem.format_message()}", err=True)
        raise typer.Exit(verdict)


# -- what a command line says -----------------------------------------------------------------------


def disks_named(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the disks of these names, each once. BadParameter: there is no such."""
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"no disk {name}: {', '.join(known)}", param_hint="--disk")
    return list(dict.fromkeys(names))


def command_line(context: typer.Context, behind: str = "") -> str:
    """Return the command line of a command, its arguments in front of its options; behind: one that is behind `--`."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name == behind or not was_given(context, name):
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            arguments += map(str, values)
        elif isinstance(value, bool):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            options += [text for one in values for text in (parameter.opts[0], str(one))]
    rest = ["--", *context.params[behind]] if behind else []
    return join(["tornlog", context.info_name or "", *arguments, *options, *rest])


def options_text(**chosen: str | None) -> str:
    """Return the options that a seed needs to be the same run again."""
    return "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)


def absolute(place: str) -> str:
    """Return a path of this machine from its root on, and a URI as it is.

    Spark's processes need not stand in the directory in which the program was called.
    """
    return place if "://" in place else os.path.abspath(place)


# -- completion ------------------------------------------------------------------------------------


def _complete(module: str, table: str) -> Callable[[str], list[str]]:
    """Return a completion by the names in a table of a module of scenarios, which is imported when it is used."""

    def complete(incomplete: str) -> list[str]:
        names = getattr(import_module(f"...scenarios.{module}", __package__), table)
        return [name for name in names if name.startswith(incomplete)]

    return complete


complete_scenario = _complete("claims.catalogue", "SCENARIOS")
complete_mutant = _complete("mutants", "MUTANTS")
complete_disk = _complete("claims.disk_models", "DISK_MODELS")
complete_policy = _complete("claims.scenario", "POLICIES")
complete_version = _complete("mutants.versions", "VERSIONS")

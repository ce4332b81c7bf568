"""Options that commands share: their types, exit codes, places for results, JSON, completions, errors of wrong names.

Imports nothing of the simulator: help, completion and usage errors cost what the command line costs.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

EXIT_HELD, EXIT_BROKEN, EXIT_USAGE, EXIT_HARNESS, EXIT_NONDETERMINISTIC = 0, 1, 2, 3, 4
EXIT_INTERRUPTED = 130
"""As a shell has it for a process that SIGINT ends."""

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON to FILE, - for stdout.")
]
JunitFile = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", dir_okay=False, help="Write the result as JUnit XML to FILE."),
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
        while not path.exists() and path != path.parent:
            path = path.parent
    except OSError as error:
        return error.strerror or str(error)
    if not path.is_dir():
        return f"{path} is not a directory"
    return "" if os.access(path, os.W_OK | os.X_OK) else f"{path} cannot be written"


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

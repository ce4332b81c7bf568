"""Shared command code: options, exit codes, result files, pages, JSON, completion.

The module does not import the simulator, so help, completion and usage errors are fast.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, field, fields
from difflib import get_close_matches
from importlib import import_module
from inspect import Signature, signature
from pathlib import Path
from shlex import join
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, TypeVar, get_type_hints

import typer

if TYPE_CHECKING:
    from ..timeline.recording.record import RunRecording


EXIT_HELD, EXIT_BROKEN, EXIT_USAGE, EXIT_HARNESS, EXIT_NONDETERMINISTIC = 0, 1, 2, 3, 4

JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON to FILE, - for stdout.")
]
JunitFile = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", dir_okay=False, help="Write the result as JUnit XML to FILE.")
]
SummaryFile = Annotated[
    Path | None, typer.Option("--summary", metavar="FILE", dir_okay=False, help="Append a summary in Markdown to FILE.")
]
PicturesDir = Annotated[
    Path, typer.Option("--out", "-o", file_okay=False, help="Write pictures and their data to DIR.")
]
TimelineFile = Annotated[
    Path | None,
    typer.Option("--timeline", metavar="FILE", dir_okay=False, help="Draw the run as an HTML page in FILE."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", dir_okay=False, help="Write the run as trace events for Perfetto to FILE."),
]
AttributePoints = Annotated[
    bool, typer.Option("--attribute-points", help="Also switch tasks at reads and writes of plain attributes.")
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
Mutant = Annotated[
    str | None, typer.Option(help="Put a known bug into the store (see `list`), or your own bug in FILE.py.")
]
IN_PROCESS = "in-process"
Master = Annotated[
    str, typer.Option(help=f"Spark master, such as local[2] or spark://host:7077; {IN_PROCESS}: no Spark.")
]
Ship = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Code for a cluster's executors: a wheel, .zip or .py, or an environment such as "
        "environment.tar.gz#environment; repeatable.",
    ),
]
CORPUS = ".tornlog"
CorpusDir = Annotated[
    Path,
    typer.Option(
        "--corpus",
        metavar="DIR",
        file_okay=False,
        help="Directory of failed cases. The next run tries them first.",
    ),
]
NoCorpus = Annotated[
    bool, typer.Option("--no-corpus", envvar="TORNLOG_NO_CORPUS", help="Neither try nor keep failed cases.")
]
ShipCheck = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="For a cluster's executors: a directory with the check's files, or code as a wheel, .zip or .py, or an "
        "environment such as environment.tar.gz#environment; repeatable.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A Spark property, such as spark.executor.memory=2g; repeatable."),
]
Given = TypeVar("Given")
Used = TypeVar("Used")
_TYPER = "typer"
"""Key of an option in the metadata of a field."""
_DIRECTORIES = ("out",)
_FILES = ("json_file", "junit", "summary", "timeline", "trace", "small", "write_baseline")


def unknown_name_error(what: str, name: str, known: Collection[str], hint: str | None = None) -> typer.BadParameter:
    """Return the error for an unknown name. The message suggests similar names."""
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    near += [one for one in known if name and name in one and one not in near][: 3 - len(near)]
    meant = f"did you mean {' or '.join(near)}?" if near else "`tornlog list` names them"
    return typer.BadParameter(f"no {what} {name}; {meant}", param_hint=hint)


def require_known_name(known: Collection[str], name: str, option: str) -> None:
    if name not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}, found {name}", param_hint=option)


def is_option_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_options(context: typer.Context, names: Collection[str], problem: str) -> None:
    """Raise BadParameter for the named parameters that the command line has."""
    given = [
        one for one in context.command.params if one.name and one.name in names and is_option_given(context, one.name)
    ]
    if given:
        raise typer.BadParameter(problem, param_hint=[one.opts[0] for one in given])


# -- places for results ----------------------------------------------------------------------------


def require_writable(name: str, place: object, option: str) -> None:
    """Raise BadParameter, before any work, if results cannot be written to a file or directory.

    name: the name of the parameter. Ignores - and URIs, and parameters that are not files or directories. A missing
    directory is no error, because the command creates it later.
    """
    if name not in (*_DIRECTORIES, *_FILES) or place is None or place == "-" or "://" in str(place):
        return
    reason = _why_not_writable(Path(str(place)), is_directory=name in _DIRECTORIES)
    if reason:
        raise typer.BadParameter(f"{place}: {reason}", param_hint=option)


def _why_not_writable(path: Path, *, is_directory: bool) -> str:
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
        if missing is not None:  # /proc and similar file systems refuse new directories although they seem writable
            missing.mkdir()
            missing.rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def write_json(file: str | None, fields: Any) -> None:
    """Write a result as JSON to a file, to stdout for `-`, or nowhere for None.

    Creates a missing directory. Raises BadParameter if the file cannot be written.
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
    """Open a file for JSON lines, or stdout for `-`. Raises BadParameter if the file cannot be opened."""
    if file == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        out = open(file, "w", encoding="utf-8")  # noqa: SIM115 - an error of the caller's block is not a usage error
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--json") from error
    with out:
        yield out


@contextmanager
def results_written(option: str) -> Iterator[None]:
    """Convert an OSError of the block into a usage error of an option."""
    try:
        yield
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise typer.BadParameter(f"{place}{error.strerror}", param_hint=option) from error


class ResultFiles:
    """Collects write errors, so that a failed write does not prevent other files or the printed result."""

    def __init__(self) -> None:
        self._problem: typer.BadParameter | None = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Suppress the BadParameter of a block that writes a file. `exit` reports the first error."""
        try:
            yield
        except typer.BadParameter as error:
            self._problem = self._problem or error

    def exit(self, verdict: int) -> NoReturn:
        """Exit with a verdict's code. If the code is EXIT_HELD and a write failed, raise the write error instead."""
        if self._problem is None:
            raise typer.Exit(verdict)
        if verdict == EXIT_HELD:
            raise self._problem
        typer.echo(f"Error: {self._problem.format_message()}", err=True)
        raise typer.Exit(verdict)


# -- values of the command line -----------------------------------------------------------------------


def disks_named(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Raises BadParameter for an unknown disk."""
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"no disk {name}; expected one of {', '.join(known)}", param_hint="--disk")
    return list(dict.fromkeys(names))


HERE = "here"
"""The value of --disk for the real disk of this machine."""


def picture_formats(package: str) -> ModuleType:
    """Raises BadParameter if matplotlib is not installed."""
    try:
        return import_module(f"{package}.pictures")
    except ImportError as error:
        from ...store.errors import install_command  # imported here, because `probe` uses this module without a store

        raise typer.BadParameter(f"{error}: install with {install_command('plot')}") from error


def option(default: Any, *names: str, **settings: Any) -> Any:
    """Return a field of an options dataclass. default: `...` for a required option. Others: as for `typer.Option`."""
    return field(default=MISSING if default is ... else default, metadata={_TYPER: typer.Option(*names, **settings)})


def argument(default: Any, **settings: Any) -> Any:
    """Like `option`, for an argument of the command line."""
    return field(default=MISSING if default is ... else default, metadata={_TYPER: typer.Argument(**settings)})


def function_with_options(options: Any, use: Callable[[Given], Used]) -> Callable[..., Used]:
    """Return a function for typer that has the fields of an options dataclass as parameters, and calls `use`."""

    def function(**given: Any) -> Used:
        return use(options(**given))

    hints = get_type_hints(options, include_extras=True)
    for one in fields(options):
        if _TYPER in one.metadata:
            hints[one.name] = Annotated[hints[one.name], one.metadata[_TYPER]]
    parameters = [one.replace(annotation=hints[name]) for name, one in signature(options).parameters.items()]
    function.__doc__, function.__annotations__ = options.__doc__, hints
    vars(function)["__signature__"] = Signature(parameters)
    return function


def command_line(context: typer.Context, after_dashes: str = "") -> str:
    """Return the command line, with arguments before options. after_dashes: the parameter that follows `--`."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name == after_dashes or not is_option_given(context, name):
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            arguments += map(str, values)
        elif isinstance(value, bool):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            options += [text for one in values for text in (parameter.opts[0], str(one))]
    rest = ["--", *context.params[after_dashes]] if after_dashes else []
    return join(["tornlog", context.info_name or "", *arguments, *options, *rest])


def options_text(**chosen: str | None) -> str:
    return "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)


def absolute_place(place: str) -> str:
    """Return an absolute path, or a URI unchanged, because Spark's processes may have another working directory."""
    return place if "://" in place else os.path.abspath(place)


# -- completion ------------------------------------------------------------------------------------


def _completion(module: str, table: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        names = getattr(import_module(f"...scenarios.{module}", __package__), table)
        return [name for name in names if name.startswith(incomplete)]

    return complete


complete_scenario = _completion("claims.catalogue", "SCENARIOS")
complete_mutant = _completion("mutants", "MUTANTS")
complete_disk = _completion("claims.disk_models", "DISK_MODELS")
complete_policy = _completion("claims.scenario", "POLICIES")
complete_version = _completion("mutants.versions", "VERSIONS")


PAGE = "report.html"
TIMELINES_MAX = 12
TIMELINE_STEPS_MAX = 20_000
"""Timelines of longer runs are drawn only on request, because their pages have many megabytes."""


def draw_run(run_recording: "RunRecording", timeline: Path | None, trace: Path | None) -> list[Path]:
    from ..timeline.page import timeline_page
    from ..timeline.perfetto import trace_json

    drawn = []
    for file, draw in ((timeline, timeline_page), (trace, trace_json)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(run_recording), encoding="utf-8")
            drawn.append(file)
    return drawn


def write_page(html: str, out: Path) -> Path:
    # imported here, because it imports the store, which a probe without pages does not need
    from ...scenarios.campaigns.kept_files import keep_file

    path = out / PAGE
    keep_file(path, html)
    return path

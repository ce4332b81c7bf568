"""Consoles, progress displays and tables of commands; what they name: scenarios, failures, a line to run again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import join
from time import monotonic
from types import ModuleType
from typing import TypeVar

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ...faults.simulation.artefact import ArtefactError
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import POLICIES, Scenario
from ...scenarios.mutants import MUTANTS
from ...scenarios.mutants.files import MutantFileError
from ...scenarios.mutants.known import find_mutant
from ...store.errors import brings
from .options import unknown, was_given

OUT = Console(highlight=False)
"""Results: tables, and what was found beside them."""
ERR = Console(stderr=True, highlight=False)
"""Progress, and errors. Findings only if standard output is taken by JSON."""
HERE = "here"
"""The name of this machine's disk among those that are simulated."""
T = TypeVar("T")
_LINE_EVERY_SECONDS = 5.0
"""Lines come no closer than this, but for the last one."""


def findings_console(json_file: str | None) -> Console:
    """Return where findings are printed: beside the table, unless JSON has standard output to itself."""
    return ERR if json_file == "-" else OUT


def print_error(error: object) -> None:
    """Print what kept a command from doing its work, in red, as it is spelled."""
    ERR.print(str(error), style="red", markup=False, soft_wrap=True)


@contextmanager
def results_written(option: str) -> Iterator[None]:
    """Make an error of the place that an option names, met while results are written there, a usage error."""
    try:
        yield
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise typer.BadParameter(f"{place}{error.strerror}", param_hint=option) from error


@contextmanager
def progress_shown(what: str = "", total: float | None = None, *, ticks: bool = True) -> Iterator[Callable[..., None]]:
    """Show on standard error how far work is: gone when it ends, quiet in a pipe. Yield what updates the display.

    That takes what rich's `Progress.update` takes, and `facts`, a text beside the bar. ticks: whether a thread shows
    how time passes. A process that forks should have none, and has to ask for each `refresh`.
    """
    remaining = () if total is None else (TimeRemainingColumn(compact=True), "left")
    columns = ("{task.description}", BarColumn(), "{task.fields[facts]}", TimeElapsedColumn(), *remaining)
    quiet = not ERR.is_terminal
    with Progress(*columns, console=ERR, transient=True, disable=quiet, auto_refresh=ticks) as display:
        yield partial(display.update, display.add_task(what, total=total, facts=""))


def followed(
    what: str, found: Iterable[T], total: int | None, about: Callable[[T], str] = lambda one: ""
) -> Iterator[T]:
    """Yield what is found as it comes, and show on standard error how far that is: a display, or plain lines.

    what: in a word or two; total: how many there will be, None if nobody knows; about: says of one which it is.
    """
    done, printed_at = 0, monotonic()
    with progress_shown(what, total) as update:
        for one in found:
            yield one
            done += 1
            which, count = about(one), f"{done:,}" if total is None else f"{done:,} of {total:,}"
            update(advance=1, description=f"{what}: {which}" if which else what, facts=count)
            now = monotonic()
            if not ERR.is_terminal and (done == total or now - printed_at >= _LINE_EVERY_SECONDS):
                printed_at = now
                ERR.print(f"{what}: {count}{f', {which}' if which else ''}", soft_wrap=True, markup=False)


def pictures_of(package: str) -> ModuleType:
    """Return a package's module `pictures`, which draws. BadParameter: matplotlib is not there."""
    try:
        return import_module(f"{package}.pictures")
    except ImportError as error:
        raise typer.BadParameter(f"{error}, which {brings('plot')} has") from error


def disks_named(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the disks of these names, each once. BadParameter: there is no such."""
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"no disk {name}: {', '.join(known)}", param_hint="--disk")
    return list(dict.fromkeys(names))


def print_paths(paths: Iterable[Path]) -> None:
    """Print where results were left, one path a line."""
    for path in paths:
        OUT.print(str(path), soft_wrap=True, markup=False)


def plain_table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    """Return a table without lines: columns of text first, columns of figures behind them."""
    table = Table(title=title, title_justify="left", box=SIMPLE, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in texts:
        table.add_column(name, no_wrap=name != "what")
    for name in figures:
        table.add_column(name, justify="right")
    return table


def require_mutant(name: str | None, option: str | None = "--mutant") -> None:
    """Raise BadParameter if there is no mutant of that name; None is for the store as it is."""
    if name is not None and not is_mutant(name, option):
        raise unknown("mutant", name, MUTANTS, option)


def is_mutant(name: str, option: str | None = None, find: Callable[[str], object] = find_mutant) -> bool:
    """Return whether there is a mutant of that name. BadParameter: it is one of a file, and that has none such."""
    try:
        return find(name) is not None
    except MutantFileError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def scenarios_named(
    names: list[str] | None, disk: str | None, policy: str | None, *, attribute_points: bool = False
) -> list[Scenario]:
    """Return the scenarios of these names, or all that there are, narrowed as `Scenario.narrowed` does.

    BadParameter: no such. Without names, scenarios that are not judged on the disk are left out, and a line says so.
    """
    for name in names or ():
        if name not in SCENARIOS:
            raise unknown("scenario", name, SCENARIOS)
    for what, chosen, known in (("disk", disk, DISK_MODELS), ("policy", policy, POLICIES)):
        if chosen is not None and chosen not in known:
            raise unknown(what, chosen, known, f"--{what}")
    wanted = list(dict.fromkeys(names or SCENARIOS))
    if not names and disk in DISK_MODELS:
        wanted = [name for name in wanted if SCENARIOS[name].admits(disk)]
        if left_out := len(SCENARIOS) - len(wanted):
            text = f"{left_out} scenarios of several machines are left out: they are not judged on a {disk}"
            ERR.print(text, soft_wrap=True)
    try:
        return [
            SCENARIOS[name].narrowed(disk=disk, policy=policy, attribute_points=attribute_points) for name in wanted
        ]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def command_line(context: typer.Context) -> str:
    """Return the command line of a command, its arguments in front of its options."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if not was_given(context, name):
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            arguments += map(str, values)
        elif isinstance(value, bool):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            options += [text for one in values for text in (parameter.opts[0], str(one))]
    return join(["tornlog", context.info_name or "", *arguments, *options])


def options_text(**chosen: str | None) -> str:
    """Return the options that a seed needs to be the same run again."""
    return "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)


def signature_of(failure: Failure) -> str:
    """Return what names a failure among others of one store."""
    return failure.signature


def write_failures(
    failures: Iterable[Failure], out: Path | None, name_of: Callable[[Failure], str] = signature_of
) -> dict[str, Path]:
    """Write the first failure of each name, if there is a place for it; return where, by name."""
    paths: dict[str, Path] = {}
    if out is None:
        return paths
    directory = out / "failures"
    for failure in failures:
        name = name_of(failure)
        if name not in paths:
            directory.mkdir(parents=True, exist_ok=True)
            path = paths[name] = directory / f"{name}.json"
            path.write_text(failure.to_json())
    return paths


def read_failure(file: Path) -> Failure:
    """Return the failure in a file. BadParameter: it holds none that this version can read."""
    try:
        failure = Failure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, ArtefactError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and not is_mutant(failure.mutant, f"mutant in {file}"):
        raise typer.BadParameter(f"{file}: mutant: there is none named {failure.mutant}")
    return failure

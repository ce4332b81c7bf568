"""What the commands share: where they print, how they exit, how seeds, times and failures are named."""

from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn

from ...store.commands import write_json as write_json
from ..catalogue import SCENARIOS
from ..failures.failure import Failure, FailureFileError
from ..mutants.known import find_mutant
from ..scenario import Scenario

EXIT_HELD, EXIT_BROKEN, EXIT_USAGE, EXIT_HARNESS, EXIT_NONDETERMINISTIC = 0, 1, 2, 3, 4

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)

JsonFile = Annotated[
    str | None, typer.Option("--json", help="Write the result as JSON to FILE, - for stdout.")
]


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def progress_bar(*columns: ProgressColumn, ticks: bool = True) -> Progress:
    """Return a progress display of these columns on standard error: gone when it ends, quiet in a pipe.

    ticks: whether a thread shows how time passes. A process that forks should have none.
    """
    return Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal, auto_refresh=ticks)


def scenarios_named(names: list[str] | None, disk: str | None, policy: str | None) -> list[Scenario]:
    """Return the scenarios of these names, or all, on one disk or under one policy only. BadParameter: no such."""
    unknown = [name for name in names or () if name not in SCENARIOS]
    if unknown:
        raise typer.BadParameter(f"no scenario {', '.join(unknown)}; `tornlog list` names them")
    try:
        return [
            SCENARIOS[name].narrowed(disk=disk, policy=policy) for name in dict.fromkeys(names or SCENARIOS)
        ]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def seeds_in(seeds: str | None, seed: int | None) -> range | None:
    """Return the seeds that --seeds or --seed ask for, None if neither does."""
    if seed is not None:
        if seeds is not None:
            raise typer.BadParameter("expected --seed or --seeds, found both", param_hint="--seed")
        return range(seed, seed + 1)
    if seeds is None:
        return None
    first, _, last = seeds.rpartition(":")
    try:
        found = range(int(first or 0), int(last))
    except ValueError as error:
        raise typer.BadParameter(f"expected N or A:B, found {seeds}", param_hint="--seeds") from error
    if not found:
        raise typer.BadParameter(f"expected at least one seed, found {seeds}", param_hint="--seeds")
    return found


def seconds_in(text: str) -> float:
    """Return the seconds in a time such as 30s, 5m or 1h."""
    unit = _UNITS.get(text[-1:])
    try:
        found = float(text[:-1]) * unit if unit else float(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"expected a time such as 30s or 5m, found {text}", param_hint="--time"
        ) from error
    if not (found > 0 and isfinite(found)):
        raise typer.BadParameter(f"expected more than 0 and an end, found {text}", param_hint="--time")
    return found


def options_text(**chosen: str | None) -> str:
    """Return the options that a seed needs to be the same run again."""
    return "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)


def write_failures(failures: Iterable[Failure], out: Path | None) -> dict[str, Path]:
    """Write the first failure of each signature, if there is a place for it; return where, by signature."""
    paths: dict[str, Path] = {}
    if out is None:
        return paths
    directory = out / "failures"
    for failure in failures:
        if failure.signature not in paths:
            directory.mkdir(parents=True, exist_ok=True)
            path = paths[failure.signature] = directory / f"{failure.signature}.json"
            path.write_text(failure.to_json())
    return paths


def read_failure(file: Path) -> Failure:
    """Return the failure in a file. BadParameter: it holds none that this version can read."""
    try:
        failure = Failure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, FailureFileError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and find_mutant(failure.mutant) is None:
        raise typer.BadParameter(f"{file}: mutant: there is none named {failure.mutant}")
    return failure

"""The command `plot topics`: draws the cost of many topics."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ....faults.devices.pages import PageCacheLimits
from ...cli.console import OUT, print_paths, with_progress
from ...cli.options import (
    EXIT_HELD,
    HERE,
    JsonFile,
    PicturesDir,
    ResultFiles,
    disks_named,
    picture_formats,
    results_written,
    write_json,
)
from .grid import (
    DEVICES,
    AssumptionCase,
    AssumptionResult,
    GridCell,
    LayoutResult,
    grid_cells,
    measure_each,
    reading_cases,
    reading_in_grid,
    writing_cases,
    writing_in_grid,
)
from .here import TOPICS_HERE, MeasuredHere, measure_here
from .layouts import FLUSHES, LAYOUTS, TOPICS
from .tables import CHECKED_HEADER, HEADER, TableRow, checked_rows, grid_rows, here_rows, print_checked, print_rows

_CHECKED_DISK = "hdd"
_READ_TOPICS_MAX = 1024
"""With more topics reads are not measured, because each topic has few records."""


def topics(
    disk: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(DEVICES)}, or {HERE}: this machine, measured; repeatable."),
    ] = None,
    topics: Annotated[list[int] | None, typer.Option(min=1, max=65536, help="Number of topics; repeatable.")] = None,
    puts: Annotated[int, typer.Option(min=1_000, help="Maximum number of puts per series under async flush.")] = 40_000,
    dirty_mib: Annotated[int, typer.Option(min=1, help="MiB of dirty memory above which writers wait.")] = 32,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="Processes for the simulation; 0: one per core.")] = 0,
    directory: Annotated[
        Path | None, typer.Option("--dir", exists=True, file_okay=False, help=f"For {HERE}: measure in DIR.")
    ] = None,
    out: PicturesDir = Path("out"),
    json_file: JsonFile = None,
) -> None:
    """Draw the cost of many topics, with one log or one per topic.

    One log for all topics is RocketMQ's layout, one log per topic is Kafka's. Producers and late consumers run on
    models of three disks or on this machine. The simulated memory is small, to keep runs short; results depend on the
    memory per topic.
    """
    disks = disks_named(disk or DEVICES, (*DEVICES, HERE))
    pictures = picture_formats(__package__)
    models = [name for name in disks if name != HERE]
    rows: list[LayoutResult] = []
    checked: list[AssumptionResult] = []
    real: list[MeasuredHere] = []
    files, written = list[Path](), ResultFiles()
    checked_disk = _CHECKED_DISK if _CHECKED_DISK in models else next(iter(models), "")
    if models:
        numbers, memory = sorted(set(topics or TOPICS)), PageCacheLimits(dirty_bytes_max=dirty_mib << 20)
        rows, checked = _simulate(models, numbers, checked_disk, puts, memory, seed, jobs)
        with written.writing(), results_written("--out"):
            files += pictures.write_grid_files(rows, out)
            files += pictures.write_assumption_files(checked, checked_disk, out)
    if HERE in disks:
        here = sorted(set(topics or TOPICS_HERE))
        total = len(here) * len(FLUSHES) * len(LAYOUTS)
        with TemporaryDirectory(prefix="tornlog-topics-", dir=directory) as place:
            real += with_progress("measuring this machine", measure_here(place, here), total)
        with written.writing(), results_written("--out"):
            files += pictures.write_here_files(real, out)
    tables = [*grid_rows(rows), *here_rows(real)]
    with written.writing():
        write_json(json_file, _document(tables, checked_rows(checked), files))
    if json_file != "-":
        print_rows(OUT, grid_rows(rows))
        print_checked(OUT, checked_disk, checked_rows(checked))
        print_rows(OUT, here_rows(real))
        print_paths(files)
    written.exit(EXIT_HELD)


def _simulate(
    disks: Sequence[str],
    numbers: Sequence[int],
    checked_disk: str,
    puts: int,
    memory: PageCacheLimits,
    seed: int,
    jobs: int,
) -> tuple[list[LayoutResult], list[AssumptionResult]]:
    """Simulate in parallel the grid, and single changed assumptions on one disk. Return the rows of both."""
    most = numbers[-1]
    readable = max((each for each in numbers if each <= _READ_TOPICS_MAX), default=numbers[0])
    changed = [
        *writing_cases(checked_disk, most, puts, memory, seed),
        *reading_cases(checked_disk, readable, puts, memory, seed),
    ]
    # longest cases first, so that all processes end at about the same time
    cases: list[GridCell | AssumptionCase] = [*changed, *grid_cells(disks, numbers, puts, memory, seed)]
    found = list(with_progress("simulating", measure_each(cases, jobs or os.cpu_count() or 1), len(cases)))
    rows = [one for one in found if isinstance(one, LayoutResult)]
    others = [one for one in found if isinstance(one, AssumptionResult)]
    checked = [*writing_in_grid(rows, checked_disk, most), *(one for one in others if one.sustained)]
    checked += [*reading_in_grid(rows, checked_disk, readable), *(one for one in others if one.few_lag)]
    return rows, checked


def _document(rows: Sequence[TableRow], checked: Sequence[TableRow], files: Sequence[Path]) -> dict[str, Any]:
    return {
        "format": "tornlog-topics/1",
        "rows": [_results_by_name(HEADER, row) for row in rows],
        "assumptions": [_results_by_name(CHECKED_HEADER, row) for row in checked],
        "files": [str(path) for path in files],
    }


def _results_by_name(header: Sequence[str], row: TableRow) -> dict[str, Any]:
    return {name: None if figure == "" else figure for name, figure in zip(header, row, strict=True)}

"""The command that draws what many topics cost.

JSON, version 1: `{"format": "tornlog-topics/1", "rows": [{the columns of topics.csv; null where nothing was measured}],
"assumptions": [{"assumption", "layout", "topics", "puts_per_s", "few_lag_records_per_s"}], "files": [paths]}`. The
columns are told in `reports/studies/topics/tables.py`; source is "simulated", or "real" for `--disk here`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...cli.common import OUT, followed
from ...cli.options import JsonFile, write_json
from ...plotting.drawing import pictures_of
from .assumptions import AssumptionResult, check_reading, check_writing, reading_in_grid, writing_in_grid
from .grid import DEVICES, LayoutResult, cells, measure_grid, memory_of
from .here import TOPICS_HERE, MeasuredHere, measure_here
from .present import print_checked, print_rows
from .setup import FLUSHES, LAYOUTS, TOPICS
from .tables import CHECKED_HEADER, HEADER, TableRow, checked_rows, grid_rows, here_rows

if TYPE_CHECKING:
    pass

HERE = "here"
_CHECKED_DISK = "hdd"
_READ_TOPICS_MOST = 1024
"""With more there are few records in each."""


def topics(
    disk: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(DEVICES)}, or {HERE}: this machine, measured; repeatable."),
    ] = None,
    topics: Annotated[
        list[int] | None, typer.Option(min=1, max=65536, help="How many topics; repeatable.")
    ] = None,
    puts: Annotated[int, typer.Option(min=1_000, help="Of each series under async flush, at most.")] = 40_000,
    dirty_mib: Annotated[
        int, typer.Option(min=1, help="MiB of memory that may be dirty before writers wait.")
    ] = 32,
    seed: Annotated[int, typer.Option(help="Of what is simulated.")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="Processes for what is simulated; 0 for one a core.")] = 0,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", exists=True, file_okay=False, help=f"For {HERE}: measure below DIR."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", file_okay=False, help="Leave pictures and their data in DIR.")
    ] = Path("out"),
    json_file: JsonFile = None,
) -> None:
    """Draw what many topics cost: one log for all of them, as RocketMQ has it, or one for each, as Kafka has it.

    Producers and late consumers, on models of three disks or on this machine. Simulated memory is small, so that
    runs are short: what counts is how much of it there is for each topic.
    """
    disks = list(dict.fromkeys(disk or DEVICES))
    for name in disks:
        if name not in DEVICES and name != HERE:
            raise typer.BadParameter(f"no disk {name}: {', '.join(DEVICES)}, {HERE}", param_hint="--disk")
    pictures = pictures_of(__package__)
    models = [name for name in disks if name != HERE]
    rows: list[LayoutResult] = []
    checked: list[AssumptionResult] = []
    real: list[MeasuredHere] = []
    files: list[Path] = []
    checked_disk = _CHECKED_DISK if _CHECKED_DISK in models else next(iter(models), "")
    if models:
        numbers = sorted(set(topics or TOPICS))
        memory = memory_of(dirty_mib)
        total = len(cells(models, numbers))
        rows = list(
            followed(
                "simulating",
                measure_grid(models, numbers, puts, memory, seed, jobs or os.cpu_count() or 1),
                total,
            )
        )
        files += pictures.leave_grid(rows, out)
        readable = max((each for each in numbers if each <= _READ_TOPICS_MOST), default=numbers[0])
        for known, check, number in (
            (writing_in_grid, check_writing, numbers[-1]),
            (reading_in_grid, check_reading, readable),
        ):
            others = check(checked_disk, number, puts, memory, seed)
            checked += known(rows, checked_disk, number)
            checked += followed("changing assumptions", others, None)
        files += pictures.leave_assumptions(checked, checked_disk, out)
    if HERE in disks:
        real = _measure_here(sorted(set(topics or TOPICS_HERE)), directory)
        files += pictures.leave_here(real, out)
    tables = [*grid_rows(rows), *here_rows(real)]
    write_json(json_file, _document(tables, checked_rows(checked), files))
    if json_file != "-":
        print_rows(OUT, grid_rows(rows))
        print_checked(OUT, checked_disk, checked_rows(checked))
        print_rows(OUT, here_rows(real))
        for path in files:
            OUT.print(str(path), soft_wrap=True, markup=False)


def _measure_here(numbers: Sequence[int], directory: Path | None) -> list[MeasuredHere]:
    """Measure this machine below a directory that is gone afterwards."""
    total = len(numbers) * len(FLUSHES) * len(LAYOUTS)
    with TemporaryDirectory(prefix="tornlog-topics-", dir=directory) as place:
        return list(followed("measuring this machine", measure_here(place, numbers), total))


def _document(rows: Sequence[TableRow], checked: Sequence[TableRow], files: Sequence[Path]) -> dict[str, Any]:
    return {
        "format": "tornlog-topics/1",
        "rows": [_named(HEADER, row) for row in rows],
        "assumptions": [_named(CHECKED_HEADER, row) for row in checked],
        "files": [str(path) for path in files],
    }


def _named(header: Sequence[str], row: TableRow) -> dict[str, Any]:
    return {name: None if figure == "" else figure for name, figure in zip(header, row, strict=True)}

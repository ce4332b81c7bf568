"""Part of the command `plot latency`: measures turns, and writes figures, tables and JSON."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import typer

from ....cli.console import OUT, print_note, print_paths, with_progress
from ....cli.options import EXIT_HELD, ResultFiles, results_written, write_json
from .device import has_direct_writes
from .file_system import measure_syncs
from .memory_limit import MemoryLimitUnavailable
from .paired import paired_differences
from .process import StoreProcessFailed
from .tables import (
    HEADER,
    MODEL_HEADER,
    PAIRED_HEADER,
    by_cell,
    cell_rows,
    model_rows,
    notes,
    paired_rows,
    print_turns,
    sync_notes,
)
from .turns import MeasuredTurn, TurnPlan, measure_turns

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size_named(text: str | None, option: str) -> int | None:
    """Return the bytes of a size such as 256MiB. Raises BadParameter."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB)(?:/s)?", text)
    if found is None or int(found[1]) == 0:
        raise typer.BadParameter(f"expected a size such as 256MiB, found {text}", param_hint=option)
    return int(found[1]) * _UNITS[found[2]]


def measure_conditions(plan: TurnPlan, directory: Path | None, out: Path, json_file: str | None) -> NoReturn:
    """Measure and report a plan below a directory, and exit."""
    report_turns(*measured_plan(plan, directory), out, json_file)


def measured_plan(plan: TurnPlan, directory: Path | None) -> tuple[TurnPlan, list[MeasuredTurn]]:
    """Measure a plan below a directory. Return it with the costs of syncs, and the turns."""
    try:
        with TemporaryDirectory(prefix="tornlog-latency-", dir=directory) as place:
            plan = plan._replace(syncs=measure_syncs(Path(place)))
            if plan.extra is not None and not has_direct_writes(Path(place)):
                print_note(
                    "this file system has no direct writes (O_DIRECT): the disk is not measured, and no model runs"
                )
                plan = plan._replace(extra=None)
            cells = len(plan.cells())
            total = plan.turns * (cells + cells // len(plan.sources) if plan.extra else cells)
            return plan, list(with_progress("measuring this machine", measure_turns(plan, Path(place)), total))
    except (MemoryLimitUnavailable, StoreProcessFailed) as error:
        is_limited = any(one.memory_bytes is not None for one in plan.conditions)
        raise typer.BadParameter(str(error), param_hint="--memory" if is_limited else "--disk") from error


def report_turns(plan: TurnPlan, turns: list[MeasuredTurn], out: Path, json_file: str | None) -> NoReturn:
    """Write and print the turns of a plan, and exit."""
    from .pictures import write_turns_files  # needs matplotlib

    order = plan.cells()  # then the model's, in their order
    turns.sort(key=lambda turn: order.index(turn.cell) if turn.cell in order else len(order))
    cells, differences = by_cell(turns), list(paired_differences(turns))
    found_notes = [*sync_notes(plan.syncs), *notes(cells)]
    files, written = list[Path](), ResultFiles()
    with written.writing(), results_written("--out"):
        files += write_turns_files(cells, differences, plan.syncs, out)
    with written.writing():
        write_json(
            json_file,
            {
                "format": "tornlog-latency-turns/1",
                "rows": [dict(zip(HEADER, row, strict=True)) for row in cell_rows(cells)],
                "paired": [dict(zip(PAIRED_HEADER, row, strict=True)) for row in paired_rows(differences)],
                "model": [dict(zip(MODEL_HEADER, row, strict=True)) for row in model_rows(cells)],
                "notes": found_notes,
                "files": [str(path) for path in files],
            },
        )
    if json_file != "-":
        print_turns(OUT, cells, differences)
        for note in found_notes:
            OUT.print(note, soft_wrap=True)
        print_paths(files)
    written.exit(EXIT_HELD)

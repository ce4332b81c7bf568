"""The command `plot latency`: draws put latencies of simulated disks, or of this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from .real.command import measure_conditions, size_named
from .real.model import MachineModel
from .real.turns import TurnPlan, conditions_with
from .simulated import DISKS, PRODUCERS, grid_cells, group_commit, measure_grid, rollover, slow_syncs
from .tables import HEADER, grid_rows, print_rows, slowest_text

if TYPE_CHECKING:
    from types import ModuleType

_PRODUCERS_HERE = 4
_EFFECT_PUTS, _ROLLOVER_DISK, _SLOW_DISK = 4_000, "hdd", "sata-ssd"


def latency(
    disk: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(DISKS)}; repeatable. Or {HERE}: measure this machine."),
    ] = None,
    producers: Annotated[
        list[int] | None, typer.Option(min=1, help="Number of concurrent producers; repeatable.")
    ] = None,
    puts: Annotated[int, typer.Option(min=100, help="Puts per simulated series.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    turns: Annotated[int, typer.Option(min=1, help=f"For {HERE}: turns of the measurement.")] = 20,
    directory: Annotated[
        Path | None, typer.Option("--dir", exists=True, file_okay=False, help=f"For {HERE}: measure in DIR.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help=f"For {HERE}: also with a memory limit, such as 256MiB.")
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(metavar="RATE", help=f"For {HERE}: also while a process writes and syncs at RATE per second."),
    ] = None,
    out: PicturesDir = Path("out"),
    json_file: JsonFile = None,
) -> None:
    """Draw put latencies by flush mode, disk and number of producers.

    Puts arrive independently of earlier answers, so percentiles include the time that a put waits for earlier puts.
    """
    disks = disks_named(disk or DISKS, (*DISKS, HERE))
    conditions = conditions_with(size_named(memory, "--memory"), size_named(load, "--load"))
    if disks != [HERE] and (HERE in disks or len(conditions) > 1):
        option = "--load" if load else "--memory" if memory else "--disk"
        raise typer.BadParameter(f"expected --disk {HERE} alone", param_hint=option)
    pictures = picture_formats(__package__)
    numbers = sorted(set(producers or ([_PRODUCERS_HERE] if disks == [HERE] else PRODUCERS)))
    if disks == [HERE]:
        measure_conditions(TurnPlan(conditions, numbers, turns, extra=MachineModel), directory, out, json_file)
    found = measure_grid(disks, numbers, puts, seed)
    total = len(grid_cells(disks, numbers))
    measured = list(with_progress("simulating", found, total, lambda one: f"{one.disk}, {one.setup.flush}"))
    files, written = list[Path](), ResultFiles()
    with written.writing(), results_written("--out"):
        files += pictures.write_grid_files(measured, out)
        files += _write_effects(pictures, disks, numbers, out)
    rows = grid_rows(measured)
    with written.writing():
        write_json(
            json_file,
            {
                "format": "tornlog-latency/1",
                "rows": [dict(zip(HEADER, row, strict=True)) for row in rows],
                "files": [str(path) for path in files],
            },
        )
    if json_file != "-":
        print_rows(OUT, rows)
        OUT.print(slowest_text(measured), soft_wrap=True)
        print_paths(files)
    written.exit(EXIT_HELD)


def _write_effects(pictures: "ModuleType", disks: Sequence[str], producers: Sequence[int], out: Path) -> list[Path]:
    rollover_disk = _ROLLOVER_DISK if _ROLLOVER_DISK in disks else disks[0]
    slow_disk = _SLOW_DISK if _SLOW_DISK in disks else disks[0]
    files: list[Path] = pictures.write_effects_files(
        list(
            with_progress(
                "group commit", group_commit(disks, producers, _EFFECT_PUTS // 4), len(disks) * len(producers)
            )
        ),
        list(with_progress("rollover", rollover(rollover_disk, _EFFECT_PUTS), None)),
        list(with_progress("slow syncs", slow_syncs(slow_disk, _EFFECT_PUTS), None)),
        out,
        rollover_disk=rollover_disk,
        slow_disk=slow_disk,
    )
    return files

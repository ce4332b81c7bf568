"""The command `plot recovery`: draws recovery times."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from ...cli.console import OUT, plain_table, print_paths, with_progress
from ...cli.options import EXIT_HELD, JsonFile, PicturesDir, ResultFiles, picture_formats, results_written, write_json
from ...quantities import duration_text
from .timed import HEADER, RecoveryTime, cases_by_distance, cases_by_size, measure_recovery, recovery_rows

_MIB = 1 << 20
_SIZES = (16 * _MIB, 64 * _MIB, 256 * _MIB, 512 * _MIB)


def recovery(
    log_bytes: Annotated[
        list[int] | None, typer.Option(min=_MIB, help="Size of the log in bytes; repeatable. [default: 16 to 512 MiB]")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Turns for each case; the median counts.")] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", exists=True, file_okay=False, help="Directory in which to measure.")
    ] = None,
    out: PicturesDir = Path("out"),
    json_file: JsonFile = None,
) -> None:
    """Draw recovery times by log size and distance to the checkpoint.

    The stores on this machine were stopped or crashed. Recovery scans the whole log or starts at the checkpoint.
    """
    pictures = picture_formats(__package__)
    sizes = sorted(set(log_bytes or _SIZES))
    total = len(sizes) * len(cases_by_size()) + len(cases_by_distance(max(sizes)))
    with TemporaryDirectory(prefix="tornlog-recovery-", dir=directory) as place:
        found = list(with_progress("recovering", measure_recovery(place, sizes, turns), total))
    files, written = list[Path](), ResultFiles()
    with written.writing(), results_written("--out"):
        files += pictures.write_recovery_files(found, out)
    if json_file is not None:
        rows = [dict(zip(HEADER, row, strict=True)) for row in recovery_rows(found)]
        document = {"format": "tornlog-recovery/1", "rows": rows, "files": [str(path) for path in files]}
        with written.writing():
            write_json(json_file, document)
    if json_file != "-":
        _print_result(OUT, found)
        print_paths(files)
    written.exit(EXIT_HELD)


def _print_result(console: Console, found: list[RecoveryTime]) -> None:
    figures = ("log", "after\ncheckpoint", "read", "all", "scan", "queues", "syncs", "index")
    table = plain_table("recovery; sizes in MiB", ("after", "scan"), figures)
    for row in recovery_rows(found):
        named = dict(zip(HEADER, row, strict=True))
        sizes = (named["log_bytes"], named["behind_checkpoint_bytes"], named["scanned_bytes"])
        times = (named[name] for name in ("total_s", "scan_s", "queues_s", "durable_s", "index_s"))
        table.add_row(
            named["exit"],
            "whole" if named["recover_whole_log"] else "part",
            *(f"{size / _MIB:.0f}" for size in sizes),
            *(duration_text(seconds * 1e6) for seconds in times),
        )
    console.print(table)

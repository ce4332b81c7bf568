"""The command that measures."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import TextColumn

from ..cli.common import OUT, progress_bar
from ..cli.options import JsonFile, write_json
from . import BenchSettings, run_bench, select
from .table import print_bench


def bench(
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each figure; the median counts.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Only figures with TEXT in their name; repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="One round of everything in small: a look, not a record.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", exists=True, file_okay=False, help="Measure below DIR, not in /tmp."),
    ] = None,
    log_bytes: Annotated[int, typer.Option(min=1, help="Size of the log that recovery scans.")] = 1 << 30,
    json_file: JsonFile = None,
) -> None:
    """Measure what the harness and the store do in a second."""
    settings = BenchSettings(None if directory is None else str(directory.resolve()), log_bytes=log_bytes)
    if quick:
        settings, rounds = settings.quick(), 1
    try:
        select(only or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from error
    with progress_bar(TextColumn("{task.description}")) as progress:
        bar = progress.add_task("")
        figures = run_bench(
            rounds, lambda name: progress.update(bar, description=name), settings, tuple(only or ())
        )
    document = {"format": "tornlog-bench/1", "figures": [figure.to_json() for figure in figures]}
    write_json(json_file, document)
    if json_file != "-":
        print_bench(OUT, figures, rounds)

"""`tornlog bench`: measure what the harness and the store do in a second, and print it as tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..cli.common import OUT, plain_table, progress_shown
from ..cli.options import JsonFile, write_json
from .figure import Figure
from .real_store import why_missing
from .suite import run_bench, select
from .workplace import BenchSettings


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
    with progress_shown() as update:
        figures = run_bench(rounds, lambda name: update(description=name), settings, tuple(only or ()))
    write_json(json_file, {"format": "tornlog-bench/1", "figures": [figure.to_json() for figure in figures]})
    if json_file != "-":
        print_bench(OUT, figures, rounds)


def print_bench(console: Console, figures: Sequence[Figure], rounds: int) -> None:
    """Print the rates, and below them how long single calls took."""
    console.print(bench_table(figures, rounds))
    if why_missing():
        console.print(f"the real store was not measured: {why_missing()}", soft_wrap=True)
    if any(figure.latency for figure in figures):
        console.print()
        console.print(latency_table(figures))


def bench_table(figures: Sequence[Figure], rounds: int) -> Table:
    """Return one row a figure, red if it misses its limit; the title says how busy the machine was."""
    loads = [load for figure in figures for load in figure.loads]
    busy = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    table = plain_table(f"medians of {rounds}{busy}", ("what",), ("median", "least", "most", "limit", "unit"))
    for figure in figures:
        rates = (figure.median, min(figure.samples), max(figure.samples))
        limit = "" if figure.floor is None else rate_text(figure.floor)
        if figure.ceiling is not None:
            limit = f"< {rate_text(figure.ceiling)}"
        style = "red" if figure.is_missed else ""
        table.add_row(figure.name, *map(rate_text, rates), limit, figure.unit, style=style)
    return table


def latency_table(figures: Sequence[Figure]) -> Table:
    """Return one row for each figure whose calls were timed, in µs."""
    title = "µs a call: medians of p50 and p99, the longest of all"
    table = plain_table(title, ("what",), ("p50", "p99", "max"))
    for figure in figures:
        if figure.latency is not None:
            table.add_row(figure.name, *(f"{one:,.0f}" for one in figure.latency))
    return table


def rate_text(rate: float) -> str:
    """Return a rate with as many digits as say something."""
    return f"{rate:,.0f}" if rate >= 100 or rate.is_integer() else f"{rate:,.2f}"

"""How figures read on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ..present import plain_table
from .figure import Figure


def tell_bench(console: Console, figures: Sequence[Figure], rounds: int) -> None:
    """Print the rates, and below them how long single calls took."""
    console.print(bench_table(figures, rounds))
    if any(figure.latency for figure in figures):
        console.print()
        console.print(latency_table(figures))


def bench_table(figures: Sequence[Figure], rounds: int) -> Table:
    """Return one row a figure, red below its floor; the title says how busy the machine was."""
    loads = [load for figure in figures for load in figure.loads]
    busy = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    table = plain_table(f"medians of {rounds}{busy}", ("what",), ("median", "least", "most", "floor", "unit"))
    for figure in figures:
        rates = (figure.median, min(figure.samples), max(figure.samples))
        floor = "" if figure.floor is None else _rate(figure.floor)
        style = "red" if figure.is_below_floor else ""
        table.add_row(figure.name, *map(_rate, rates), floor, figure.unit, style=style)
    return table


def latency_table(figures: Sequence[Figure]) -> Table:
    """Return one row for each figure whose calls were timed, in µs."""
    table = plain_table(
        "µs a call: medians of p50 and p99, the longest of all", ("what",), ("p50", "p99", "max")
    )
    for figure in figures:
        if figure.latency is not None:
            table.add_row(figure.name, *(f"{one:,.0f}" for one in figure.latency))
    return table


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 or rate.is_integer() else f"{rate:,.2f}"

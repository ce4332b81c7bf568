"""How latencies read on a terminal."""

from collections.abc import Sequence

from rich.console import Console

from ...cli.common import plain_table
from ...durations import duration
from .comparison import COLUMNS, LatencyComparison
from .quantiles import percentiles_us
from .tables import Row

_AGREES = 0.25
"""How far from 1 a ratio may be before it is shown in red."""


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """Print one line a series: its percentiles."""
    if not rows:
        return
    table = plain_table("simulated puts", ("disk", "flush"), ("producers", "puts/s", *COLUMNS, "most"))
    for _, disk, flush, producers, rate, _, *found in rows:
        table.add_row(disk, flush, str(producers), f"{rate:,.0f}", *(duration(us) for us in found))
    console.print(table)


def print_here(console: Console, comparisons: Sequence[LatencyComparison]) -> None:
    """Print what this machine did, and the simulation of it as a multiple of that."""
    if not comparisons:
        return
    figures = [text for name in COLUMNS for text in (name, "sim.")]
    table = plain_table(
        "this machine, and the simulation as a multiple of it", ("flush",), ("producers", *figures)
    )
    for one in comparisons:
        found = zip(percentiles_us(one.real_ns), one.ratios(), strict=True)
        cells = [text for us, ratio in found for text in (duration(us), _ratio(ratio))]
        table.add_row(one.flush, str(one.producers), *cells)
    console.print(table)


def _ratio(ratio: float) -> str:
    text = f"{ratio:.2f}"
    return text if abs(ratio - 1) <= _AGREES else f"[red]{text}[/red]"

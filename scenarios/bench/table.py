"""How figures read on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ..present import plain_table
from .figure import Figure
from .peers import PEERS
from .real_store import why_missing


def tell_bench(console: Console, figures: Sequence[Figure], rounds: int) -> None:
    """Print the rates, and below them how long single calls took."""
    console.print(bench_table(figures, rounds))
    if why_missing():
        console.print(f"the real store was not measured: {why_missing()}", soft_wrap=True)
    if any(figure.latency for figure in figures):
        console.print()
        console.print(latency_table(figures))
    if any(figure.per_second for figure in figures):
        console.print()
        console.print(peers_table(figures))
        console.print()
        console.print(facts_table())
        for peer in PEERS:
            console.print(f"{peer.name}: {peer.beware}", soft_wrap=True)


def bench_table(figures: Sequence[Figure], rounds: int) -> Table:
    """Return one row a figure, red if it misses its limit; the title says how busy the machine was."""
    loads = [load for figure in figures for load in figure.loads]
    busy = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    table = plain_table(f"medians of {rounds}{busy}", ("what",), ("median", "least", "most", "limit", "unit"))
    for figure in figures:
        rates = (figure.median, min(figure.samples), max(figure.samples))
        limit = "" if figure.floor is None else _rate(figure.floor)
        if figure.ceiling is not None:
            limit = f"< {_rate(figure.ceiling)}"
        style = "red" if figure.is_missed else ""
        table.add_row(figure.name, *map(_rate, rates), limit, figure.unit, style=style)
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


def peers_table(figures: Sequence[Figure]) -> Table:
    """Return one row for each tool, measured or not: how much of the mini workload it does in a second."""
    by_name = {figure.name: figure for figure in figures}
    columns = ("runs/s", "operations/s", "own events/s")
    table = plain_table("the mini workload with the nearest tools", ("tool",), columns)
    for peer in PEERS:
        figure = by_name.get(peer.figure_name)
        if figure is None:
            table.add_row(peer.name, "not installed" if peer.version is None else "not measured", "", "")
        else:
            events = f"{_rate(figure.median_per_second('events'))} {peer.events}"
            operations = _rate(figure.median_per_second("operations"))
            table.add_row(f"{peer.name} {peer.version}", _rate(figure.median), operations, events)
    return table


def facts_table() -> Table:
    """Return one row for each tool: what it can do, as its documentation says."""
    table = plain_table("what they can do", ("tool", "replays from", "shrinks", "torn writes"), ())
    for peer in PEERS:
        table.add_row(peer.name, peer.replays, peer.shrinks, peer.torn_writes)
    return table


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 or rate.is_integer() else f"{rate:,.2f}"

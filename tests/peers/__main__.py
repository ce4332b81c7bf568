"""`python -m tests.peers`: similar tools on the mini workload.

Rounds are interleaved on the same machine; tools that are not installed are named.
"""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.bench.command import BenchSettings, Measurement, measured
from tests.bench.figure import Figure
from tests.bench.tables import bench_table, rate_text
from tornlog.reports.cli.console import OUT, plain_table, show_progress

from . import PEERS, Peer


def measurement_of(peer: Peer) -> Measurement:
    return Measurement(peer.figure_name, "runs/s", None, lambda place: peer.measure())


def main(rounds: Annotated[int, typer.Option(min=1, help="The median counts.")] = 5) -> None:
    """Measure how often a second each tool runs the mini workload to a power cut and judges what is left."""
    wanted = [measurement_of(peer) for peer in PEERS if peer.version is not None]
    with show_progress() as update:
        figures = measured(wanted, rounds, lambda name: update(description=name), BenchSettings())
    print_peers(OUT, figures, rounds)


def print_peers(console: Console, figures: Sequence[Figure], rounds: int) -> None:
    """Print the rates, the events per second, the abilities of each tool, and notes on its figures."""
    for table in (bench_table(figures, rounds), peers_table(figures), facts_table()):
        console.print(table)
        console.print()
    for peer in PEERS:
        console.print(f"{peer.name}: {peer.beware}", soft_wrap=True)


def peers_table(figures: Sequence[Figure]) -> Table:
    """Return one row per tool, measured or not: rates on the mini workload."""
    by_name = {figure.name: figure for figure in figures}
    columns = ("runs/s", "operations/s", "own events/s")
    table = plain_table("the mini workload with the nearest tools", ("tool",), columns)
    for peer in PEERS:
        figure = by_name.get(peer.figure_name)
        if figure is None:
            table.add_row(peer.name, "not installed" if peer.version is None else "not measured", "", "")
        else:
            events = f"{rate_text(figure.median_per_second('events'))} {peer.events}"
            operations = rate_text(figure.median_per_second("operations"))
            table.add_row(f"{peer.name} {peer.version}", rate_text(figure.median), operations, events)
    return table


def facts_table() -> Table:
    """Return one row per tool: abilities according to its documentation."""
    table = plain_table("what they can do", ("tool", "replays from", "shrinks", "torn writes"), ())
    for peer in PEERS:
        table.add_row(peer.name, peer.replays, peer.shrinks, peer.torn_writes)
    return table


if __name__ == "__main__":
    typer.run(main)

"""An analysis on the terminal: sums, where the files have every cell."""

from collections import Counter
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ....scenarios.campaigns.failures.print_failure import prose
from ...cli.common import plain_table
from ...quantities import rate
from .analysis import never

_BROKEN_TOLD = 20
Sums = dict[tuple[str, ...], Counter[str]]
"""Seeds, by what came of them, of each group of rows."""


def print_analysis(console: Console, tables: dict[str, pa.Table]) -> None:
    """Print the tables of an analysis, those without a row left out."""
    rates = tables["pass_rates"].to_pylist()
    for whose, some in (
        ("the store as it is", [row for row in rates if row["mutant"] is None]),
        ("mutants", [row for row in rates if row["mutant"] is not None]),
    ):
        if some:
            console.print(_scenarios_table(f"pass rates of {whose}", _sums(some, ("scenario",))))
            cells = _sums(some, ("scenario", "disk", "policy"))
            broken = {cell: counts for cell, counts in cells.items() if counts["held"] < counts["seeds"]}
            if broken:
                console.print(_broken_table(broken))
    if tables["mutants"].num_rows:
        console.print(_mutants_table(tables["mutants"].to_pylist()))
    console.print(_coverage_table(tables["coverage"].to_pylist()))
    for what in ("fault", "mark"):
        missing = never(tables["coverage"], what)
        if missing:
            prose(console, 0, f"{what}s that never came about: {', '.join(missing)}")
    if tables["put_latency"].num_rows:
        console.print(_latency_table(tables["put_latency"].to_pylist()))


def _sums(rates: list[dict[str, Any]], by: tuple[str, ...]) -> Sums:
    sums: Sums = {}
    for row in rates:
        counts = {name: row[name] for name in ("seeds", "held", "violated", "other")}
        sums.setdefault(tuple(row[name] or "-" for name in by), Counter()).update(counts)
    return sums


def _scenarios_table(title: str, sums: Sums) -> Table:
    table = plain_table(title, ("scenario",), ("seeds", "broken", "other", "rate in %, at 95 %"))
    for (scenario,), counts in sorted(sums.items()):
        figures = (f"{counts[name]:,}" for name in ("seeds", "violated", "other"))
        table.add_row(scenario, *figures, rate(counts["held"], counts["seeds"]))
    return table


def _broken_table(broken: Sums) -> Table:
    worst = sorted(broken, key=lambda cell: (broken[cell]["held"] / broken[cell]["seeds"], cell))
    told = worst[:_BROKEN_TOLD]
    title = f"where it broke, {len(told)} of {len(worst)} combinations, the worst first"
    table = plain_table(title, ("scenario", "disk", "policy"), ("rate in %, at 95 %",))
    for cell in told:
        table.add_row(*cell, rate(broken[cell]["held"], broken[cell]["seeds"]))
    return table


def _mutants_table(mutants: list[dict[str, Any]]) -> Table:
    found = sum(row["found"] for row in mutants)
    title = f"{found} of {len(mutants)} mutants found; median over scenarios"
    table = plain_table(title, ("mutant", "by"), ("seeds", "seconds", "found\nin", "median\nseeds"))
    for row in mutants:
        table.add_row(
            row["mutant"],
            row["invariant"] or "-",
            f"{row['seeds']:,}",
            f"{row['seconds']:.1f}",
            f"{row['found_in']} of {row['scenarios']}",
            "-" if row["median_seeds"] is None else f"{row['median_seeds']:,.0f}",
        )
    return table


def _coverage_table(coverage: list[dict[str, Any]]) -> Table:
    table = plain_table("injected faults and marks that were hit", ("what", "name"), ("times", "seeds"))
    for row in coverage:
        if row["seeds"] and row["what"] != "end":
            table.add_row(row["what"], row["name"], f"{row['times']:,}", f"{row['seeds']:,}")
    return table


def _latency_table(latencies: list[dict[str, Any]]) -> Table:
    percentiles = ("p50_us", "p90_us", "p99_us", "p99_9_us", "max_us")
    table = plain_table(
        "puts answered OK, by how many producers, in ms of virtual time",
        ("flush", "disk", "by"),
        ("puts", *(name.removesuffix("_us").replace("_", ".") for name in percentiles)),
    )
    for row in latencies:
        table.add_row(
            "sync" if row["sync_flush"] else "async",
            row["disk"],
            str(row["producers"]),
            f"{row['puts']:,}",
            *(f"{row[name] / 1000:,.1f}" for name in percentiles),
        )
    return table

"""How topics read on a terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ...cli.common import plain_table
from ...durations import duration
from .tables import HEADER, TableRow


def print_rows(console: Console, rows: Sequence[TableRow]) -> None:
    """Print a table for each disk, one line a row: what is sustained, latencies, what late consumers get."""
    named = [dict(zip(HEADER, row, strict=True)) for row in rows]
    for disk in dict.fromkeys(row["disk"] for row in named):
        mine = [row for row in named if row["disk"] == disk]
        table = plain_table(
            f"{mine[0]['source']}, {disk}",
            ("layout", "flush"),
            ("topics", "puts/s", "p50", "p99", "all late\nrecords/s", "few late\nrecords/s"),
        )
        for row in mine:
            table.add_row(
                row["layout"],
                row["flush"],
                str(row["topics"]),
                _rate(row["puts_per_s"]),
                duration(row["p50_us"]),
                duration(row["p99_us"]),
                _rate(row["all_lag_records_per_s"]),
                _rate(row["few_lag_records_per_s"]),
            )
        console.print(table)


def print_checked(console: Console, disk: str, rows: Sequence[TableRow]) -> None:
    """Print one line for each assumption that was changed, and layout."""
    if not rows:
        return
    table = plain_table(
        f"what single assumptions decide, {disk}",
        ("assumption", "layout"),
        ("topics", "puts/s", "few late\nrecords/s"),
    )
    for assumption, layout, topics, puts_per_s, records_per_s in rows:
        table.add_row(assumption, layout, str(topics), _rate(puts_per_s), _rate(records_per_s))
    console.print(table)


def _rate(figure: Any) -> str:
    return "" if figure == "" else f"{figure:,.0f}"

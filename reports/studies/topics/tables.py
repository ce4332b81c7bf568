"""Tables of topics: rows for CSV files, lines on a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from ...cli.common import plain_table
from ...quantities import duration
from .grid import RATES, AssumptionResult, LayoutResult
from .here import MeasuredHere
from .workload import CaughtUp

HEADER = (
    "source",
    "disk",
    "layout",
    "flush",
    "topics",
    "puts_per_s",
    "busy_share",
    "rate_per_s",
    "p50_us",
    "p99_us",
    "max_us",
    "busy_share_at_rate",
    "all_lag_records_per_s",
    "all_lag_read_bytes_per_record",
    "few_lag_records_per_s",
    "few_lag_read_bytes_per_record",
    "tail_records_per_s",
    "put_cpu_us",
    "pull_cpu_us",
)
"""One row for each layout, flush, disk and number of topics; empty where nothing was measured.

source: simulated or real. puts_per_s: of a closed loop, with busy_share, the share of the time in which the device was
busy meanwhile; the latencies are of puts that arrive at rate_per_s. all_lag, few_lag: consumers of all topics, or of
eight, who read what only the disk has; tail: those who read what was just put. put_cpu_us, pull_cpu_us: processor time.
"""

CHECKED_HEADER = ("assumption", "layout", "topics", "puts_per_s", "few_lag_records_per_s")
"""One row for each assumption that was changed, on one disk."""

TableRow = Sequence[Any]
_NOTHING = ("",) * 4


def grid_rows(rows: Iterable[LayoutResult]) -> list[TableRow]:
    """Return a row for each of the grid's."""
    return [
        (
            "simulated",
            row.disk,
            row.variant,
            row.flush,
            row.topics,
            round(row.at_full.sustained.puts_per_second, 1),
            round(row.at_full.sustained.busy_share, 4),
            RATES[row.flush],
            round(row.at_rate.p50_us, 1),
            round(row.at_rate.p99_us, 1),
            round(row.at_rate.most_us, 1),
            round(row.at_rate.busy_share, 4),
            *_consumed(row.at_full.late and row.at_full.late.all_lag),
            *_consumed(row.at_full.late and row.at_full.late.few_lag),
            *_NOTHING[:3],
        )
        for row in rows
    ]


def here_rows(found: Iterable[MeasuredHere]) -> list[TableRow]:
    """Return a row for each layout, flush and number of topics on this machine."""
    return [
        (
            "real",
            "here",
            one.variant,
            one.flush,
            one.topics,
            round(one.puts_per_second, 1),
            "",
            one.rate,
            round(one.p50_us, 1),
            round(one.p99_us, 1),
            round(one.most_us, 1),
            "",
            *_or_nothing(one.all_lag_per_second, 1),
            *_or_nothing(one.all_lag_read_bytes, 0),
            *_or_nothing(one.few_lag_per_second, 1),
            *_or_nothing(one.few_lag_read_bytes, 0),
            *_or_nothing(one.tail_per_second, 1),
            round(one.put_cpu_us, 2),
            *_or_nothing(one.pull_cpu_us, 2),
        )
        for one in found
    ]


def checked_rows(found: Iterable[AssumptionResult]) -> list[TableRow]:
    """Return a row for each assumption and layout."""
    return [
        (
            one.assumption,
            one.layout,
            one.topics,
            "" if one.sustained is None else round(one.sustained.puts_per_second, 1),
            _consumed(one.few_lag)[0],
        )
        for one in found
    ]


def _consumed(found: CaughtUp | None) -> TableRow:
    if found is None:
        return _NOTHING[:2]
    return round(found.records_per_second, 1), round(found.read_bytes_per_record)


def _or_nothing(figure: float | None, digits: int) -> TableRow:
    return ("",) if figure is None else (round(figure, digits),)


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
            puts, every, few = (
                _rate(row[f"{name}_per_s"]) for name in ("puts", "all_lag_records", "few_lag_records")
            )
            latencies = (duration(row["p50_us"]), duration(row["p99_us"]))
            table.add_row(row["layout"], row["flush"], str(row["topics"]), puts, *latencies, every, few)
        console.print(table)


def print_checked(console: Console, disk: str, rows: Sequence[TableRow]) -> None:
    """Print one line for each assumption that was changed, and layout."""
    if not rows:
        return
    title = f"what single assumptions decide, {disk}"
    table = plain_table(title, ("assumption", "layout"), ("topics", "puts/s", "few late\nrecords/s"))
    for assumption, layout, topics, puts_per_s, records_per_s in rows:
        table.add_row(assumption, layout, str(topics), _rate(puts_per_s), _rate(records_per_s))
    console.print(table)


def _rate(figure: Any) -> str:
    return "" if figure == "" else f"{figure:,.0f}"

"""Tables of topics: makes rows for CSV files, and terminal output."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from ...cli.console import plain_table
from ...quantities import duration_text
from .grid import RATES, AssumptionResult, LayoutResult
from .here import MeasuredHere
from .workload import CaughtUp

HEADER = (
    *("source", "disk", "layout", "flush", "topics", "puts_per_s", "busy_share"),
    *("rate_per_s", "p50_us", "p99_us", "max_us", "busy_share_at_rate"),
    *("all_lag_records_per_s", "all_lag_read_bytes_per_record"),
    *("few_lag_records_per_s", "few_lag_read_bytes_per_record"),
    *("tail_records_per_s", "put_cpu_us", "pull_cpu_us"),
)
"""One row per layout, flush mode, disk and number of topics. Cells without a measurement are empty.

source: simulated or real. puts_per_s and busy_share (the share of time in which the device was busy) were measured in a
closed loop; latencies are those of puts that arrive at rate_per_s. all_lag, few_lag: consumers of all topics, or of
eight topics, that read only from the disk; tail: consumers of new records. put_cpu_us, pull_cpu_us: CPU time.
"""

CHECKED_HEADER = ("assumption", "layout", "topics", "puts_per_s", "few_lag_records_per_s")
"""One row per changed assumption on one disk."""

TableRow = Sequence[Any]
_NOTHING = ("",) * 4


def grid_rows(rows: Iterable[LayoutResult]) -> list[TableRow]:
    found: list[TableRow] = []
    for row in rows:
        sustained, late = row.at_full
        *latencies, busy_share = row.at_rate
        which = ("simulated", row.disk, row.variant, row.flush, row.topics)
        puts = (round(sustained.puts_per_second, 1), round(sustained.busy_share, 4))
        arriving = (RATES[row.flush], *(round(us, 1) for us in latencies), round(busy_share, 4))
        lag = (*_consumed(late and late.all_lag), *_consumed(late and late.few_lag))
        found.append((*which, *puts, *arriving, *lag, *_NOTHING[:3]))
    return found


def here_rows(found: Iterable[MeasuredHere]) -> list[TableRow]:
    rows: list[TableRow] = []
    for one in found:
        which = ("real", "here", one.variant, one.flush, one.topics)
        arriving = (one.rate, *(round(us, 1) for us in (one.p50_us, one.p99_us, one.most_us)), "")
        all_lag = (_rounded(one.all_lag_per_second, 1), _rounded(one.all_lag_read_bytes, 0))
        few_lag = (_rounded(one.few_lag_per_second, 1), _rounded(one.few_lag_read_bytes, 0))
        costs = (round(one.put_cpu_us, 2), _rounded(one.pull_cpu_us, 2))
        puts, tail = round(one.puts_per_second, 1), _rounded(one.tail_per_second, 1)
        rows.append((*which, puts, "", *arriving, *all_lag, *few_lag, tail, *costs))
    return rows


def checked_rows(found: Iterable[AssumptionResult]) -> list[TableRow]:
    return [
        (one.assumption, one.layout, one.topics, _rounded(puts_per_s, 1), _consumed(one.few_lag)[0])
        for one in found
        for puts_per_s in [None if one.sustained is None else one.sustained.puts_per_second]
    ]


def _consumed(found: CaughtUp | None) -> TableRow:
    if found is None:
        return _NOTHING[:2]
    return round(found.records_per_second, 1), round(found.read_bytes_per_record)


def _rounded(figure: float | None, digits: int) -> float | str:
    return "" if figure is None else round(figure, digits)


def print_rows(console: Console, rows: Sequence[TableRow]) -> None:
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
                _rounded_rate(row[f"{name}_per_s"]) for name in ("puts", "all_lag_records", "few_lag_records")
            )
            latencies = (duration_text(row["p50_us"]), duration_text(row["p99_us"]))
            table.add_row(row["layout"], row["flush"], str(row["topics"]), puts, *latencies, every, few)
        console.print(table)


def print_checked(console: Console, disk: str, rows: Sequence[TableRow]) -> None:
    if not rows:
        return
    title = f"effects of single assumptions, {disk}"
    table = plain_table(title, ("assumption", "layout"), ("topics", "puts/s", "few late\nrecords/s"))
    for assumption, layout, topics, puts_per_s, records_per_s in rows:
        table.add_row(assumption, layout, str(topics), _rounded_rate(puts_per_s), _rounded_rate(records_per_s))
    console.print(table)


def _rounded_rate(figure: Any) -> str:
    return "" if figure == "" else f"{figure:,.0f}"

"""Tables of simulated latencies: makes rows of CSV files, curves, and terminal output."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console

from ...cli.console import plain_table
from ...quantities import LATENCY_COLUMNS, count_text, duration_text, percentiles_us
from .simulated import EffectSeries, LatencySeries, Series

_FIGURES = (*(f"{one}_us" for one in LATENCY_COLUMNS), "max_us")
HEADER = ("source", "disk", "condition", "flush", "producers", "rate_per_s", "puts", *_FIGURES)
"""One row per series."""
CURVE_HEADER = ("source", "disk", "condition", "flush", "producers", "latency_us", "share_slower")
"""One row per point of a curve."""

VARIANT_HEADER = ("effect", "variant", *_FIGURES)
"""One row per series of a single effect."""

SLOWEST_HEADER = ("disk", "condition", "flush", "producers", "arrived_ms", "latency_us", "cause", "cause_us")
"""Timeline: one row per slow put and cause of its wait, in the order of arrival."""
Row = Sequence[Any]
_POINTS = 400


def grid_rows(measured: Iterable[LatencySeries]) -> list[Row]:
    return [
        (
            *("simulated", one.disk, one.condition, one.setup.flush, one.setup.producers, round(one.setup.rate, 1)),
            *(len(one.series.latencies_ns), *_percentile_figures(one.series.latencies_ns)),
        )
        for one in measured
    ]


def grid_curves(measured: Iterable[LatencySeries]) -> Iterator[Row]:
    for one in measured:
        curve = curve_of(one.series.latencies_ns)
        for us, share in zip(curve.us, curve.share, strict=True):
            yield "simulated", one.disk, one.condition, one.setup.flush, one.setup.producers, us, round(share, 6)


def slowest_rows(measured: Iterable[LatencySeries]) -> Iterator[Row]:
    for one in measured:
        for put in sorted(one.series.slowest, key=lambda put: (put.arrived_ns, put.latency_ns)):
            place = one.disk, one.condition, one.setup.flush, one.setup.producers
            for cause, ns in put.causes.items():
                yield *place, round(put.arrived_ns / 1e6, 3), put.latency_ns / 1_000, cause, ns / 1_000


def slowest_text(measured: Iterable[LatencySeries]) -> str:
    """Return a sentence about the slowest put of all series and the causes of its latency."""
    one = max(measured, key=lambda one: one.series.slowest[0].latency_ns)
    put, setup = one.series.slowest[0], one.setup
    place = f"{one.disk}, {one.condition}, {setup.flush}, {count_text(setup.producers, 'producer')}"
    causes = ", ".join(f"{cause} {duration_text(ns / 1_000)}" for cause, ns in put.causes.items())
    after, took = duration_text(put.arrived_ns / 1_000), duration_text(put.latency_ns / 1_000)
    return f"the slowest put ({place}) arrived after {after} and took {took}: {causes}"


def main_cause(series: Series) -> str:
    """Return the cause of most of the time of the slowest puts."""
    total: Counter[str] = Counter()
    for put in series.slowest:
        total.update(put.causes)
    return max(sorted(total), key=lambda cause: total[cause])


def variant_rows(effect: str, variants: Iterable[EffectSeries]) -> list[Row]:
    return [(effect, one.name, *_percentile_figures(one.series.latencies_ns)) for one in variants]


def _percentile_figures(latencies_ns: Sequence[int]) -> list[float]:
    return [round(us, 1) for us in (*percentiles_us(latencies_ns), max(latencies_ns) / 1_000)]


class Curve(NamedTuple):
    """Ascending latencies in µs, and the share of slower puts for each."""

    us: Sequence[float]
    share: Sequence[float]


def curve_of(latencies_ns: Iterable[int]) -> Curve:
    """Return a curve with denser points for slow puts."""
    ordered = sorted(latencies_ns)
    count = len(ordered)
    ranks = sorted({round(count - count ** (1 - step / _POINTS)) for step in range(_POINTS + 1)})
    picked = [rank for rank in ranks if rank < count]
    assert picked == sorted(set(picked)), "a curve rises"
    return Curve([ordered[rank] / 1_000 for rank in picked], [1 - rank / count for rank in picked])


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    figures = ("producers", "puts/s", *LATENCY_COLUMNS, "most")
    table = plain_table("simulated puts", ("disk", "condition", "flush"), figures)
    for _, disk, condition, flush, producers, rate, _, *found in rows:
        table.add_row(disk, condition, flush, str(producers), f"{rate:,.0f}", *(duration_text(us) for us in found))
    console.print(table)

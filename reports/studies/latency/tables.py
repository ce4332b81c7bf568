"""Tables of latencies: makes rows of CSV files, curves, and terminal output."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console

from ...cli.console import plain_table
from ...quantities import LATENCY_COLUMNS, count_text, duration_text, percentiles_us
from .here import LatencyComparison
from .simulated import EffectSeries, LatencySeries, Series

_FIGURES = (*(f"{one}_us" for one in LATENCY_COLUMNS), "max_us")
HEADER = ("source", "disk", "condition", "flush", "producers", "rate_per_s", "puts", *_FIGURES)
"""One row per series. source: simulated, or real for the store on this machine."""
CURVE_HEADER = ("source", "disk", "condition", "flush", "producers", "latency_us", "share_slower")
"""One row per point of a curve."""

VARIANT_HEADER = ("effect", "variant", *_FIGURES)
"""One row per series of a single effect."""

SLOWEST_HEADER = ("disk", "condition", "flush", "producers", "arrived_ms", "latency_us", "cause", "cause_us")
"""Timeline: one row per slow put and cause of its wait, in the order of arrival."""
HERE_CONDITION = "as found"
Row = Sequence[Any]
_POINTS = 400
_AGREES = 0.25
"""A ratio is printed in red if it differs from 1 by more."""


def grid_rows(measured: Iterable[LatencySeries]) -> list[Row]:
    return [
        _variant_row(
            "simulated", one.disk, one.condition, setup.flush, setup.producers, setup.rate, one.series.latencies_ns
        )
        for one in measured
        for setup in [one.setup]
    ]


def grid_curves(measured: Iterable[LatencySeries]) -> Iterator[Row]:
    for one in measured:
        flush, producers = one.setup.flush, one.setup.producers
        yield from _curve_points("simulated", one.disk, one.condition, flush, producers, one.series.latencies_ns)


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


def here_rows(comparisons: Iterable[LatencyComparison]) -> list[Row]:
    return [
        _variant_row(source, "here", HERE_CONDITION, one.flush, one.producers, one.rate, latencies_ns)
        for one in comparisons
        for source, latencies_ns in (("real", one.real_ns), ("simulated", one.simulated_ns))
    ]


def here_curves(comparisons: Iterable[LatencyComparison]) -> Iterator[Row]:
    for one in comparisons:
        yield from _curve_points("real", "here", HERE_CONDITION, one.flush, one.producers, one.real_ns)
        yield from _curve_points("simulated", "here", HERE_CONDITION, one.flush, one.producers, one.simulated_ns)


def variant_rows(effect: str, variants: Iterable[EffectSeries]) -> list[Row]:
    return [(effect, one.name, *_percentile_figures(one.series.latencies_ns)) for one in variants]


def _variant_row(
    source: str, disk: str, condition: str, flush: str, producers: int, rate: float, latencies_ns: Sequence[int]
) -> Row:
    return (
        source,
        disk,
        condition,
        flush,
        producers,
        round(rate, 1),
        len(latencies_ns),
        *_percentile_figures(latencies_ns),
    )


def _percentile_figures(latencies_ns: Sequence[int]) -> list[float]:
    return [round(us, 1) for us in (*percentiles_us(latencies_ns), max(latencies_ns) / 1_000)]


def _curve_points(
    source: str, disk: str, condition: str, flush: str, producers: int, latencies_ns: Sequence[int]
) -> Iterator[Row]:
    curve = curve_of(latencies_ns)
    for us, share in zip(curve.us, curve.share, strict=True):
        yield source, disk, condition, flush, producers, us, round(share, 6)


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
    if not rows:
        return
    figures = ("producers", "puts/s", *LATENCY_COLUMNS, "most")
    table = plain_table("simulated puts", ("disk", "condition", "flush"), figures)
    for _, disk, condition, flush, producers, rate, _, *found in rows:
        table.add_row(disk, condition, flush, str(producers), f"{rate:,.0f}", *(duration_text(us) for us in found))
    console.print(table)


def print_here(console: Console, comparisons: Sequence[LatencyComparison]) -> None:
    if not comparisons:
        return
    figures = [text for name in LATENCY_COLUMNS for text in (name, "sim.")]
    title = "this machine, and the simulation as a multiple of it"
    table = plain_table(title, ("flush",), ("producers", *figures))
    for one in comparisons:
        found = zip(percentiles_us(one.real_ns), one.ratios(), strict=True)
        cells = [text for us, ratio in found for text in (duration_text(us), _ratio_text(ratio))]
        table.add_row(one.flush, str(one.producers), *cells)
    console.print(table)


def _ratio_text(ratio: float) -> str:
    text = f"{ratio:.2f}"
    return text if abs(ratio - 1) <= _AGREES else f"[red]{text}[/red]"

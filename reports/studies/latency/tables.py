"""Latencies as rows: what CSV files and terminals get."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .comparison import COLUMNS, LatencyComparison
from .curve import curve_of
from .effects import EffectSeries
from .grid import LatencySeries
from .quantiles import percentiles_us

HEADER = (
    "source",
    "disk",
    "flush",
    "producers",
    "rate_per_s",
    "puts",
    *(f"{one}_us" for one in COLUMNS),
    "max_us",
)
"""One row a series. source: simulated, or real for the store on this machine."""
CURVE_HEADER = ("source", "disk", "flush", "producers", "latency_us", "share_slower")
"""One row for each point of each curve."""

VARIANT_HEADER = ("effect", "variant", *(f"{one}_us" for one in COLUMNS), "max_us")
"""One row for each series that shows what a single measure does."""

Row = Sequence[Any]


def grid_rows(measured: Iterable[LatencySeries]) -> list[Row]:
    """Return a row for each series of the grid."""
    return [
        _row(
            "simulated",
            one.disk,
            one.setup.flush,
            one.setup.producers,
            one.setup.rate,
            one.series.latencies_ns,
        )
        for one in measured
    ]


def grid_curves(measured: Iterable[LatencySeries]) -> Iterator[Row]:
    """Yield the points of each curve of the grid."""
    for one in measured:
        yield from _points(
            "simulated", one.disk, one.setup.flush, one.setup.producers, one.series.latencies_ns
        )


def here_rows(comparisons: Iterable[LatencyComparison]) -> list[Row]:
    """Return two rows for each comparison: the real one, the simulated one."""
    return [
        _row(source, "here", one.flush, one.producers, one.rate, latencies_ns)
        for one in comparisons
        for source, latencies_ns in (("real", one.real_ns), ("simulated", one.simulated_ns))
    ]


def here_curves(comparisons: Iterable[LatencyComparison]) -> Iterator[Row]:
    """Yield the points of each curve of the comparisons."""
    for one in comparisons:
        yield from _points("real", "here", one.flush, one.producers, one.real_ns)
        yield from _points("simulated", "here", one.flush, one.producers, one.simulated_ns)


def variant_rows(effect: str, variants: Iterable[EffectSeries]) -> list[Row]:
    """Return a row for each variant of one effect."""
    return [(effect, one.name, *_figures(one.series.latencies_ns)) for one in variants]


def _row(source: str, disk: str, flush: str, producers: int, rate: float, latencies_ns: Sequence[int]) -> Row:
    return source, disk, flush, producers, round(rate, 1), len(latencies_ns), *_figures(latencies_ns)


def _figures(latencies_ns: Sequence[int]) -> list[float]:
    """Return percentiles and the greatest, in µs."""
    return [round(us, 1) for us in (*percentiles_us(latencies_ns), max(latencies_ns) / 1_000)]


def _points(source: str, disk: str, flush: str, producers: int, latencies_ns: Sequence[int]) -> Iterator[Row]:
    curve = curve_of(latencies_ns)
    for us, share in zip(curve.us, curve.share, strict=True):
        yield source, disk, flush, producers, us, round(share, 6)

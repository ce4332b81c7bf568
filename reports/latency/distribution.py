"""The distribution of latencies as a curve: the share of puts that took longer than so long."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ..plotting.style import durations_on

_POINTS = 400
_SHARES = (0.5, 0.1, 0.01, 0.001)
"""Of the puts that take longer: beside p50, p90, p99 and p99.9."""


class Curve(NamedTuple):
    """Points of one distribution, ascending: latencies in µs, and the share of puts that took longer."""

    us: Sequence[float]
    share: Sequence[float]


def curve_of(latencies_ns: Iterable[int]) -> Curve:
    """Return the curve of latencies, at least one: a point of few, more of the slow than of the many others."""
    ordered = sorted(latencies_ns)
    count = len(ordered)
    ranks = sorted({round(count - count ** (1 - step / _POINTS)) for step in range(_POINTS + 1)})
    picked = [rank for rank in ranks if rank < count]
    return Curve([ordered[rank] / 1_000 for rank in picked], [1 - rank / count for rank in picked])


def distribution_axes(axes: Axes, us_min: float, us_max: float, share_min: float) -> None:
    """Make axes for curves: latencies across, the share that took longer down, both logarithmic."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(us_min, us_max)
    axes.set_ylim(share_min, 1.0)
    durations_on(axes.xaxis)
    axes.yaxis.set_major_locator(FixedLocator([share for share in _SHARES if share >= share_min]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"p{100 * (1 - share):g}"))
    axes.yaxis.set_minor_locator(NullLocator())

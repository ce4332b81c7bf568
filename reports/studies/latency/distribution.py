"""Axes for curves of latencies."""

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ...plotting.style import durations_on

_SHARES = (0.5, 0.1, 0.01, 0.001)
"""Of the puts that take longer: beside p50, p90, p99 and p99.9."""


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

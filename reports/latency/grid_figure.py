"""The grid: a row for each disk, a column for each way to flush, a curve for each number of producers."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...scenarios.latency.grid import Measured
from ...scenarios.latency.setup import FLUSHES
from ..plotting.style import steps
from .curve import curve_of
from .distribution import distribution_axes

_US_MIN = 5.0
FLUSH_TITLES = {"sync": "sync flush", "async": "async flush", "pool": "async flush, transient pool"}


def grid_figure(measured: Sequence[Measured]) -> Figure:
    """Draw every series. The caller is inside `house_style`."""
    disks = list(dict.fromkeys(one.disk for one in measured))
    producers = sorted({one.setup.producers for one in measured})
    slowest_us = max(max(one.series.latencies_ns) for one in measured) / 1_000
    share_min = 1 / min(len(one.series.latencies_ns) for one in measured)
    figure = Figure(figsize=(11, 1.7 + 2.4 * len(disks)), layout="constrained")
    grid = figure.subplots(len(disks), len(FLUSHES), squeeze=False, sharex=True, sharey=True)
    colours = dict(zip(producers, steps(len(producers)), strict=True))
    for row, disk in zip(grid, disks, strict=True):
        for axes, flush in zip(row, FLUSHES, strict=True):
            distribution_axes(axes, _US_MIN, slowest_us * 1.5, max(share_min, 1e-4))
            axes.set_title(f"{disk}, {FLUSH_TITLES[flush]}")
            for one in measured:
                if (one.disk, one.setup.flush) == (disk, flush):
                    curve = curve_of(one.series.latencies_ns)
                    axes.plot(curve.us, curve.share, color=colours[one.setup.producers])
    for axes in grid[-1]:
        axes.set_xlabel("latency of a put")
    for row in grid:
        row[0].set_ylabel("percentile")
    figure.legend(
        [_line(colour) for colour in colours.values()],
        [f"{number} producer{'s' if number > 1 else ''}" for number in producers],
        loc="outside upper right",
        ncols=len(producers),
    )
    figure.suptitle("How long a put takes, by flush, disk and producers", x=0.01, ha="left")
    return figure


def _line(colour: str) -> Line2D:
    return Line2D([], [], color=colour)

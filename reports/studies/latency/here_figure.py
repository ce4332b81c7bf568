"""This machine: what puts really took, and what the simulation makes of its parts, in one picture."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from ...plotting.style import KINDS
from .comparison import LatencyComparison
from .curve import curve_of
from .distribution import distribution_axes
from .grid_figure import FLUSH_TITLES
from .setup import FLUSHES


def here_figure(comparisons: Sequence[LatencyComparison]) -> Figure:
    """Draw a panel for each way to flush and number of producers. The caller is inside `house_style`."""
    producers = sorted({one.producers for one in comparisons})
    slowest_us = max(max(*one.real_ns, *one.simulated_ns) for one in comparisons) / 1_000
    figure = Figure(figsize=(11, 1.7 + 2.4 * len(producers)), layout="constrained")
    grid = figure.subplots(len(producers), len(FLUSHES), squeeze=False, sharex=True, sharey=True)
    for one in comparisons:
        axes = grid[producers.index(one.producers)][FLUSHES.index(one.flush)]
        distribution_axes(axes, 5.0, slowest_us * 1.5, 1 / len(one.real_ns))
        axes.set_title(
            f"{FLUSH_TITLES[one.flush]}, {one.producers} producer{'s' if one.producers > 1 else ''}"
        )
        for latencies_ns, colour, label in (
            (one.real_ns, KINDS[1], "the store on this machine"),
            (one.simulated_ns, KINDS[0], "simulated from its parts"),
        ):
            curve = curve_of(latencies_ns)
            axes.plot(curve.us, curve.share, color=colour, label=label)
    for axes in grid[-1]:
        axes.set_xlabel("latency of a put")
    for row in grid:
        row[0].set_ylabel("percentile")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    figure.suptitle("This machine, and the simulation of it", x=0.01, ha="left")
    return figure

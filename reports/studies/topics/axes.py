"""What all pictures of topics share: topics across, and who is drawn how."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from ...plotting.style import KINDS
from .grid import PACKED_LOG, PARTITIONED_LOG, SHARED_LOG

INK = "#1f2328"


class Look(NamedTuple):
    """How one layout is drawn, and what it is called."""

    colour: str
    line: str
    label: str


LOOKS = {
    SHARED_LOG.name: Look(KINDS[0], "-", "one log for all topics (RocketMQ)"),
    PARTITIONED_LOG.name: Look(KINDS[1], "-", "one log for each topic (Kafka)"),
    PACKED_LOG.name: Look(KINDS[1], "--", "one for each, their pages packed together"),
}


def topics_across(axes: Axes, topics: Sequence[int]) -> None:
    """Make the axis across logarithmic, with a tick for each number of topics."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(topics)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def rates_up(axes: Axes) -> None:
    """Make the axis up logarithmic, for figures per second."""
    axes.set_yscale("log")
    rates_on(axes.yaxis)


def to_whole_decades(axes: Axes) -> None:
    """Let a logarithmic axis up begin and end at powers of ten, each of which has a label."""
    low, high = axes.dataLim.intervaly
    axes.set_ylim(10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high)))


def rates_on(axis: Axis) -> None:
    """Label a logarithmic axis of figures per second."""
    axis.set_major_locator(LogLocator(10, numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def name_grid(grid: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Write what rows and columns of panels are, left of the first and above the first; and topics below the last."""
    for axes, title in zip(grid[0], columns, strict=True):
        axes.set_title(title)
    for line, name in zip(grid, rows, strict=True):
        line[0].set_ylabel(name, fontweight="bold", color=INK)
    for axes in grid[-1]:
        axes.set_xlabel("topics")


def draw(
    axes: Axes, variant: str, across: Sequence[int], up: Sequence[float], *, faint: bool = False
) -> None:
    """Draw one layout's figures, faintly where they are the lesser of two."""
    look = LOOKS[variant]
    axes.plot(
        across,
        up,
        look.line,
        marker="o",
        ms=3 if faint else 4,
        lw=1.1 if faint else 1.8,
        color=look.colour,
        alpha=0.55 if faint else 1.0,
    )


def name_layouts(figure: Figure, variants: Sequence[str]) -> None:
    """Put a legend below everything."""
    lines = [
        Line2D([], [], color=LOOKS[name].colour, ls=LOOKS[name].line, marker="o", ms=4) for name in variants
    ]
    labels = [LOOKS[name].label for name in variants]
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), handlelength=3)

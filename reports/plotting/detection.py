"""How soon mutants are found: a curve."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .style import KINDS, QUIET


def detection_figure(seeds: Sequence[int], mutants: int) -> Figure:
    """Draw how many of some mutants were found within how many seeds. The caller is inside `house_style`."""
    ordered = sorted(seeds)
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.step([1, *ordered], [0, *range(1, len(ordered) + 1)], where="post", color=KINDS[0])
    axes.axhline(mutants, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("all of them", (1, mutants), xytext=(2, -3), textcoords="offset points", va="top")
    axes.set_xscale("log")
    axes.set_xlim(1, max(10, ordered[-1]) * 1.1)
    axes.set_ylim(0, mutants * 1.06)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("seeds")
    axes.set_ylabel("mutants found")
    return figure

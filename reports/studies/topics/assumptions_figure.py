"""What single assumptions decide: a line for each, layout beside layout."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .assumptions import AssumptionResult
from .axes import LOOKS, rates_on
from .consuming import CONSUMERS


def assumptions_figure(found: Sequence[AssumptionResult], disk: str) -> Figure:
    """Draw it. The caller is inside `house_style`."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    writing = [one for one in found if one.sustained is not None]
    reading = [one for one in found if one.few_lag is not None]
    left.set_title(f"Puts per second ({disk}, async, {writing[0].topics} topics)")
    _draw_lines(left, writing, lambda one: 0.0 if one.sustained is None else one.sustained.puts_per_second)
    right.set_title(f"{CONSUMERS} of {reading[0].topics} topics late: records per second")
    _draw_lines(right, reading, lambda one: 0.0 if one.few_lag is None else one.few_lag.records_per_second)
    layouts = list(dict.fromkeys(one.layout for one in found))
    dots = [Line2D([], [], color=LOOKS[name].colour, ls="", marker="o", ms=7) for name in layouts]
    figure.legend(dots, [LOOKS[name].label for name in layouts], loc="outside lower center", ncols=2)
    figure.suptitle("What single assumptions of the model decide", x=0.01, ha="left")
    return figure


def _draw_lines(
    axes: Axes, found: Sequence[AssumptionResult], figure_of: Callable[[AssumptionResult], float]
) -> None:
    names = list(dict.fromkeys(one.assumption for one in found))
    for one in found:
        at, value = names.index(one.assumption), figure_of(one)
        axes.plot([value], [at], "o", ms=7, color=LOOKS[one.layout].colour)
        axes.annotate(
            f"{value:,.0f}", (value, at), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.7)
    axes.set_xscale("log")
    rates_on(axes.xaxis)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.5, high * 1.5)

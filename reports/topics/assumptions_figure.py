"""What single assumptions decide: a bar for each, layout beside layout."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...scenarios.topics.assumptions import Checked
from ...scenarios.topics.consuming import CONSUMERS
from .axes import LOOKS, rates_on


def assumptions_figure(found: Sequence[Checked], disk: str) -> Figure:
    """Draw it. The caller is inside `house_style`."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    writing = [one for one in found if one.sustained is not None]
    reading = [one for one in found if one.few_lag is not None]
    left.set_title(f"Puts per second ({disk}, async, {writing[0].topics} topics)")
    _draw_bars(left, writing, lambda one: 0.0 if one.sustained is None else one.sustained.puts_per_second)
    right.set_title(f"{CONSUMERS} of {reading[0].topics} topics late: records per second")
    _draw_bars(right, reading, lambda one: 0.0 if one.few_lag is None else one.few_lag.records_per_second)
    layouts = list(dict.fromkeys(one.layout for one in found))
    patches = [Patch(color=LOOKS[name].colour) for name in layouts]
    figure.legend(patches, [LOOKS[name].label for name in layouts], loc="outside lower center", ncols=2)
    figure.suptitle("What single assumptions of the model decide", x=0.01, ha="left")
    return figure


def _draw_bars(axes: Axes, found: Sequence[Checked], figure_of: Callable[[Checked], float]) -> None:
    names = list(dict.fromkeys(one.assumption for one in found))
    labels, at = [], 0
    for name in names:
        for one in (one for one in found if one.assumption == name):
            value = figure_of(one)
            axes.barh(at, value, color=LOOKS[one.layout].colour, height=0.8)
            axes.annotate(
                f"{value:,.0f}", (value, at), xytext=(4, 0), textcoords="offset points", va="center"
            )
            labels.append((at, name))
            at += 1
        at += 1
    ticks = {name: [place for place, label in labels if label == name] for name in names}
    axes.set_yticks([sum(places) / len(places) for places in ticks.values()], labels=names)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xscale("log")
    rates_on(axes.xaxis)
    axes.grid(visible=False, axis="y")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.5, high * 2.5)

"""What single measures do: group commit, segments made ahead, slow syncs. A panel for each."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ...plotting.style import KINDS, durations_on
from .curve import curve_of
from .distribution import distribution_axes
from .effects import EffectSeries, GroupCommit

_US_MIN = 5.0


def effects_figure(
    groups: Sequence[GroupCommit],
    rollovers: Sequence[EffectSeries],
    slow: Sequence[EffectSeries],
    *,
    rollover_disk: str,
    slow_disk: str,
) -> Figure:
    """Draw the three panels. The caller is inside `house_style`."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_groups(left, groups)
    middle.set_title(f"Segments made ahead ({rollover_disk}, async flush)")
    _draw_rollovers(middle, rollovers)
    right.set_title(f"A disk with slow syncs ({slow_disk})")
    _draw_curves(right, slow)
    figure.suptitle("What group commit, segments made ahead and slow syncs do", x=0.01, ha="left")
    return figure


def _draw_groups(axes: Axes, groups: Sequence[GroupCommit]) -> None:
    axes.set_title("Group commit: puts per second")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    producers = sorted({group.producers for group in groups})
    for disk, colour in zip(dict.fromkeys(group.disk for group in groups), KINDS, strict=False):
        mine = [group for group in groups if group.disk == disk]
        rates = [group.puts_per_second for group in mine]
        axes.plot([group.producers for group in mine], rates, "o-", ms=4, color=colour, label=disk)
        axes.axhline(rates[0], color=colour, lw=0.9, ls=":")
        last = mine[-1]
        axes.annotate(
            f"{last.puts_per_sync:.0f} puts a sync",
            (last.producers, last.puts_per_second),
            xytext=(-4, 6),
            textcoords="offset points",
            ha="right",
            color=colour,
            fontsize=8,
        )
    axes.xaxis.set_major_locator(FixedLocator(producers))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}"))
    axes.set_ylim(top=2.2 * max(group.puts_per_second for group in groups))
    axes.set_xlabel("producers (dotted: what one gets)")
    _legend_below(axes, 3)


def _draw_rollovers(axes: Axes, variants: Sequence[EffectSeries]) -> None:
    """Draw the last two variants, which differ in whether segments are made ahead; warming shows in tables only."""
    axes.set_yscale("log")
    for variant, colour in zip(reversed(variants), (KINDS[1], KINDS[0]), strict=False):
        us = [latency_ns / 1_000 for latency_ns in variant.series.latencies_ns]
        axes.plot(range(len(us)), us, ".", ms=2.5, color=colour, label=variant.name, rasterized=True)
    durations_on(axes.yaxis)
    axes.set_xlabel("put, one after the other")
    axes.set_ylabel("latency")
    _legend_below(axes, 2, markerscale=4)


def _draw_curves(axes: Axes, variants: Sequence[EffectSeries]) -> None:
    """Draw pairs of variants, the second as a thin line that shows inside the first where nothing differs."""
    slowest_us = max(max(variant.series.latencies_ns) for variant in variants) / 1_000
    distribution_axes(axes, _US_MIN, slowest_us * 1.5, 1e-3)
    for number, variant in enumerate(variants):
        curve = curve_of(variant.series.latencies_ns)
        width, alpha = (1.4, 1.0) if number % 2 else (5.0, 0.35)
        axes.plot(curve.us, curve.share, lw=width, alpha=alpha, color=KINDS[number // 2], label=variant.name)
    axes.set_xlabel("latency of a put")
    axes.set_ylabel("percentile")
    _legend_below(axes, 2)


def _legend_below(axes: Axes, columns: int, **others: float) -> None:
    """Name the curves where none of them is."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, fontsize=8, **others)

"""Figures of simulated latencies: draws the grid and single effects."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ...plotting import KINDS, label_durations, save_figure, save_table
from .machine import CONDITIONS, FREE, PRODUCERS_UNDER_LOAD
from .simulated import EffectSeries, GroupCommit, LatencySeries
from .tables import (
    CURVE_HEADER,
    HEADER,
    SLOWEST_HEADER,
    VARIANT_HEADER,
    Curve,
    curve_of,
    grid_curves,
    grid_rows,
    main_cause,
    slowest_rows,
    variant_rows,
)
from .traffic import FLUSHES

_SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
"""The share of slower puts for each of p50, p90, p99, p99.9 and p99.99."""
_US_MIN = 5.0
_FLUSH_TITLES = {"sync": "sync flush", "async": "async flush", "pool": "async flush, transient pool"}
_COLOURS = dict(zip(FLUSHES, KINDS, strict=False))
_WIDTHS = {"sync": 1.8, "async": 5.0, "pool": 1.4}
"""Line widths that keep both lines visible if the pool does not change latencies."""
_PALEST = 0.35
_EXPLAINED_US = 1_000.0
"""The main cause is written on each curve with slower puts than this."""


def write_grid_files(measured: Sequence[LatencySeries], out: Path) -> list[Path]:
    free = [one for one in measured if one.condition == FREE]
    under_load = [one for one in measured if one.setup.producers == PRODUCERS_UNDER_LOAD]
    paths = save_figure(lambda: grid_figure(free), out, "latency")
    paths += save_figure(lambda: conditions_figure(under_load), out, "latency-conditions")
    paths.append(save_table(HEADER, grid_rows(measured), out, "latency"))
    paths.append(save_table(SLOWEST_HEADER, slowest_rows(measured), out, "latency-slowest"))
    return [*paths, save_table(CURVE_HEADER, grid_curves(measured), out, "latency-curves")]


def write_effects_files(
    groups: Sequence[GroupCommit],
    rollovers: Sequence[EffectSeries],
    slow: Sequence[EffectSeries],
    out: Path,
    *,
    rollover_disk: str,
    slow_disk: str,
) -> list[Path]:
    paths = save_figure(
        lambda: effects_figure(groups, rollovers, slow, rollover_disk=rollover_disk, slow_disk=slow_disk),
        out,
        "latency-effects",
    )
    paths.append(save_table(GroupCommit._fields, groups, out, "group-commit"))
    rows = [*variant_rows("rollover", rollovers), *variant_rows("slow syncs", slow)]
    return [*paths, save_table(VARIANT_HEADER, rows, out, "latency-effects")]


def distribution_axes(axes: Axes, us_min: float, us_max: float, share_min: float) -> None:
    """Set up logarithmic axes: x is the latency, y the share of slower puts."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(us_min, us_max)
    axes.set_ylim(share_min, 1.0)
    label_durations(axes.xaxis)
    axes.yaxis.set_major_locator(FixedLocator([share for share in _SHARES if share >= share_min]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"p{100 * (1 - share):g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def grid_figure(measured: Sequence[LatencySeries]) -> Figure:
    disks = list(dict.fromkeys(one.disk for one in measured))
    producers = sorted({one.setup.producers for one in measured})
    slowest_us = max(max(one.series.latencies_ns) for one in measured) / 1_000
    share_min = 1 / min(len(one.series.latencies_ns) for one in measured)
    figure = Figure(figsize=(9, 2.4 + 2.7 * len(disks)), layout="constrained")
    rows = figure.subplots(len(disks), 1, squeeze=False, sharex=True)
    for (axes,), disk in zip(rows, disks, strict=True):
        mine = [one for one in measured if one.disk == disk]
        distribution_axes(axes, _US_MIN, slowest_us * 1.5, max(share_min, 1e-4))
        axes.set_title(disk)
        axes.set_ylabel("percentile")
        for flush in FLUSHES:
            for one in (one for one in mine if one.setup.flush == flush):
                curve = curve_of(one.series.latencies_ns)
                colour = _mix_with_white(_COLOURS[flush], producers.index(one.setup.producers), len(producers))
                axes.plot(curve.us, curve.share, color=colour, lw=_WIDTHS[flush])
        axes.text(0.99, 0.97, _offered_rate_text(mine), transform=axes.transAxes, ha="right", va="top", fontsize=8)
    rows[-1][0].set_xlabel("latency of a put")
    shades = ", ".join(str(number) for number in producers)
    order = " (light to dark)" if len(producers) > 1 else ""
    figure.legend(
        [Line2D([], [], color=_COLOURS[flush], lw=_WIDTHS[flush]) for flush in FLUSHES],
        [_FLUSH_TITLES[flush] for flush in FLUSHES],
        loc="outside lower left",
        ncols=len(FLUSHES),
        title=f"{shades} producers{order}. Memory is free, and no other process uses the disk.",
        title_fontsize=8,
        alignment="left",
    )
    figure.suptitle(f"Latency of a put of {_marker_sizes(measured)}, by flush, disk and producers", x=0.01, ha="left")
    return figure


def conditions_figure(measured: Sequence[LatencySeries]) -> Figure:
    """Draw a panel for each disk and condition, with the main cause of each curve's slowest puts."""
    disks = list(dict.fromkeys(one.disk for one in measured))
    conditions = list(dict.fromkeys(one.condition for one in measured))
    slowest_us = max(max(one.series.latencies_ns) for one in measured) / 1_000
    figure = Figure(figsize=(4 * len(conditions) + 0.6, 1.4 + 2.6 * len(disks)), layout="constrained")
    grid = figure.subplots(len(disks), len(conditions), squeeze=False, sharex=True, sharey=True)
    share_min = 0.7 / max(len(one.series.latencies_ns) for one in measured)
    for one in measured:
        axes = grid[disks.index(one.disk)][conditions.index(one.condition)]
        distribution_axes(axes, _US_MIN, slowest_us * 1.5, max(share_min, 1e-4))
        axes.set_title(f"{one.disk}, {one.condition}")
        curve = curve_of(one.series.latencies_ns)
        flush = one.setup.flush
        axes.plot(curve.us, curve.share, color=_COLOURS[flush], lw=_WIDTHS[flush])
        _write_cause(axes, one, curve)
    for row in grid:
        row[0].set_ylabel("percentile")
    for axes, condition in zip(grid[-1], conditions, strict=True):
        axes.set_xlabel(f"latency of a put: {CONDITIONS[condition].meaning}")
    figure.legend(
        [Line2D([], [], color=_COLOURS[flush], lw=_WIDTHS[flush]) for flush in FLUSHES],
        [_FLUSH_TITLES[flush] for flush in FLUSHES],
        loc="outside lower left",
        ncols=len(FLUSHES),
    )
    producers = measured[0].setup.producers
    figure.suptitle(f"Latency of a put from {producers} producers, by memory and neighbours", x=0.01, ha="left")
    return figure


def _write_cause(axes: Axes, one: LatencySeries, curve: Curve) -> None:
    """Write the longest wait of the slowest puts to the left of the end of their curve."""
    if curve.us[-1] > _EXPLAINED_US:
        write_at_curve(axes, curve, -1, main_cause(one.series), _COLOURS[one.setup.flush], (-7, 3), ha="right")


def write_at_curve(
    axes: Axes,
    curve: Curve,
    place: int,
    text: str,
    colour: str,
    offset: tuple[int, int],
    *,
    ha: Literal["left", "right"] = "left",
) -> None:
    """Write a text near a point of a curve, with a white edge, because other curves may cross it."""
    axes.annotate(
        text,
        (curve.us[place], curve.share[place]),
        xytext=offset,
        textcoords="offset points",
        fontsize=8,
        color=colour,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
        ha=ha,
    )


def _offered_rate_text(mine: Sequence[LatencySeries]) -> str:
    lines = ["offered, puts/s"]
    for flush in FLUSHES:
        rates = [one.setup.rate for one in mine if one.setup.flush == flush]
        if rates:
            same = round(min(rates)) == round(max(rates))
            span = f"{rates[0]:,.0f}" if same else f"{min(rates):,.0f} to {max(rates):,.0f}"
            lines.append(f"{flush} {span}")
    return "\n".join(lines)


def _marker_sizes(measured: Sequence[LatencySeries]) -> str:
    return " or ".join(f"{size:,} bytes" for size in sorted({one.setup.body_bytes for one in measured}))


def _mix_with_white(colour: str, step: int, steps: int) -> tuple[float, float, float]:
    """Mix a colour with white. The last step is the colour itself."""
    strength = 1.0 if steps == 1 else _PALEST + (1 - _PALEST) * step / (steps - 1)
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def effects_figure(
    groups: Sequence[GroupCommit],
    rollovers: Sequence[EffectSeries],
    slow: Sequence[EffectSeries],
    *,
    rollover_disk: str,
    slow_disk: str,
) -> Figure:
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_groups(left, groups)
    middle.set_title(f"Segments created ahead ({rollover_disk}, async flush)")
    _draw_rollovers(middle, rollovers)
    right.set_title(f"A disk with slow syncs ({slow_disk})")
    _draw_slow_syncs(right, slow)
    figure.suptitle("Effects of group commit, segments created ahead, and slow syncs", x=0.01, ha="left")
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
    axes.set_xlabel("producers (dotted: rate of one)")
    _legend_below(axes, 3)


def _draw_rollovers(axes: Axes, variants: Sequence[EffectSeries]) -> None:
    """Draw the variants with and without segments created ahead. The variant with warming is in the tables only."""
    axes.set_yscale("log")
    for variant, colour in zip(reversed(variants), (KINDS[1], KINDS[0]), strict=False):
        us = [latency_ns / 1_000 for latency_ns in variant.series.latencies_ns]
        axes.plot(range(len(us)), us, ".", ms=2.5, color=colour, label=variant.name, rasterized=True)
    label_durations(axes.yaxis)
    axes.set_xlabel("number of the put")
    axes.set_ylabel("latency")
    _legend_below(axes, 2, markerscale=4)


def _draw_slow_syncs(axes: Axes, variants: Sequence[EffectSeries]) -> None:
    """Draw pairs of variants. The second line of a pair is thin, so that the first stays visible."""
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
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, fontsize=8, **others)

"""Producers: a row for each disk; what is sustained, what latencies are, how busy the disk is."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from ...plotting.style import durations_on
from .axes import draw, name_grid, name_layouts, rates_up, topics_across
from .grid import RATES, LayoutResult

_COLUMNS = (
    "Sync flush: puts per second",
    "Async flush: puts per second",
    f"Sync, {RATES['sync']:g} puts/s: p50, faint p99",
    f"Async, {RATES['async']:g} puts/s: disk busy",
)


def grid_figure(rows: Sequence[LayoutResult]) -> Figure:
    """Draw it. The caller is inside `house_style`."""
    disks = list(dict.fromkeys(row.disk for row in rows))
    topics = sorted({row.topics for row in rows})
    figure = Figure(figsize=(14, 1.4 + 2.5 * len(disks)), layout="constrained")
    grid = figure.subplots(len(disks), len(_COLUMNS), squeeze=False, sharex=True, sharey="col")
    for line, disk in zip(grid, disks, strict=True):
        mine = [row for row in rows if row.disk == disk]
        for axes in line:
            topics_across(axes, topics)
        sync, asynchronous = ([row for row in mine if row.flush == flush] for flush in ("sync", "async"))
        _draw_each(line[0], sync, lambda row: row.at_full.sustained.puts_per_second)
        _draw_each(line[1], asynchronous, lambda row: row.at_full.sustained.puts_per_second)
        _draw_each(line[2], sync, lambda row: row.at_rate.p99_us, faint=True)
        _draw_each(line[2], sync, lambda row: row.at_rate.p50_us)
        _draw_each(line[3], asynchronous, lambda row: row.at_rate.busy_share)
        rates_up(line[0])
        rates_up(line[1])
        line[2].set_yscale("log")
        durations_on(line[2].yaxis)
        line[3].yaxis.set_major_formatter(PercentFormatter(1.0))
        line[3].set_ylim(0, 1.03)
    name_grid(grid, disks, _COLUMNS)
    name_layouts(figure, list(dict.fromkeys(row.variant for row in rows)))
    figure.suptitle("Producers and the number of topics: one log for all, or one for each", x=0.01, ha="left")
    return figure


def _draw_each(
    axes: Axes,
    rows: Sequence[LayoutResult],
    figure_of: Callable[[LayoutResult], float],
    *,
    faint: bool = False,
) -> None:
    """Draw a figure of each layout over the number of topics."""
    for variant in dict.fromkeys(row.variant for row in rows):
        mine = [row for row in rows if row.variant == variant]
        draw(axes, variant, [row.topics for row in mine], [figure_of(row) for row in mine], faint=faint)

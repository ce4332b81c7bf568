"""This machine: what either layout really did, over the number of topics."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ...plotting.style import durations_on
from .axes import draw, name_layouts, rates_up, to_whole_decades, topics_across
from .consuming import CONSUMERS
from .here import RATES_HERE, MeasuredHere


def here_figure(found: Sequence[MeasuredHere]) -> Figure:
    """Draw it. The caller is inside `house_style`."""
    topics = sorted({one.topics for one in found})
    sync, asynchronous = ([one for one in found if one.flush == flush] for flush in ("sync", "async"))
    figure = Figure(figsize=(13, 6), layout="constrained")
    grid = figure.subplots(2, 4)
    for axes in grid.flat:
        topics_across(axes, topics)
    for line, mine, flush in ((grid[0], sync, "Sync"), (grid[1], asynchronous, "Async")):
        line[0].set_title(f"{flush} flush: puts per second")
        _draw_each(line[0], mine, lambda one: one.puts_per_second)
        rates_up(line[0])
        rate = RATES_HERE[flush.lower()]
        line[1].set_title(f"{flush}, {rate:,.0f} puts/s: p50, faint p99")
        _draw_each(line[1], mine, lambda one: one.p99_us, faint=True)
        _draw_each(line[1], mine, lambda one: one.p50_us)
        line[1].set_yscale("log")
        durations_on(line[1].yaxis)
        to_whole_decades(line[0])
        to_whole_decades(line[1])
    _draw_consumers(grid, asynchronous)
    for axes in grid[-1]:
        axes.set_xlabel("topics")
    name_layouts(figure, list(dict.fromkeys(one.layout for one in found)))
    figure.suptitle("This machine, over real files", x=0.01, ha="left")
    return figure


def _draw_consumers(grid: "Sequence[Sequence[Axes]]", found: Sequence[MeasuredHere]) -> None:
    tail, few, every, cpu = grid[0][2], grid[0][3], grid[1][3], grid[1][2]
    tail.set_title("Consumers up to date: records/s")
    _draw_each(tail, found, lambda one: one.tail_per_second or 0.0)
    few.set_title(f"{CONSUMERS} topics late: records/s")
    _draw_each(few, found, lambda one: one.few_lag_per_second or 0.0)
    every.set_title("All topics late: records/s")
    _draw_each(every, found, lambda one: one.all_lag_per_second or 0.0)
    cpu.set_title("Processor time of an async put")
    _draw_each(cpu, found, lambda one: one.put_cpu_us)
    for axes in (tail, few, every):
        rates_up(axes)
        to_whole_decades(axes)
    cpu.set_ylim(bottom=0)
    cpu.yaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:g} µs"))


def _draw_each(
    axes: Axes,
    found: Sequence[MeasuredHere],
    figure_of: Callable[[MeasuredHere], float],
    *,
    faint: bool = False,
) -> None:
    for layout in dict.fromkeys(one.layout for one in found):
        mine = [one for one in found if one.layout == layout]
        draw(axes, layout, [one.topics for one in mine], [figure_of(one) for one in mine], faint=faint)

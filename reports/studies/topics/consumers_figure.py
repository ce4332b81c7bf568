"""Consumers who come late: a column for each disk; how fast they are, and what the disk reads for them."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from .axes import draw, name_grid, name_layouts, rates_up, topics_across
from .consuming import CONSUMERS
from .grid import Late, LayoutResult

_ROWS = (
    f"{CONSUMERS} topics late:\nrecords per second",
    f"{CONSUMERS} topics late:\nread per record",
    "all topics late:\nrecords per second",
)


def consumers_figure(rows: Sequence[LayoutResult]) -> Figure:
    """Draw it. The caller is inside `house_style`."""
    late = [row for row in rows if row.at_full.late is not None]
    disks = list(dict.fromkeys(row.disk for row in late))
    topics = sorted({row.topics for row in late})
    figure = Figure(figsize=(2 + 3.8 * len(disks), 8), layout="constrained")
    grid = figure.subplots(len(_ROWS), len(disks), squeeze=False, sharex=True, sharey="row")
    for column, disk in enumerate(disks):
        mine = [row for row in late if row.disk == disk]
        few, read, every = (line[column] for line in grid)
        _draw_each(few, mine, lambda late: late.few_lag.records_per_second)
        _draw_each(read, mine, lambda late: late.few_lag.read_bytes_per_record)
        _draw_each(every, mine, lambda late: late.all_lag.records_per_second)
        rates_up(few)
        rates_up(every)
        read.set_yscale("log", base=2)
        read.yaxis.set_major_formatter(FuncFormatter(lambda size_bytes, _: f"{size_bytes / 1024:g} KiB"))
        for axes in (few, read, every):
            topics_across(axes, topics)
    name_grid(grid, _ROWS, disks)
    name_layouts(figure, list(dict.fromkeys(row.variant for row in late)))
    figure.suptitle("Consumers who come late, and read what only the disk has", x=0.01, ha="left")
    return figure


def _draw_each(axes: Axes, rows: Sequence[LayoutResult], figure_of: Callable[[Late], float]) -> None:
    """Draw a figure of each layout over the number of topics."""
    for variant in dict.fromkeys(row.variant for row in rows):
        points = [
            (row.topics, figure_of(row.at_full.late))
            for row in rows
            if row.variant == variant and row.at_full.late is not None
        ]
        draw(axes, variant, [topics for topics, _ in points], [figure for _, figure in points])

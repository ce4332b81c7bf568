"""Figures of topics: draws producers, late consumers, assumptions, this machine."""

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator, PercentFormatter

from ...plotting import INK, KINDS, label_durations, save_figure, save_table
from .grid import PACKED_LOG, PARTITIONED_LOG, RATES, SHARED_LOG, AssumptionResult, LateConsumerRates, LayoutResult
from .here import RATES_HERE, MeasuredHere
from .tables import CHECKED_HEADER, HEADER, checked_rows, grid_rows, here_rows
from .workload import CONSUMERS

_COLUMNS = (
    "Sync flush: puts per second",
    "Async flush: puts per second",
    f"Sync, {RATES['sync']:g} puts/s: p50, faint p99",
    f"Async, {RATES['async']:g} puts/s: disk busy",
)
_CONSUMER_ROWS = (
    f"{CONSUMERS} topics late:\nrecords per second",
    f"{CONSUMERS} topics late:\nread per record",
    "all topics late:\nrecords per second",
)


def write_grid_files(rows: Sequence[LayoutResult], out: Path) -> list[Path]:
    paths = save_figure(lambda: grid_figure(rows), out, "topics")
    paths += save_figure(lambda: _consumers_figure(rows), out, "topics-consumers")
    return [*paths, save_table(HEADER, grid_rows(rows), out, "topics")]


def write_assumption_files(found: Sequence[AssumptionResult], disk: str, out: Path) -> list[Path]:
    paths = save_figure(lambda: _assumptions_figure(found, disk), out, "topics-assumptions")
    return [*paths, save_table(CHECKED_HEADER, checked_rows(found), out, "topics-assumptions")]


def write_here_files(found: Sequence[MeasuredHere], out: Path) -> list[Path]:
    paths = save_figure(lambda: here_figure(found), out, "topics-here")
    return [*paths, save_table(HEADER, here_rows(found), out, "topics-here")]


class _RatesRow(Protocol):
    """The rates of one layout with one number of topics."""

    @property
    def variant(self) -> str: ...
    @property
    def topics(self) -> int: ...


R = TypeVar("R", bound=_RatesRow)


class LineStyle(NamedTuple):
    """Style and label of one layout's lines."""

    colour: str
    line: str
    label: str


STYLES = {
    SHARED_LOG.name: LineStyle(KINDS[0], "-", "one log for all topics (RocketMQ)"),
    PARTITIONED_LOG.name: LineStyle(KINDS[1], "-", "one log for each topic (Kafka)"),
    PACKED_LOG.name: LineStyle(KINDS[1], "--", "one for each topic, pages packed"),
}


def _set_topics_axis(axes: Axes, topics: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(topics)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _set_rates_axis(axes: Axes) -> None:
    axes.set_yscale("log")
    _label_rates(axes.yaxis)


def _to_whole_decades(axes: Axes) -> None:
    """Extend a logarithmic y axis to powers of ten, because only these have labels."""
    low, high = axes.dataLim.intervaly
    axes.set_ylim(10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high)))


def _label_rates(axis: Axis) -> None:
    axis.set_major_locator(LogLocator(10, numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def _name_grid(grid: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    for axes, title in zip(grid[0], columns, strict=True):
        axes.set_title(title)
    for line, name in zip(grid, rows, strict=True):
        line[0].set_ylabel(name, fontweight="bold", color=INK)
    for axes in grid[-1]:
        axes.set_xlabel("topics")


def draw(axes: Axes, variant: str, across: Sequence[int], up: Sequence[float], *, faint: bool = False) -> None:
    style = STYLES[variant]
    size, width, alpha = (3, 1.1, 0.55) if faint else (4, 1.8, 1.0)
    axes.plot(across, up, style.line, marker="o", ms=size, lw=width, color=style.colour, alpha=alpha)


def _name_layouts(figure: Figure, variants: Sequence[str]) -> None:
    lines = [Line2D([], [], color=STYLES[name].colour, ls=STYLES[name].line, marker="o", ms=4) for name in variants]
    labels = [STYLES[name].label for name in variants]
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), handlelength=3)


def grid_figure(rows: Sequence[LayoutResult]) -> Figure:
    disks = list(dict.fromkeys(row.disk for row in rows))
    topics = sorted({row.topics for row in rows})
    figure = Figure(figsize=(14, 1.4 + 2.5 * len(disks)), layout="constrained")
    grid = figure.subplots(len(disks), len(_COLUMNS), squeeze=False, sharex=True, sharey="col")
    for line, disk in zip(grid, disks, strict=True):
        mine = [row for row in rows if row.disk == disk]
        for axes in line:
            _set_topics_axis(axes, topics)
        sync, asynchronous = ([row for row in mine if row.flush == flush] for flush in ("sync", "async"))
        _draw_each(line[0], sync, lambda row: row.at_full.sustained.puts_per_second)
        _draw_each(line[1], asynchronous, lambda row: row.at_full.sustained.puts_per_second)
        _draw_each(line[2], sync, lambda row: row.at_rate.p99_us, faint=True)
        _draw_each(line[2], sync, lambda row: row.at_rate.p50_us)
        _draw_each(line[3], asynchronous, lambda row: row.at_rate.busy_share)
        _set_rates_axis(line[0])
        _set_rates_axis(line[1])
        line[2].set_yscale("log")
        label_durations(line[2].yaxis)
        line[3].yaxis.set_major_formatter(PercentFormatter(1.0))
        line[3].set_ylim(0, 1.03)
    _name_grid(grid, disks, _COLUMNS)
    _name_layouts(figure, list(dict.fromkeys(row.variant for row in rows)))
    figure.suptitle("Producers and the number of topics: one log for all, or one for each", x=0.01, ha="left")
    return figure


def _draw_each(axes: Axes, rows: Sequence[R], figure_of: Callable[[R], float], *, faint: bool = False) -> None:
    for variant in dict.fromkeys(row.variant for row in rows):
        mine = [row for row in rows if row.variant == variant]
        draw(axes, variant, [row.topics for row in mine], [figure_of(row) for row in mine], faint=faint)


def _consumers_figure(rows: Sequence[LayoutResult]) -> Figure:
    late = [row for row in rows if row.at_full.late is not None]
    disks = list(dict.fromkeys(row.disk for row in late))
    topics = sorted({row.topics for row in late})
    figure = Figure(figsize=(2 + 3.8 * len(disks), 8), layout="constrained")
    grid = figure.subplots(len(_CONSUMER_ROWS), len(disks), squeeze=False, sharex=True, sharey="row")
    for column, disk in enumerate(disks):
        mine = [row for row in late if row.disk == disk]
        few, read, every = (line[column] for line in grid)
        _draw_each(few, mine, lambda row: _late_consumer_rates(row).few_lag.records_per_second)
        _draw_each(read, mine, lambda row: _late_consumer_rates(row).few_lag.read_bytes_per_record)
        _draw_each(every, mine, lambda row: _late_consumer_rates(row).all_lag.records_per_second)
        _set_rates_axis(few)
        _set_rates_axis(every)
        read.set_yscale("log", base=2)
        read.yaxis.set_major_formatter(FuncFormatter(lambda size_bytes, _: f"{size_bytes / 1024:g} KiB"))
        for axes in (few, read, every):
            _set_topics_axis(axes, topics)
    _name_grid(grid, _CONSUMER_ROWS, disks)
    _name_layouts(figure, list(dict.fromkeys(row.variant for row in late)))
    figure.suptitle("Late consumers, reading from the disk", x=0.01, ha="left")
    return figure


def _late_consumer_rates(row: LayoutResult) -> LateConsumerRates:
    assert row.at_full.late is not None, "a row of late consumers"
    return row.at_full.late


def _assumptions_figure(found: Sequence[AssumptionResult], disk: str) -> Figure:
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    writing = [one for one in found if one.sustained is not None]
    reading = [one for one in found if one.few_lag is not None]
    left.set_title(f"Puts per second ({disk}, async, {writing[0].topics} topics)")
    _draw_lines(left, writing, lambda one: 0.0 if one.sustained is None else one.sustained.puts_per_second)
    right.set_title(f"{CONSUMERS} of {reading[0].topics} topics late: records per second")
    _draw_lines(right, reading, lambda one: 0.0 if one.few_lag is None else one.few_lag.records_per_second)
    layouts = list(dict.fromkeys(one.layout for one in found))
    dots = [Line2D([], [], color=STYLES[name].colour, ls="", marker="o", ms=7) for name in layouts]
    figure.legend(dots, [STYLES[name].label for name in layouts], loc="outside lower center", ncols=2)
    figure.suptitle("Effects of single assumptions of the model", x=0.01, ha="left")
    return figure


def _draw_lines(axes: Axes, found: Sequence[AssumptionResult], figure_of: Callable[[AssumptionResult], float]) -> None:
    names = list(dict.fromkeys(one.assumption for one in found))
    for one in found:
        at, value = names.index(one.assumption), figure_of(one)
        axes.plot([value], [at], "o", ms=7, color=STYLES[one.layout].colour)
        axes.annotate(f"{value:,.0f}", (value, at), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.7)
    axes.set_xscale("log")
    _label_rates(axes.xaxis)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.5, high * 1.5)


def here_figure(found: Sequence[MeasuredHere]) -> Figure:
    topics = sorted({one.topics for one in found})
    sync, asynchronous = ([one for one in found if one.flush == flush] for flush in ("sync", "async"))
    figure = Figure(figsize=(13, 6), layout="constrained")
    grid = figure.subplots(2, 4)
    for axes in grid.flat:
        _set_topics_axis(axes, topics)
    for line, mine, flush in ((grid[0], sync, "Sync"), (grid[1], asynchronous, "Async")):
        line[0].set_title(f"{flush} flush: puts per second")
        _draw_each(line[0], mine, lambda one: one.puts_per_second)
        _set_rates_axis(line[0])
        rate = RATES_HERE[flush.lower()]
        line[1].set_title(f"{flush}, {rate:,.0f} puts/s: p50, faint p99")
        _draw_each(line[1], mine, lambda one: one.p99_us, faint=True)
        _draw_each(line[1], mine, lambda one: one.p50_us)
        line[1].set_yscale("log")
        label_durations(line[1].yaxis)
        _to_whole_decades(line[0])
        _to_whole_decades(line[1])
    _draw_consumers(grid, asynchronous)
    for axes in grid[-1]:
        axes.set_xlabel("topics")
    _name_layouts(figure, list(dict.fromkeys(one.variant for one in found)))
    figure.suptitle("This machine, with real files", x=0.01, ha="left")
    return figure


def _draw_consumers(grid: "Sequence[Sequence[Axes]]", found: Sequence[MeasuredHere]) -> None:
    tail, few, every, cpu = grid[0][2], grid[0][3], grid[1][3], grid[1][2]
    tail.set_title("Consumers up to date: records/s")
    _draw_each(tail, found, lambda one: one.tail_per_second or 0.0)
    few.set_title(f"{CONSUMERS} topics late: records/s")
    _draw_each(few, found, lambda one: one.few_lag_per_second or 0.0)
    every.set_title("All topics late: records/s")
    _draw_each(every, found, lambda one: one.all_lag_per_second or 0.0)
    cpu.set_title("CPU time of an async put")
    _draw_each(cpu, found, lambda one: one.put_cpu_us)
    for axes in (tail, few, every):
        _set_rates_axis(axes)
        _to_whole_decades(axes)
    cpu.set_ylim(bottom=0)
    cpu.yaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:g} µs"))

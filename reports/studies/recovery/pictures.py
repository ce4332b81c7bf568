"""Figures of recovery times: by log size, distance to the checkpoint, and part."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ...plotting import KINDS, QUIET, save_figure, save_table
from ..topics.grid import DEVICES
from .timed import HEADER, RecoveryTime, cold_read_s, recovery_rows

_MIB = 1 << 20
_KINDS = (
    (False, True, "crash, whole log", "-"),
    (False, False, "crash, from the checkpoint on", "--"),
    (True, True, "clean exit, whole log", "-"),
    (True, False, "clean exit, last three segments", "--"),
)
"""For each kind of recovery: whether after a clean exit, whether the whole log is scanned, name, line style."""
_PARTS: tuple[tuple[str, Callable[[RecoveryTime], float]], ...] = (
    ("scan of the log, CRC", lambda one: one.scan_s),
    ("queues", lambda one: one.queues_s),
    ("syncs", lambda one: one.durable_s),
    ("index", lambda one: one.index_s),
)


def write_recovery_files(found: Sequence[RecoveryTime], out: Path) -> list[Path]:
    paths = save_figure(lambda: _recovery_figure(found), out, "recovery")
    return [*paths, save_table(HEADER, recovery_rows(found), out, "recovery")]


def _recovery_figure(found: Sequence[RecoveryTime]) -> Figure:
    figure = Figure(figsize=(16, 5.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    usual = min(one.case.behind_bytes for one in found)
    by_size = [one for one in found if one.case.behind_bytes == usual]
    largest = max(one.log_bytes for one in found)
    _draw_sizes(left, by_size, usual)
    _draw_distances(middle, [one for one in found if one.log_bytes == largest and not one.case.clean_exit])
    _draw_parts(right, [one for one in found if one.log_bytes == largest])
    figure.suptitle("Recovery time on this machine, with the log in memory", x=0.01, ha="left")
    return figure


def _draw_sizes(axes: Axes, found: Sequence[RecoveryTime], behind_bytes: int) -> None:
    axes.set_title(f"Size of the log ({behind_bytes // _MIB} MiB after the checkpoint)")
    sizes = sorted({one.log_bytes for one in found})
    for clean, whole, name, line in _KINDS:
        mine = [one for one in found if (one.case.clean_exit, one.case.recover_whole_log) == (clean, whole)]
        colour = KINDS[2] if clean else KINDS[1]
        seconds = [one.total_s for one in mine]
        axes.plot([one.log_bytes for one in mine], seconds, line, marker="o", ms=4, color=colour, label=name)
    for disk, style in zip(DEVICES, (":", "-.", "--"), strict=False):
        seconds, label = [cold_read_s(disk, size) for size in sizes], f"only a cold read of the log, {disk}"
        axes.plot(sizes, seconds, style, lw=1.0, color=QUIET, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size / _MIB:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g} s"))
    axes.set_xlabel("MiB of log")
    _legend_below(axes, 2)


def _draw_distances(axes: Axes, found: Sequence[RecoveryTime]) -> None:
    log_bytes = found[0].log_bytes
    axes.set_title(f"Distance to the checkpoint ({round(log_bytes / _MIB)} MiB of log, crash)")
    for whole, name, line in ((True, "whole log", "-"), (False, "from the checkpoint on", "--")):
        mine = [one for one in found if one.case.recover_whole_log is whole]
        mine.sort(key=lambda one: one.case.behind_bytes)
        distances_mib = [min(one.case.behind_bytes, log_bytes) / _MIB for one in mine]
        for with_index, colour in ((True, KINDS[1]), (False, KINDS[0])):
            seconds = [one.total_s if with_index else one.total_s - one.index_s for one in mine]
            label = name if with_index else f"{name}, no index"
            axes.plot(distances_mib, seconds, line, marker="o", ms=4, color=colour, label=label)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g} s"))
    axes.set_xlabel("MiB after the checkpoint")
    _legend_below(axes, 2)


def _draw_parts(axes: Axes, found: Sequence[RecoveryTime]) -> None:
    axes.set_title(f"Parts of the time ({round(found[0].log_bytes / _MIB)} MiB of log)")
    names = []
    for at, one in enumerate(found):
        begin = 0.0
        for (part, seconds_of), colour in zip(_PARTS, KINDS, strict=False):
            seconds = seconds_of(one)
            axes.barh(at, seconds, left=begin, color=colour, label=part if at == 0 else None)
            begin += seconds
        names.append(_case_name(one))
    axes.set_yticks(range(len(found)), labels=names)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g} s"))
    _legend_below(axes, 4)


def _case_name(one: RecoveryTime) -> str:
    whole = "whole log" if one.case.recover_whole_log else "from checkpoint"
    if one.case.clean_exit:
        return "clean exit, whole log" if one.case.recover_whole_log else "clean exit, last segments"
    return f"crash, {whole}, {round(min(one.case.behind_bytes, one.log_bytes) / _MIB)} MiB"


def _legend_below(axes: Axes, columns: int) -> None:
    below, look = (1.0, -0.13), {"fontsize": 7.5, "handlelength": 2.6, "columnspacing": 1.2}
    axes.legend(loc="upper right", bbox_to_anchor=below, ncols=columns, **look)

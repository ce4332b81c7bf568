"""Figure of turns: latency distributions by condition, and throughput over time with its pauses."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ....plotting import INK, KINDS, save_figure, save_table
from ..pictures import distribution_axes
from ..tables import curve_of
from .paired import PairedDifference
from .puts import INTERVAL_NS, joined
from .tables import (
    HEADER,
    INTERVAL_HEADER,
    MODEL_HEADER,
    PAIRED_HEADER,
    CellTurns,
    cell_rows,
    interval_rows,
    model_rows,
    paired_rows,
)
from .turns import MODEL_SOURCE, MODES, OWN_SOURCE, RATES, Mode

_COLOURS = dict(zip(MODES, KINDS, strict=False))
_STYLES = ("-", "--", ":")
"""Line styles of the sources, in order."""
_SOURCE_TEXTS = {OWN_SOURCE: "this store", MODEL_SOURCE: "the model"}
_PAUSE_NS_MIN = 50_000_000
"""A shorter pause is not marked."""
_LANE_SHARE = 0.6
"""Height of the offered rate in the lane of a mode."""


def write_turns_files(cells: Sequence[CellTurns], differences: Sequence[PairedDifference], out: Path) -> list[Path]:
    paths = save_figure(lambda: turns_figure(cells), out, "latency-turns")
    paths.append(save_table(HEADER, cell_rows(cells), out, "latency-turns"))
    paths.append(save_table(INTERVAL_HEADER, interval_rows(cells), out, "latency-turns-throughput"))
    if any(one.cell.source == MODEL_SOURCE for one in cells):
        paths.append(save_table(MODEL_HEADER, model_rows(cells), out, "latency-turns-model"))
    return [*paths, save_table(PAIRED_HEADER, paired_rows(differences), out, "latency-turns-paired")]


def turns_figure(cells: Sequence[CellTurns]) -> Figure:
    conditions = list(dict.fromkeys(one.cell.condition for one in cells))
    producers = sorted({one.cell.producers for one in cells})
    sources = list(dict.fromkeys(one.cell.source for one in cells))
    rows = len(producers) + len(sources)
    figure = Figure(figsize=(2 + 4.6 * len(conditions), 1.6 + 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, len(conditions), squeeze=False, sharex="row", sharey="row")
    slowest_us = max(one.max_us() for one in cells)
    fastest_us = min(min(turn.puts.latencies_ns) for one in cells for turn in one.turns) / 1_000
    most_puts = max(sum(len(turn.puts.latencies_ns) for turn in one.turns) for one in cells)
    for column, condition in enumerate(conditions):
        for row, number in enumerate(producers):
            mine = [one for one in cells if one.cell.condition == condition and one.cell.producers == number]
            axes = grid[row][column]
            distribution_axes(axes, fastest_us, slowest_us * 1.5, max(1 / most_puts, 1e-4))
            axes.set_title(f"{condition.text()}; {number} producer{'s' if number > 1 else ''}")
            axes.set_xlabel("latency of a put")
            for one in mine:
                curve = curve_of(joined([turn.puts for turn in one.turns]).latencies_ns)
                style = _STYLES[sources.index(one.cell.source) % len(_STYLES)]
                axes.plot(curve.us, curve.share, color=_COLOURS[one.cell.mode], ls=style, lw=1.5)
        for row, source in enumerate(sources, len(producers)):
            mine = [one for one in cells if (one.cell.source, one.cell.condition) == (source, condition)]
            _draw_throughput(grid[row][column], source, [one for one in mine if one.cell.producers == producers[-1]])
    for panels in grid[: len(producers)]:
        panels[0].set_ylabel("percentile")
    for panels in grid[len(producers) :]:
        panels[0].set_ylabel("answers per 100 ms, label: rate")
    _add_legend(figure, sources, list(dict.fromkeys(one.cell.mode for one in cells)))
    return figure


def _draw_throughput(axes: Axes, source: str, cells: Sequence[CellTurns]) -> None:
    """Draw a lane for each mode, over its own measured time, turn after turn, with a cross in each pause."""
    axes.set_title(f"{_SOURCE_TEXTS.get(source, source)}: answers over time; x: a pause of 50 ms")
    for lane, one in enumerate(cells):
        per_interval = RATES[one.cell.mode.flush] * INTERVAL_NS / 1e9
        found = [interval for turn in one.turns for interval in turn.puts.intervals()[:-1]]  # the last is cut short
        seconds = [number * INTERVAL_NS / 1e9 for number in range(len(found))]
        shares = [lane + min(interval.puts / per_interval, 1.5) * _LANE_SHARE for interval in found]
        axes.plot(seconds, shares, color=_COLOURS[one.cell.mode], lw=0.8)
        paused = [second for second, interval in zip(seconds, found, strict=True) if interval.pause_ns >= _PAUSE_NS_MIN]
        axes.plot(paused, [lane + _LANE_SHARE / 4] * len(paused), "x", color=INK, ms=4)
    axes.set_yticks([lane + _LANE_SHARE for lane in range(len(cells))], [one.cell.mode.text() for one in cells])
    axes.set_ylim(0, len(cells))
    axes.set_xlabel("measured time, s")


def _add_legend(figure: Figure, sources: Sequence[str], modes: Sequence[Mode]) -> None:
    handles = [Line2D([], [], color=_COLOURS[mode]) for mode in modes]
    names = [mode.text() for mode in modes]
    if len(sources) > 1:
        handles += [Line2D([], [], color=INK, ls=_STYLES[number % len(_STYLES)]) for number in range(len(sources))]
        names += [_SOURCE_TEXTS.get(source, source) for source in sources]
    figure.legend(handles, names, loc="outside lower left", ncols=len(names))
    figure.suptitle("Puts on this machine, in turns", x=0.01, ha="left")

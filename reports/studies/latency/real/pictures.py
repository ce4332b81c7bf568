"""Figures of turns: latency distributions by mode and condition, and throughput over time with its pauses."""

from collections import Counter
from collections.abc import Sequence
from math import log
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ....plotting import INK, KINDS, save_figure, save_table
from ....quantities import count_text
from ..pictures import distribution_axes, write_at_curve
from ..tables import Curve, curve_of
from .file_system import SyncCosts, SyncRequests
from .paired import PairedDifference
from .puts import INTERVAL_NS, joined
from .tables import (
    CURVE_HEADER,
    HEADER,
    INTERVAL_HEADER,
    MODEL_HEADER,
    PAIRED_HEADER,
    CellTurns,
    cell_rows,
    curve_rows,
    interval_rows,
    model_rows,
    paired_rows,
)
from .turns import MODEL_SOURCE, MODES, OWN_SOURCE, RATES

_COLOURS = dict(zip(MODES, KINDS, strict=False))
"""Colours of modes, in the figure of throughput."""
_SOURCE_TEXTS = {OWN_SOURCE: "this store", MODEL_SOURCE: "the model"}
_PAUSE_NS_MIN = 50_000_000
"""A shorter pause is not marked."""
_LANE_SHARE = 0.6
"""Height of the offered rate in the lane of a mode."""
_KNEE_SHARE = 0.5
"""The search for a knee starts at the median."""
_KNEE_MIN = 0.12
"""Minimum distance of a knee from the line between the ends of its part of the curve, relative to the extent."""
_KNEE_EXTENT = log(4)
"""Logarithm of the minimum factor between the latencies, and between the shares, at the ends of a searched part."""
_CAUSE_TEXTS = {
    "dirty limit": "dirty limit reached",
    "memory reclaim": "no clean page to reclaim",
    "device": "the disk",
    "computing": "computing and queues",
}
"""Longer names in a picture for some causes of `waits.CAUSES`."""


def write_turns_files(
    cells: Sequence[CellTurns], differences: Sequence[PairedDifference], syncs: SyncCosts | None, out: Path
) -> list[Path]:
    paths = save_figure(lambda: turns_figure(cells), out, "latency-turns")
    paths += save_figure(lambda: throughput_figure(cells), out, "latency-turns-throughput")
    paths.append(save_table(HEADER, cell_rows(cells), out, "latency-turns"))
    paths.append(save_table(CURVE_HEADER, curve_rows(cells), out, "latency-turns-curves"))
    paths.append(save_table(INTERVAL_HEADER, interval_rows(cells), out, "latency-turns-throughput"))
    if any(one.cell.source == MODEL_SOURCE for one in cells):
        paths.append(save_table(MODEL_HEADER, model_rows(cells), out, "latency-turns-model"))
    if syncs is not None:
        paths.append(save_table(SyncRequests._fields, syncs, out, "latency-turns-syncs"))
    return [*paths, save_table(PAIRED_HEADER, paired_rows(differences), out, "latency-turns-paired")]


def turns_figure(cells: Sequence[CellTurns]) -> Figure:
    """Draw a panel for each mode and condition, with a curve for each store and the model's causes at its knees."""
    conditions = list(dict.fromkeys(one.cell.condition for one in cells))
    lanes = list(dict.fromkeys((one.cell.mode, one.cell.producers) for one in cells))
    has_several_producers = len({one.cell.producers for one in cells}) > 1
    colours = _source_colours(cells)
    figure = Figure(figsize=(1.2 + 4.2 * len(conditions), 1.4 + 2.5 * len(lanes)), layout="constrained")
    grid = figure.subplots(len(lanes), len(conditions), squeeze=False, sharex=True, sharey=True)
    slowest_us = max(one.max_us() for one in cells)
    fastest_us = min(min(turn.puts.latencies_ns) for one in cells for turn in one.turns) / 1_000
    most_puts = max(sum(len(turn.puts.latencies_ns) for turn in one.turns) for one in cells)
    for one in cells:
        cell = one.cell
        axes = grid[lanes.index((cell.mode, cell.producers))][conditions.index(cell.condition)]
        distribution_axes(axes, fastest_us, slowest_us * 1.5, max(0.7 / most_puts, 1e-4))
        producers = f", {count_text(cell.producers, 'producer')}" if has_several_producers else ""
        axes.set_title(f"{cell.mode.text()}{producers}: {cell.condition.text()}", fontsize=9)
        curve = curve_of(joined([turn.puts for turn in one.turns]).latencies_ns)
        axes.plot(curve.us, curve.share, color=colours[cell.source], lw=1.5)
        if cell.source == MODEL_SOURCE:
            _write_cause_at_knee(axes, one, curve, colours[cell.source])
    for row in grid:
        row[0].set_ylabel("percentile")
    for axes in grid[-1]:
        axes.set_xlabel("latency of a put")
    _add_legend(figure, colours)
    turns = count_text(max(len(one.turns) for one in cells), "turn")
    load = median(turn.load_average for one in cells for turn in one.turns)
    figure.suptitle(f"Puts on this machine in {turns}, load average {load:.1f}", x=0.01, ha="left")
    return figure


def throughput_figure(cells: Sequence[CellTurns]) -> Figure:
    conditions = list(dict.fromkeys(one.cell.condition for one in cells))
    sources = list(dict.fromkeys(one.cell.source for one in cells))
    most_producers = max(one.cell.producers for one in cells)
    figure = Figure(figsize=(1.2 + 4.2 * len(conditions), 1.2 + 2.5 * len(sources)), layout="constrained")
    grid = figure.subplots(len(sources), len(conditions), squeeze=False, sharex="row", sharey="row")
    for row, source in zip(grid, sources, strict=True):
        for axes, condition in zip(row, conditions, strict=True):
            mine = [one for one in cells if (one.cell.source, one.cell.condition) == (source, condition)]
            axes.set_title(f"{_SOURCE_TEXTS.get(source, source)}: {condition.text()}", fontsize=9)
            _draw_throughput(axes, [one for one in mine if one.cell.producers == most_producers])
        row[0].set_ylabel("answers per 100 ms, label: rate")
    figure.suptitle("Answers over time. x: a pause of 50 ms or more", x=0.01, ha="left")
    return figure


def _source_colours(cells: Sequence[CellTurns]) -> dict[str, str]:
    known = {MODEL_SOURCE: KINDS[0], OWN_SOURCE: KINDS[1]}
    others = iter(KINDS[2:])
    sources = sorted(dict.fromkeys(one.cell.source for one in cells), key=lambda source: source != MODEL_SOURCE)
    return {source: known.get(source) or next(others) for source in sources}


def knee_of(curve: Curve) -> int | None:
    """Return the index at which a distribution's curve bends most after its median; None: it hardly bends.

    It is the point farthest from a straight line from the median to a later point, on the logarithmic scales of the
    figure. Every later point is tried, because a curve with many long waits falls steeply again after them.
    """
    points = [(log(us), log(share)) for us, share in zip(curve.us, curve.share, strict=True) if share <= _KNEE_SHARE]
    farthest, knee = _KNEE_MIN, None
    for end, (right, bottom) in enumerate(points):
        left, top = points[0]
        if min(right - left, top - bottom) >= _KNEE_EXTENT:
            for place, (x, y) in enumerate(points[:end]):
                distance = (top - y) / (top - bottom) - (x - left) / (right - left)
                if distance > farthest:
                    farthest, knee = distance, len(curve.us) - len(points) + place
    return knee


def _write_cause_at_knee(axes: Axes, one: CellTurns, curve: Curve, colour: str) -> None:
    """Write the longest wait of the puts beyond the knee next to it."""
    place = knee_of(curve)
    if place is None:
        return
    total: Counter[str] = Counter()
    for put in (put for turn in one.turns for put in turn.slowest if put.latency_ns >= curve.us[place] * 1_000):
        total.update(put.causes)
    if not total:
        return
    cause = max(sorted(total), key=lambda name: total[name])
    axes.plot([curve.us[place]], [curve.share[place]], "o", color=colour, ms=4)
    write_at_curve(axes, curve, place, _CAUSE_TEXTS.get(cause, cause), colour, (8, 4))


def _draw_throughput(axes: Axes, cells: Sequence[CellTurns]) -> None:
    """Draw a lane for each mode, over its own measured time, turn after turn, with a cross in each pause."""
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


def _add_legend(figure: Figure, colours: dict[str, str]) -> None:
    handles = [Line2D([], [], color=colour) for colour in colours.values()]
    names = [_SOURCE_TEXTS.get(source, source) for source in colours]
    title = (
        "Dot: the knee of the model's curve, with the main wait of the puts beyond it."
        if MODEL_SOURCE in colours
        else None
    )
    figure.legend(
        handles, names, loc="outside lower left", ncols=len(names), title=title, title_fontsize=8, alignment="left"
    )

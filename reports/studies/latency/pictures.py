"""Draws what was measured, and leaves it beside its data."""

from collections.abc import Sequence
from pathlib import Path

from ...plotting.save import save_figure, save_table
from ...plotting.style import house_style
from .comparison import LatencyComparison
from .effects import EffectSeries, GroupCommit
from .effects_figure import effects_figure
from .grid import LatencySeries
from .grid_figure import grid_figure
from .here_figure import here_figure
from .tables import (
    CURVE_HEADER,
    HEADER,
    VARIANT_HEADER,
    grid_curves,
    grid_rows,
    here_curves,
    here_rows,
    variant_rows,
)


def leave_grid(measured: Sequence[LatencySeries], out: Path) -> list[Path]:
    """Leave latency.png, .svg and .csv, and latency-curves.csv; return where."""
    with house_style():
        paths = save_figure(grid_figure(measured), out, "latency")
    paths.append(save_table(HEADER, grid_rows(measured), out, "latency"))
    return [*paths, save_table(CURVE_HEADER, grid_curves(measured), out, "latency-curves")]


def leave_effects(
    groups: Sequence[GroupCommit],
    rollovers: Sequence[EffectSeries],
    slow: Sequence[EffectSeries],
    out: Path,
    *,
    rollover_disk: str,
    slow_disk: str,
) -> list[Path]:
    """Leave latency-effects.png, .svg and .csv, and group-commit.csv; return where."""
    with house_style():
        figure = effects_figure(groups, rollovers, slow, rollover_disk=rollover_disk, slow_disk=slow_disk)
        paths = save_figure(figure, out, "latency-effects")
    paths.append(save_table(GroupCommit._fields, groups, out, "group-commit"))
    rows = [*variant_rows("rollover", rollovers), *variant_rows("slow syncs", slow)]
    return [*paths, save_table(VARIANT_HEADER, rows, out, "latency-effects")]


def leave_here(comparisons: Sequence[LatencyComparison], out: Path) -> list[Path]:
    """Leave latency-here.png, .svg and .csv, and latency-here-curves.csv; return where."""
    with house_style():
        paths = save_figure(here_figure(comparisons), out, "latency-here")
    paths.append(save_table(HEADER, here_rows(comparisons), out, "latency-here"))
    return [*paths, save_table(CURVE_HEADER, here_curves(comparisons), out, "latency-here-curves")]

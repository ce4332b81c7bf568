"""Draws what was measured of topics, and leaves it beside its data."""

from collections.abc import Sequence
from pathlib import Path

from ...plotting.save import save_figure, save_table
from ...plotting.style import house_style
from .assumptions import AssumptionResult
from .assumptions_figure import assumptions_figure
from .consumers_figure import consumers_figure
from .grid import LayoutResult
from .grid_figure import grid_figure
from .here import MeasuredHere
from .here_figure import here_figure
from .tables import CHECKED_HEADER, HEADER, checked_rows, grid_rows, here_rows


def leave_grid(rows: Sequence[LayoutResult], out: Path) -> list[Path]:
    """Leave topics.png, .svg and .csv, and topics-consumers.png and .svg; return where."""
    with house_style():
        paths = save_figure(grid_figure(rows), out, "topics")
        paths += save_figure(consumers_figure(rows), out, "topics-consumers")
    return [*paths, save_table(HEADER, grid_rows(rows), out, "topics")]


def leave_assumptions(found: Sequence[AssumptionResult], disk: str, out: Path) -> list[Path]:
    """Leave topics-assumptions.png, .svg and .csv; return where."""
    with house_style():
        paths = save_figure(assumptions_figure(found, disk), out, "topics-assumptions")
    return [*paths, save_table(CHECKED_HEADER, checked_rows(found), out, "topics-assumptions")]


def leave_here(found: Sequence[MeasuredHere], out: Path) -> list[Path]:
    """Leave topics-here.png, .svg and .csv; return where."""
    with house_style():
        paths = save_figure(here_figure(found), out, "topics-here")
    return [*paths, save_table(HEADER, here_rows(found), out, "topics-here")]

"""Draws how long recovery takes, and leaves it beside its data."""

from collections.abc import Sequence
from pathlib import Path

from ...plotting.save import save_figure, save_table
from ...plotting.style import house_style
from .figure import recovery_figure
from .tables import HEADER, recovery_rows
from .timed import RecoveryTime


def leave_recovery(found: Sequence[RecoveryTime], out: Path) -> list[Path]:
    """Leave recovery.png, .svg and .csv; return where."""
    with house_style():
        paths = save_figure(recovery_figure(found), out, "recovery")
    return [*paths, save_table(HEADER, recovery_rows(found), out, "recovery")]

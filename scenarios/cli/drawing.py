"""Who draws: commands of this package ask for pages, and packages that this one knows nothing of make them.

The program sets `draw_with` when it is put together. Code that is used as a library may do the same.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

if TYPE_CHECKING:
    from ..chronicle.record import Chronicle
    from .results import HuntResults, RunResults


class Pages(Protocol):
    """What can be drawn."""

    def timeline(self, chronicle: "Chronicle") -> str:
        """Return a run as an HTML page that needs nothing else."""

    def trace(self, chronicle: "Chronicle") -> str:
        """Return a run as JSON of trace events."""

    def run_report(self, results: "RunResults") -> str:
        """Return what many runs came to as an HTML page that needs nothing else."""

    def hunt_report(self, results: "HuntResults") -> str:
        """Return what came of hunting mutants as an HTML page that needs nothing else."""


class _Assembly:
    """What the program was put together with."""

    load: Callable[[], Pages] | None = None


def draw_with(load: Callable[[], Pages] | None) -> None:
    """Let pages be drawn from now on by what this loads when it is needed; None: by nobody."""
    _Assembly.load = load


def pages() -> Pages:
    """Return who draws. Raises BadParameter if nobody does."""
    if _Assembly.load is None:
        raise typer.BadParameter(
            "nobody draws pages here: the program was put together without tornlog.reports"
        )
    return _Assembly.load()


def draw_run(chronicle: "Chronicle", timeline: Path | None, trace: Path | None) -> list[Path]:
    """Leave what is wanted of a run; return the files."""
    drawn = []
    drawing = pages()
    for file, draw in ((timeline, drawing.timeline), (trace, drawing.trace)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(chronicle), encoding="utf-8")
            drawn.append(file)
    return drawn

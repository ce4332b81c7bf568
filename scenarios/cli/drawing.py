"""Who draws: commands of this package ask for pages, and packages that this one knows nothing of make them.

The program sets `draw_with` when it is put together. Code that is used as a library may do the same.
"""

from pathlib import Path
from typing import Annotated, Protocol

import typer

from ..chronicle.record import Chronicle
from .results import HuntResults, RunResults

TimelineFile = Annotated[
    Path | None,
    typer.Option("--timeline", dir_okay=False, help="Draw the run as one HTML page, in FILE."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", dir_okay=False, help="Write the run as trace events for Perfetto, in FILE."),
]


class Pages(Protocol):
    """What can be drawn."""

    def timeline(self, chronicle: Chronicle) -> str:
        """Return a run as an HTML page that needs nothing else."""

    def trace(self, chronicle: Chronicle) -> str:
        """Return a run as JSON of trace events."""

    def run_report(self, results: RunResults) -> str:
        """Return what many runs came to as an HTML page that needs nothing else."""

    def hunt_report(self, results: HuntResults) -> str:
        """Return what came of hunting mutants as an HTML page that needs nothing else."""


class _Assembly:
    """What the program was put together with."""

    pages: Pages | None = None


def draw_with(pages: Pages) -> None:
    """Let pages be drawn by this from now on."""
    _Assembly.pages = pages


def pages() -> Pages:
    """Return who draws. Raises BadParameter if nobody does."""
    if _Assembly.pages is None:
        raise typer.BadParameter(
            "nobody draws pages here: the program was put together without tornlog.reports"
        )
    return _Assembly.pages


def draw_run(chronicle: Chronicle, timeline: Path | None, trace: Path | None) -> list[Path]:
    """Leave what is wanted of a run; return the files."""
    drawn = []
    for file, draw in ((timeline, pages().timeline), (trace, pages().trace)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(chronicle), encoding="utf-8")
            drawn.append(file)
    return drawn

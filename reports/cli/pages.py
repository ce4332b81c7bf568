"""Pages of a command: its report, and timelines of runs."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..timeline.recording.record import RunRecording

PAGE = "report.html"
TIMELINES_MAX = 12
TIMELINE_STEPS_MAX = 20_000
"""Maximum of scheduling points for an automatic timeline: longer runs make pages of many megabytes."""


def draw_run(run_recording: "RunRecording", timeline: Path | None, trace: Path | None) -> list[Path]:
    """Write the requested files of a run, an HTML page and trace events; return their paths."""
    from ..timeline.page import timeline_page
    from ..timeline.perfetto import trace_json

    drawn = []
    for file, draw in ((timeline, timeline_page), (trace, trace_json)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(draw(run_recording), encoding="utf-8")
            drawn.append(file)
    return drawn


def write_page(html: str, out: Path) -> Path:
    """Write the page to a directory, which is created if missing; return its path."""
    from ...scenarios.campaigns.kept_files import keep_file  # it brings in the store, and a probe may leave no page

    path = out / PAGE
    keep_file(path, html)
    return path

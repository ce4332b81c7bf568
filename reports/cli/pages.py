"""Pages: writes the report page of a command, and timelines of runs."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..timeline.recording.record import RunRecording

PAGE = "report.html"
TIMELINES_MAX = 12
TIMELINE_STEPS_MAX = 20_000
"""Maximum steps of a run whose timeline is drawn automatically. Pages of longer runs have many megabytes."""


def draw_run(run_recording: "RunRecording", timeline: Path | None, trace: Path | None) -> list[Path]:
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
    # imported here, because it imports the store, which a probe without pages does not need
    from ...scenarios.campaigns.kept_files import keep_file

    path = out / PAGE
    keep_file(path, html)
    return path

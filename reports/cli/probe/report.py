"""The report directory of a probe: its page, and timelines of its first failures."""

import shlex
from dataclasses import replace
from pathlib import Path

from ....faults.probe.documents import Places
from ...html.probe_report import probe_page
from ...html.probe_results import ProbeLinks, ProbeResults
from ...timeline.recording.probed import record_probe
from ..pages import TIMELINE_STEPS_MAX, TIMELINES_MAX, draw_run, write_page


def leave_probe_report(results: ProbeResults, places: Places, out: Path) -> Path:
    """Leave the page of a probe, and timelines of its first failures; places: of what is kept of each, below `out`."""
    links: dict[tuple[str, str], ProbeLinks] = {}
    for finding in results.all_findings:
        place = places[finding.kind, finding.signature]
        timeline = ""
        if len(links) < TIMELINES_MAX and finding.shown.case.point.step < TIMELINE_STEPS_MAX:
            page = out / "timelines" / f"{place.name}.html"
            draw_run(record_probe(finding, results.check.name), page, None)
            timeline = page.relative_to(out).as_posix()
        kept = place.relative_to(out).as_posix()
        again = shlex.join(["tornlog", "probe", "--replay", str(place / "failure.json")])
        links[finding.kind, finding.signature] = ProbeLinks(again, f"{kept}/failure.json", f"{kept}/files", timeline)
    return write_page(probe_page(replace(results, links=links)), out)

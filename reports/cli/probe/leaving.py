"""Output of `probe`: writes failures, timelines and the result."""

from pathlib import Path
from typing import NoReturn

from ....faults.probe.documents import Places, refused_json
from ....faults.probe.failure import write_failure_cases
from ....faults.simulation.prose import print_line
from ...quantities import count_text
from ...results.leaving import write_result_and_exit
from ..console import ERR, print_note
from ..options import EXIT_HARNESS, ResultFiles, results_written, write_json
from ..pages import TIMELINE_STEPS_MAX, TIMELINES_MAX, draw_run
from .baseline import NO_REASON, write_baseline
from .recording import RefusedError
from .result import Timelines, probe_result
from .results import ProbeResults


def write_refusal_and_exit(error: RefusedError, json_file: str | None) -> NoReturn:
    written = ResultFiles()
    with written.writing():
        write_json(json_file, refused_json(error.record, error.reasons))
    ERR.print("[red]refused[/red]: the program made calls that the recorder does not see", soft_wrap=True)
    for reason in error.reasons:
        print_line(ERR, 2, reason)
    if error.hint:
        print_line(ERR, 0, error.hint)
    written.exit(EXIT_HARNESS)


def write_probe_results_and_exit(
    results: ProbeResults,
    exit_code: int,
    *,
    out: Path | None,
    junit: Path | None,
    summary: Path | None,
    json_file: str | None,
    baseline: Path | None = None,
    reason: str | None = None,
) -> NoReturn:
    """baseline: a file to write. reason: reason of new findings there."""
    places: Places = {}
    timelines: Timelines = {}
    files, page = ResultFiles(), None
    if out is not None:
        with files.writing(), results_written("--out"):
            places, timelines = write_failures(results, out)
            page = out
    if baseline is not None:
        with files.writing():
            found = dict.fromkeys(results.signatures, reason or NO_REASON)
            write_baseline(baseline, found | {one: results.baseline[one] for one in results.known(found)})
            print_note(f"wrote {baseline}: {count_text(len(found), 'finding')}")
    result = probe_result(results, places, timelines, exit_code)
    write_result_and_exit(result, json_file=json_file, page=page, junit=junit, summary=summary, files=files)


def write_failures(results: ProbeResults, out: Path) -> tuple[Places, Timelines]:
    # imported here, because it imports the store
    from ....scenarios.campaigns.kept_files import keep_file

    places = write_failure_cases(results.all_findings, results.check, out, keep_file)
    return places, _draw_timelines(results, places, out)


def _draw_timelines(results: ProbeResults, places: Places, out: Path) -> Timelines:
    """Return paths of the pages, relative to `out`."""
    from ...timeline.recording.probed import record_probe

    drawn = {}
    for finding in results.all_findings[:TIMELINES_MAX]:
        if finding.shown.case.point.step < TIMELINE_STEPS_MAX:
            key = finding.kind, finding.signature
            page = out / "timelines" / f"{places[key].name}.html"
            draw_run(record_probe(finding, results.check.name), page, None)
            drawn[key] = page.relative_to(out).as_posix()
    return drawn

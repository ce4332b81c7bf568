"""What `tornlog probe` leaves of its results, and what it shows of them."""

from pathlib import Path

from ....faults.probe.documents import Places, probed_json, recoveries_json, refused_json, reruns_json
from ....faults.probe.failure import write_cases
from ...html.probe_results import ProbeResults, kinds_of_breach
from ..ci_formats import write_junit
from ..console import ERR, OUT, findings_console, print_paths
from ..options import ResultFiles, results_written, write_json
from .documents import append_probe_summary, probe_document
from .printing import (
    print_breach,
    print_output,
    print_probed,
    print_recoveries,
    print_refusal,
    print_reruns,
    print_unfinished,
)
from .recording import RefusedError


def leave_refusal(error: RefusedError, json_file: str | None) -> ResultFiles:
    """Write and print why a program cannot be probed. Return the files, for the exit."""
    written = ResultFiles()
    with written.attempt():
        write_json(json_file, refused_json(error.record, error.reasons))
    print_refusal(ERR, error.reasons, error.hint)
    return written


def leave_results(
    results: ProbeResults, out: Path | None, junit: Path | None, summary: Path | None, json_file: str | None
) -> ResultFiles:
    """Write the report directory, JUnit XML, summary and JSON that are asked for, and print the rest.

    Return the files, for the exit.
    """
    places: Places = {}
    report: Path | None = None
    written = ResultFiles()
    if out is not None:
        with written.attempt(), results_written("--out"):
            places, report = _leave_directory(results, out)
    with written.attempt():
        _write_documents(results, places, report, json_file)
    if junit is not None:
        with written.attempt(), results_written("--junit"):
            write_junit(junit, probe_document(results, places))
    if summary is not None:
        with written.attempt(), results_written("--summary"):
            append_probe_summary(summary, results, places)
    _show(results, places, report, json_file)
    return written


def _leave_directory(results: ProbeResults, out: Path) -> tuple[Places, Path]:
    # These bring in templates, timelines and a store: for those alone who want a directory.
    from ....scenarios.campaigns.kept_files import keep_file
    from .report import leave_probe_report

    places = write_cases(results.all_findings, results.check, out, keep_file)
    return places, leave_probe_report(results, places, out)


def _write_documents(results: ProbeResults, places: Places, report: Path | None, json_file: str | None) -> None:
    document = probed_json(
        results.record, results.check, results.limit, results.found, results.findings, places, list(results.allowed)
    )
    if results.recoveries is not None:
        document["recoveries"] = recoveries_json(results.recoveries, results.recovered, places)
    if results.reruns is not None:
        document["reruns"] = reruns_json(results.reruns, results.differing, places)
    if results.ended:
        document["ended"] = results.ended
    if report is not None:
        document["report"] = str(report)
    write_json(json_file, document)


def _show(results: ProbeResults, places: Places, report: Path | None, json_file: str | None) -> None:
    """Print what was tried, and what broke; with JSON on standard output, the latter elsewhere."""
    is_shown = json_file != "-"
    if is_shown:
        print_probed(OUT, results.found, results.record)
        if results.recoveries is not None:
            print_recoveries(OUT, results.recoveries, results.recovery_gaps, results.hint)
        if results.reruns is not None:
            print_reruns(OUT, results.reruns, results.rerun_gaps)
    console = findings_console(json_file)
    for one in results.breaches():
        place = places.get((one.finding.kind, one.finding.signature))
        print_breach(console, one.finding, place, one.disks)
    more = results.kinds - len(results.all_findings)
    if more:
        console.print(f"\nand {kinds_of_breach(more)} more, which --json lists", soft_wrap=True)
    print_output(ERR, results.said)
    if results.gaps:
        print_unfinished(console, results.gaps)
    if report is not None and is_shown:
        print_paths([report])

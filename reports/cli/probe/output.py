"""Output of `probe`: writes failures, timelines and the result, and checks a stored failure again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import typer

from ....faults.crashes.at_rest import AT_REST
from ....faults.probe import CHECK_SECONDS
from ....faults.probe.checks.checkers import Checkers
from ....faults.probe.documents import Places, refused_json, replayed_json
from ....faults.probe.failure import ProbeFailure, ProbeFinding, write_failure_cases
from ....faults.probe.record import Answers, RecordError
from ....faults.probe.shrink import CrashCaseReplay, CrashCaseView, NotReproducedError
from ....faults.simulation.artefact import PROBE, ArtefactError, read_envelope
from ....faults.simulation.prose import print_line
from ...quantities import count_text
from ...results.model import FailureGroup, Failures, On, Result, Tone, Verdict
from ...results.output import write_result_and_exit
from ..console import ERR, print_error, print_note
from ..options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    TIMELINE_STEPS_MAX,
    TIMELINES_MAX,
    ResultFiles,
    draw_run,
    results_written,
    write_json,
)
from .baseline import NO_REASON, write_baseline
from .command import ProbeOptions
from .recording import RefusedError, check_given
from .result import Timelines, probe_result
from .results import ProbeBreach, ProbeResults


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


def write_probe_results_and_exit(results: ProbeResults, exit_code: int, options: ProbeOptions) -> NoReturn:
    places: Places = {}
    timelines: Timelines = {}
    files, page = ResultFiles(), None
    if options.out is not None:
        with files.writing(), results_written("--out"):
            places, timelines = write_failures(results, options.out)
            page = options.out
    if options.write_baseline is not None:
        with files.writing():
            found = dict.fromkeys(results.signatures, options.reason or NO_REASON)
            write_baseline(options.write_baseline, found | {one: results.baseline[one] for one in results.known(found)})
            print_note(f"wrote {options.write_baseline}: {count_text(len(found), 'finding')}")
    result = probe_result(results, places, timelines, exit_code)
    write_result_and_exit(
        result, json_file=options.json_file, page=page, junit=options.junit, summary=options.summary, files=files
    )


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


def is_of_probe(file: Path) -> bool:
    """Return whether `tornlog probe` has written this file as a failure."""
    try:
        return read_envelope(file.read_text()).get("kind") == PROBE
    except (OSError, UnicodeDecodeError, ArtefactError):
        return False


def replay_probe(
    file: Path,
    *,
    checks: Mapping[str, str] = MappingProxyType({}),
    seconds: float = CHECK_SECONDS,
    timeline: Path | None = None,
    json_file: str | None = None,
) -> NoReturn:
    """Rebuild a stored state, check it, and exit. checks: kind -> check to use instead of the stored one."""
    try:
        failure = ProbeFailure.from_json(file.read_text())
        shown = CrashCaseReplay(failure.record, failure.start, failure.case).shown(failure.case)
    except (OSError, UnicodeDecodeError, ArtefactError, RecordError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--replay") from error
    except NotReproducedError as error:
        print_error(f"not reproduced: {error}")
        raise typer.Exit(EXIT_HARNESS) from error
    chosen = check_given(checks or {failure.check_kind: failure.check})
    with Checkers(chosen, 1, seconds) as checkers:
        (verdict,) = checkers.verdicts([(shown.image, Answers.from_steps(failure.record.answers))])
    now = CrashCaseView(replace(failure.case, verdict=verdict), shown.image, shown.losses)
    finding = ProbeFinding(verdict.signature, failure.record, failure.start, now, failure.recovery, failure.rerun)
    drawn, written = list[Path](), ResultFiles()
    if timeline is not None:
        from ...timeline.recording.probed import record_probe  # imported here, because only timelines need it

        with written.writing(), results_written("--timeline"):
            drawn = draw_run(record_probe(finding, chosen.name), timeline, None)
    text = ProbeBreach(finding, 1, 1, (failure.case.disk,)).text(file.parent)
    is_broken = verdict.is_breach(is_damaged=failure.case.disk in AT_REST and bool(shown.losses))
    message = verdict.signature if is_broken else "the check now accepts this state"
    result = Result(
        "probe",
        message,
        Verdict(Tone.BROKEN if is_broken else Tone.HELD, message),
        EXIT_BROKEN if is_broken else EXIT_HELD,
        replayed_json(failure, chosen, verdict) | ({"drawn": [str(path) for path in drawn]} if drawn else {}),
        blocks=[Failures("Failure", On.ALARM, groups=[FailureGroup([text])])] if is_broken else (),
    )
    write_result_and_exit(result, json_file=json_file, drawn=drawn, files=written)

"""Replay of a probe failure: rebuilds the crash state, and checks it again.

JSON: `{"format": "tornlog-probe-replay/1", "program", "check", "disk", "same", "outcome", "violations", "signature",
"digest"}`, with --timeline also "drawn": `[paths]`. same: whether the check reports the same kind of violation.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import typer

from ....faults.crashes.at_rest import AT_REST
from ....faults.probe import CHECK_SECONDS
from ....faults.probe.checks.checkers import Checkers
from ....faults.probe.documents import replayed_json
from ....faults.probe.failure import ProbeFailure, ProbeFinding
from ....faults.probe.record import Answers, RecordError
from ....faults.probe.shrink import CrashCaseReplay, CrashCaseView, NotReproducedError
from ....faults.simulation.artefact import PROBE, ArtefactError, read_envelope
from ...results.leaving import write_result_and_exit
from ...results.model import FailureGroup, Failures, On, Result, Tone, Verdict
from ..console import print_error
from ..options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, ResultFiles, results_written
from ..pages import draw_run
from .breach_text import ProbeBreach
from .recording import check_given


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
    said = verdict.signature if is_broken else "the check now accepts this state"
    result = Result(
        "probe",
        said,
        Verdict(Tone.BROKEN if is_broken else Tone.HELD, said),
        EXIT_BROKEN if is_broken else EXIT_HELD,
        replayed_json(failure, chosen, verdict) | ({"drawn": [str(path) for path in drawn]} if drawn else {}),
        blocks=[Failures("Failure", On.ALARM, groups=[FailureGroup([text])])] if is_broken else (),
    )
    write_result_and_exit(result, json_file=json_file, drawn=drawn, files=written)

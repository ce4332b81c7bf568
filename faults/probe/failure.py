"""Failures of programs: a broken state, and all it takes to make it again and have the check look at it.

As an artefact (`faults.simulation.artefact`, of the kind "probe"):

check       the check's file
signature   what breaches of its kind have in common
outcome     broken, raised, timed out or died
violations  what the check says of it
disk        under which kind of crash
after       the moment: {"step", "operations", "acknowledged", "is_inside"}
decisions   what the crash took: stream -> [[label, nth, options, value], ...] (sim.choices)
digest      of what is left
losses      the same in words: [{"what", "by": the step that had made it}]
story       the last things the program did before it
start       what there was before the program began: {"directories": [paths], "files": {path: base64}}
record      what the program did up to then (faults.probe.record)
"""

from dataclasses import dataclass
from typing import Any

from ...sim.choices import decisions_of, recorded
from ..crashes.profiles import PROFILES
from ..disk.image import FileImage, Image
from ..simulation.artefact import PROBE, ArtefactError, read_artefact, write_artefact
from .check import CheckOutcome
from .probe import CrashCase
from .record import ProgramRecord
from .replay import Point
from .shrink import CrashCaseView
from .story import step_text, story


@dataclass(frozen=True, slots=True)
class _ImageDocument:
    """A tree of files as an artefact has it."""

    directories: list[str]
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _ProbeDocument:
    """A failure as its artefact has it."""

    check: str
    signature: str
    outcome: str
    violations: list[str]
    disk: str
    after: Point
    decisions: dict[str, list[tuple[str, int, int, int]]]
    digest: str
    losses: list[dict[str, str]]
    story: list[str]
    start: _ImageDocument
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """A case with the record and the check it is of."""

    check: str
    case: CrashCase
    start: Image
    record: ProgramRecord
    """As far as the case goes."""

    def to_json(self, shown: CrashCaseView) -> str:
        """Return the artefact's text. shown: the case with its losses."""
        case, decisions = self.case, {}
        for stream, entries in recorded(self.case.decisions).items():
            decisions[stream] = [(label, nth, options, value) for label, nth, options, value in entries]
        files = {path: file.content for path, file in self.start.files.items()}
        document = _ProbeDocument(
            self.check,
            case.verdict.signature,
            case.verdict.outcome,
            list(case.verdict.lines),
            case.disk,
            case.point,
            decisions,
            case.digest,
            losses_json(self.record, shown),
            list(story(self.record, case.point.step)),
            _ImageDocument(list(self.start.directories), files),
            self.record.to_json(),
        )
        return write_artefact(PROBE, document)

    @classmethod
    def from_json(cls, text: str) -> "ProbeFailure":
        """Read what to_json wrote. Raises ArtefactError, or RecordError, saying what is wrong with another text."""
        found = read_artefact(text, PROBE, _ProbeDocument)
        if found.disk not in PROFILES:
            raise ArtefactError(f"failure.disk: expected one of {', '.join(PROFILES)}, found {found.disk}")
        verdict = CheckOutcome(found.outcome, tuple(found.violations))
        decisions = tuple(decisions_of(found.decisions))
        case = CrashCase(found.after, found.disk, decisions, found.digest, verdict, len(found.losses))
        files = {path: FileImage(content, 0) for path, content in found.start.files.items()}
        start = Image(files, tuple(found.start.directories))
        return cls(found.check, case, start, ProgramRecord.from_json(found.record))


def losses_json(record: ProgramRecord, shown: CrashCaseView) -> list[dict[str, str]]:
    """Return what is lost in words, each with the step that had made it."""
    return [{"what": loss.what, "by": step_text(record, loss.step).strip()} for loss in shown.losses]

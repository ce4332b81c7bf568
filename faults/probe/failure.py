"""Failures of programs: broken states, with all it takes to make them again and have the check look at them; results.

A kind of breach has a directory of its own, with the failure and the files that the crash left. The failure is an
artefact (`faults.simulation.artefact`) of the kind "probe":

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
start       what there was before the program began: {"directories": [paths], "files": {path: base64},
            "symlinks": {path: text}, "sparse": {path: {"size", "extents": [[offset, base64], ...]}}}
record      what the program did up to then (faults.probe.record)
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...sim.choices import decisions_of, recorded
from ..crashes.profiles import PROFILES
from ..disk.content import SparseBytes
from ..disk.export import export
from ..disk.image import FileImage, Image
from ..simulation.artefact import PROBE, ArtefactError, read_artefact, write_artefact
from .checks.check import CheckOutcome
from .probe import CrashCase, ProbeReport, ViolationGroup
from .record import FILES, ProgramRecord
from .replay import Point
from .shrink import CrashCaseView
from .story import step_text, story


@dataclass(frozen=True, slots=True)
class _SparseDocument:
    """A file with holes: how long it is, and what it holds, by offset."""

    size: int
    extents: list[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class _ImageDocument:
    """A tree of files as an artefact has it."""

    directories: list[str]
    files: dict[str, bytes]
    symlinks: dict[str, str] = field(default_factory=dict)
    sparse: dict[str, _SparseDocument] = field(default_factory=dict)
    """Files with holes, which are not among the others."""


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
            _image_document(self.start),
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
        return cls(found.check, case, _image(found.start), ProgramRecord.from_json(found.record))


def _image_document(image: Image) -> _ImageDocument:
    files, sparse = {}, {}
    for path, file in image.files.items():
        if isinstance(file.held, SparseBytes):
            sparse[path] = _SparseDocument(len(file.held), list(file.held.extents()))
        else:
            files[path] = file.held
    return _ImageDocument(list(image.directories), files, dict(image.symlinks), sparse)


def _image(document: _ImageDocument) -> Image:
    """Return the image of a document. Raises ArtefactError if a file has something behind its end."""
    files = {path: FileImage(content, 0) for path, content in document.files.items()}
    for path, file in document.sparse.items():
        content = SparseBytes(file.size)
        for at, data in file.extents:
            end = at + len(data)
            if not 0 <= at <= end <= file.size:
                raise ArtefactError(f"failure.start: {path}: expected 0 to {file.size} bytes, found {at} to {end}")
            content[at:end] = data
        files[path] = FileImage(content, 0)
    return Image(files, tuple(document.directories), document.symlinks)


def losses_json(record: ProgramRecord, shown: CrashCaseView) -> list[dict[str, str]]:
    """Return what is lost in words, each with the step that had made it."""
    return [{"what": loss.what, "by": step_text(record, loss.step).strip()} for loss in shown.losses]


FORMAT = "tornlog-probe/1"
_SLUG_MAX = 60


def refused_json(record: ProgramRecord, reasons: list[str]) -> dict[str, Any]:
    """Return why a program was refused, as a document."""
    return {"format": FORMAT, "program": list(record.program), "steps": len(record.steps), "refused": reasons}


def write_cases(
    record: ProgramRecord, begin: Image, check: Path, shown: dict[str, CrashCaseView], out: Path | None
) -> dict[str, Path]:
    """Write each case, and what it leaves, if there is a place for them; return where, by signature."""
    places: dict[str, Path] = {}
    if out is None:
        return places
    for (signature, one), name in zip(shown.items(), _slugs(shown), strict=True):
        place = places[signature] = out / "failures" / name
        (place / "files").mkdir(parents=True, exist_ok=True)
        export(one.image, FILES, place / "files")
        upto = record.upto(one.case.point.step + 1)
        failure = ProbeFailure(str(check.resolve()), one.case, begin, upto)
        (place / "failure.json").write_text(failure.to_json(one))
    return places


def _slugs(signatures: Iterable[str]) -> Iterator[str]:
    """Yield a name for a directory for each, different ones."""
    taken: set[str] = set()
    for signature in signatures:
        name = re.sub(r"[^a-z0-9]+", "-", signature.lower()).strip("-")[:_SLUG_MAX] or "breach"
        while name in taken:
            name += "-2"
        taken.add(name)
        yield name


def probed_json(
    record: ProgramRecord,
    check: Path,
    limit: int,
    found: ProbeReport,
    shown: dict[str, CrashCaseView],
    places: dict[str, Path],
    allowed: list[str],
) -> dict[str, Any]:
    """Return what probing came to, as a document."""
    return {
        "format": FORMAT,
        "program": list(record.program),
        "check": str(check),
        "disks": [{"disk": disk, **asdict(count)} for disk, count in found.counts.items()],
        "limit": limit,
        "steps": len(record.steps),
        "operations": found.operations,
        "points": found.points,
        "acknowledged": len(record.acknowledged),
        "states": found.states,
        "images": len(found.images),
        "judged": found.judged,
        "breaches": [
            _breach_json(record, signature, breach, shown[example.signature], places.get(example.signature))
            for example in found.examples(record)
            for signature, breach in example.breaches.items()
        ],
        "never_injected": found.never_injected,
        "refused": [],
        "allowed": allowed,
        "seconds": round(found.seconds, 3),
        "states_per_second": round(found.judged / found.seconds, 1) if found.seconds else 0.0,
    }


def _breach_json(
    record: ProgramRecord, signature: str, breach: ViolationGroup, shown: CrashCaseView, place: Path | None
) -> dict[str, Any]:
    case = shown.case
    return {
        "signature": signature,
        "outcome": breach.smallest.verdict.outcome,
        "violations": list(breach.smallest.verdict.lines),
        "example": case.verdict.signature,
        "disks": breach.disks,
        "states": breach.states,
        "points": len(breach.points),
        "smallest": {
            "disk": case.disk,
            "step": case.point.step,
            "operations": case.point.operations,
            "inside": case.point.is_inside,
            "acknowledged": case.point.acknowledged,
            "losses": losses_json(record, shown),
            "story": list(story(record, case.point.step)),
        },
        "file": "" if place is None else str(place / "failure.json"),
        "directory": "" if place is None else str(place / "files"),
    }


def replayed_json(failure: ProbeFailure, check: Path, verdict: CheckOutcome) -> dict[str, Any]:
    """Return what a check says of a kept state now, as a document."""
    return {
        "format": "tornlog-probe-replay/1",
        "program": list(failure.record.program),
        "check": str(check),
        "disk": failure.case.disk,
        "same": verdict.is_broken and verdict.signature == failure.case.verdict.signature,
        "outcome": verdict.outcome,
        "violations": list(verdict.lines),
        "signature": verdict.signature,
        "digest": failure.case.digest,
    }

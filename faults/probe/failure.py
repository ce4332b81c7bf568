"""Failures of programs: broken states, with the data to rebuild and check them again.

Each kind of breach has a directory with the failure and the files after the crash. The failure is an artefact
(`faults.simulation.artefact`) of the kind "probe":

check       name of the check: its file, or the command of a server
check_kind  its kind (faults.probe.checks.command)
is_server   only in older failures, which have no check_kind: whether the kind is "check_server"
signature   common text of the breaches of one kind
outcome     broken, raised, timed out or died
violations  messages of the check
disk        kind of crash or damage, a name in faults.crashes.profiles or faults.crashes.at_rest
after       the crash point: {"step", "operations", "acknowledged", "is_inside", "refused"}
decisions   random choices that select the losses: stream -> [[label, nth, options, value], ...] (sim.choices)
digest      digest of the state
losses      texts about the losses or the damage: [{"what", "by": the step that wrote the data, or ""}]
story       the last steps of the program before the crash
recovery    after a crash in a check's recovery: lines about the first crash. `record` and `story` are then
            those of the check, after the program's promises and refusals; `start` is the state after the first crash
rerun       text: how the run differed from the first one
start       files before the program began: {"directories": [paths], "files": {path: base64},
            "symlinks": {path: text}, "sparse": {path: {"size", "extents": [[offset, base64], ...]}}}
record      the steps of the program up to the crash (faults.probe.record)
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...sim.choices import decisions_from_record, decisions_to_record
from ..crashes.at_rest import DAMAGES
from ..crashes.profiles import PROFILES
from ..disk.content import SparseBytes
from ..disk.export import export_image
from ..disk.image import FileImage, Image
from ..simulation.artefact import PROBE, ArtefactError, read_artefact, write_artefact
from .checks.check import Check, CheckOutcome
from .checks.command import CHECK_KINDS, CheckServer
from .record import FILES, ProgramRecord
from .replay import Point
from .report import CrashCase
from .shrink import CrashCaseView
from .story import loss_origin_text, story


@dataclass(frozen=True, slots=True)
class _SparseDocument:
    """A file with holes. extents: data by file offset."""

    size: int
    extents: list[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class _ImageDocument:
    directories: list[str]
    files: dict[str, bytes]
    symlinks: dict[str, str] = field(default_factory=dict)
    sparse: dict[str, _SparseDocument] = field(default_factory=dict)
    """Files with holes, which `files` omits."""


@dataclass(frozen=True, slots=True)
class _ProbeDocument:
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
    check_kind: str = ""
    is_server: bool = False
    recovery: list[str] = field(default_factory=list)
    rerun: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """A broken state with the record that leads to it and the check that found it."""

    check: str
    case: CrashCase
    start: Image
    record: ProgramRecord
    """Steps up to the crash."""
    check_kind: str = Check.kind
    recovery: tuple[str, ...] = ()
    """Lines about the first crash, if this crash is in a recovery."""
    rerun: str = ""
    """The fault or thread order of a rerun. Empty for the first run."""

    def to_json(self, shown: CrashCaseView) -> str:
        """Return the artefact. shown: the crash case with its losses."""
        case, decisions = self.case, {}
        for stream, entries in decisions_to_record(self.case.decisions).items():
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
            self.check_kind,
            self.check_kind == CheckServer.kind,
            list(self.recovery),
            self.rerun,
        )
        return write_artefact(PROBE, document)

    @classmethod
    def from_json(cls, text: str) -> "ProbeFailure":
        """Read the output of to_json. ArtefactError, RecordError: the first invalid field."""
        found = read_artefact(text, PROBE, _ProbeDocument)
        if found.disk not in (*PROFILES, *DAMAGES):
            raise ArtefactError(f"failure.disk: expected one of {', '.join((*PROFILES, *DAMAGES))}, found {found.disk}")
        kind = found.check_kind or (CheckServer.kind if found.is_server else Check.kind)
        if kind not in CHECK_KINDS:
            raise ArtefactError(f"failure.check_kind: expected one of {', '.join(CHECK_KINDS)}, found {kind}")
        verdict = CheckOutcome(found.outcome, tuple(found.violations))
        decisions = tuple(decisions_from_record(found.decisions))
        case = CrashCase(found.after, found.disk, decisions, found.digest, verdict, len(found.losses))
        start, recovery = _image_from_document(found.start), tuple(found.recovery)
        record = replace(ProgramRecord.from_json(found.record), before=tuple(start.files))
        return cls(found.check, case, start, record, kind, recovery, found.rerun)


def _image_document(image: Image) -> _ImageDocument:
    files, sparse = {}, {}
    for path, file in image.files.items():
        if isinstance(file.held, SparseBytes):
            sparse[path] = _SparseDocument(len(file.held), list(file.held.extents()))
        else:
            files[path] = file.held
    return _ImageDocument(list(image.directories), files, dict(image.symlinks), sparse)


def _image_from_document(document: _ImageDocument) -> Image:
    """Convert a document to an image. ArtefactError: a file has data after its end."""
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
    """Return texts about the losses, each with the step that wrote the lost data."""
    return [{"what": loss.what, "by": loss_origin_text(record, loss)} for loss in shown.losses]


RECOVERY = "recovery"
_SLUG_MAX = 60


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """A breach for the report: the smallest case, and the record of the run."""

    signature: str
    record: ProgramRecord
    start: Image
    shown: CrashCaseView
    recovery: tuple[str, ...] = ()
    rerun: str = ""
    kind: str = ""
    """The kind of fault or thread order of a rerun, RECOVERY for a crash in a recovery, or "" for the first run."""


def write_failure_cases(
    found: Sequence[ProbeFinding],
    check: Check,
    out: Path | None,
    write: Callable[[Path, str], object] = Path.write_text,
) -> dict[tuple[str, str], Path]:
    """Write each failure and its files to a separate directory. Return the directories by kind and signature.

    write: writes a failure file, from which a replay can rebuild all other files.
    """
    places: dict[tuple[str, str], Path] = {}
    if out is None:
        return places
    names = directory_names([f"{one.kind} {one.signature}" for one in found])
    for one, name in zip(found, names, strict=True):
        place = places[one.kind, one.signature] = out / "failures" / name
        (place / "files").mkdir(parents=True, exist_ok=True)
        export_image(one.shown.image, FILES, place / "files")
        case = one.shown.case
        upto = one.record.with_first_steps(case.point.step + 1)
        failure = ProbeFailure(check.name, case, one.start, upto, check.kind, one.recovery, one.rerun)
        write(place / "failure.json", failure.to_json(one.shown))
    return places


def directory_names(signatures: Iterable[str]) -> Iterator[str]:
    """Yield unique directory names."""
    taken: set[str] = set()
    for signature in signatures:
        name = re.sub(r"[^a-z0-9]+", "-", signature.lower()).strip("-")[:_SLUG_MAX] or "breach"
        while name in taken:
            name += "-2"
        taken.add(name)
        yield name

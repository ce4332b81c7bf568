"""A broken state as a document: all it takes to make it again, and to have the check look at it, without the program.

format      "tornlog-probe-failure/1"
check       the check's file
signature   what breaches of its kind have in common
outcome     broken, raised, timed out or died
violations  what the check says of it
disk        under which kind of crash
after       the moment: {"step", "operations", "acknowledged", "inside"}
decisions   what the crash took: stream -> [[label, nth, options, value], ...] (sim.choices)
digest      of what is left
losses      the same in words: [{"what", "by": the step that had made it}]
story       the last things the program did before it
start       what there was before the program began: {"directories": [paths], "files": {path: base64}}
record      what the program did up to then (faults.probe.record)
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from ...sim.choices import decisions_of, recorded
from ..crashes.profiles import PROFILES
from ..disk.image import FileImage, Image
from ..simulation.artefact import artefact_of
from .check import CheckOutcome
from .probe import CrashCase
from .record import ProgramRecord, RecordError
from .replay import Point
from .shrink import CrashCaseView
from .story import step_text, story

FORMAT = "tornlog-probe-failure/1"


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """A case with the record and the check it is of."""

    check: str
    case: CrashCase
    start: Image
    record: ProgramRecord
    """As far as the case goes."""

    def to_json(self, shown: CrashCaseView) -> str:
        """Return the document. shown: the case with its losses."""
        case = self.case
        document = {
            "format": FORMAT,
            "check": self.check,
            "signature": case.verdict.signature,
            "outcome": case.verdict.outcome,
            "violations": list(case.verdict.lines),
            "disk": case.disk,
            "after": {
                "step": case.point.step,
                "operations": case.point.operations,
                "acknowledged": case.point.acknowledged,
                "inside": case.point.is_inside,
            },
            "decisions": recorded(case.decisions),
            "digest": case.digest,
            "losses": losses_json(self.record, shown),
            "story": list(story(self.record, case.point.step)),
            "start": _image_json(self.start),
            "record": self.record.to_json(),
        }
        return json.dumps(document, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "ProbeFailure":
        """Read what to_json wrote. Raises RecordError saying what is wrong with another text."""
        try:
            document = artefact_of(text, FORMAT)
        except ValueError as error:
            raise RecordError(str(error)) from error
        try:
            after = document["after"]
            point = Point(after["step"], after["operations"], after["acknowledged"], after["inside"])
            verdict = CheckOutcome(document["outcome"], tuple(document["violations"]))
            if document["disk"] not in PROFILES:
                raise RecordError(f"disk: expected one of {', '.join(PROFILES)}, found {document['disk']}")
            decisions = tuple(decisions_of(document["decisions"]))
            losses = len(document["losses"])
            case = CrashCase(point, document["disk"], decisions, document["digest"], verdict, losses)
            start = _image_of(document["start"])
            return cls(document["check"], case, start, ProgramRecord.from_json(document["record"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"not a failure: {type(error).__name__}: {error}") from error


def losses_json(record: ProgramRecord, shown: CrashCaseView) -> list[dict[str, str]]:
    """Return what is lost in words, each with the step that had made it."""
    return [{"what": loss.what, "by": step_text(record, loss.step).strip()} for loss in shown.losses]


def _image_json(image: Image) -> dict[str, Any]:
    files = {path: b64encode(file.content).decode() for path, file in image.files.items()}
    return {"directories": list(image.directories), "files": files}


def _image_of(document: dict[str, Any]) -> Image:
    try:
        files = {
            path: FileImage(b64decode(content, validate=True), 0)
            for path, content in document["files"].items()
        }
    except ValueError as error:
        raise RecordError(f"start: files: expected base64, found {error}") from error
    return Image(files, tuple(document["directories"]))

"""Probe results: documents, and for each kind of breach a directory with the failure and what the crash left."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..disk.export import export
from ..disk.image import Image
from .check import CheckOutcome
from .failure import ProbeFailure, losses_json
from .probe import ProbeReport, ViolationGroup
from .record import FILES, ProgramRecord
from .shrink import CrashCaseView
from .story import story

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
        "disks": [
            {
                "disk": disk,
                "crashes": count.crashes,
                "exhausted": count.exhausted,
                "cut": count.cut,
                "states": count.states,
                "broken": count.broken,
            }
            for disk, count in found.counts.items()
        ],
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

"""What probing came to, as documents: the JSON of `tornlog probe`, whose layout is at the head of that command."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .checks.check import Check, CheckOutcome
from .failure import RECOVERY, ProbeFailure, ProbeFinding, losses_json
from .probe import ProbeReport, ViolationGroup
from .record import ProgramRecord
from .recovery import Recoveries
from .reruns import Reruns
from .shrink import CrashCaseView
from .story import story

FORMAT = "tornlog-probe/1"


def refused_json(record: ProgramRecord, reasons: list[str]) -> dict[str, Any]:
    """Return why a program was refused, as a document."""
    return {"format": FORMAT, "program": list(record.program), "steps": len(record.steps), "refused": reasons}


def probed_json(
    record: ProgramRecord,
    check: Check,
    limit: int,
    found: ProbeReport,
    shown: dict[str, CrashCaseView],
    places: Mapping[tuple[str, str], Path],
    allowed: list[str],
) -> dict[str, Any]:
    """Return what probing came to, as a document."""
    return {
        "format": FORMAT,
        "program": list(record.program),
        "check": check.name,
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
            _breach_json(record, signature, breach, shown[example.signature], places.get(("", example.signature)))
            for example in found.examples(record)
            for signature, breach in example.breaches.items()
        ],
        "never_injected": found.never_injected,
        "refused": [],
        "allowed": allowed,
        "notes": found.notes(record),
        "seconds": round(found.seconds, 3),
        "states_per_second": round(found.judged / found.seconds, 1) if found.seconds else 0.0,
    }


def recoveries_json(
    recoveries: Recoveries, shown: Sequence[ProbeFinding], places: Mapping[tuple[str, str], Path]
) -> dict[str, Any]:
    """Return what crashes in recoveries came to, as a document."""
    return {
        "recorded": recoveries.recorded,
        "writing": recoveries.writing,
        "points": recoveries.points,
        "states": recoveries.states,
        "judged": recoveries.judged,
        "refused": dict(recoveries.refused),
        "breaches": [
            {
                **_breach_json(
                    one.record,
                    one.signature,
                    recoveries.breaches[one.signature].group,
                    one.shown,
                    places.get((RECOVERY, one.signature)),
                ),
                "recovers_from": list(one.recovery),
            }
            for one in shown
        ],
    }


def reruns_json(
    reruns: Reruns, shown: Sequence[ProbeFinding], places: Mapping[tuple[str, str], Path]
) -> dict[str, Any]:
    """Return what runs with faults, and in other orders, came to, as a document."""
    return {
        "runs": reruns.runs,
        "failed": reruns.failed,
        "injected": dict(reruns.injected),
        "never_injected": reruns.never_injected,
        "cut": list(reruns.cut),
        "seeds": reruns.seeds,
        "orders": reruns.orders,
        "choices": reruns.choices,
        "hurried": reruns.hurried,
        "points": reruns.points,
        "states": reruns.states,
        "judged": reruns.judged,
        "refused": dict(reruns.refused),
        "breaches": [
            {
                **_breach_json(
                    one.record,
                    one.signature,
                    reruns.breaches[one.kind, one.signature].group,
                    one.shown,
                    places.get((one.kind, one.signature)),
                ),
                "kind": one.kind,
                "rerun": one.rerun,
            }
            for one in shown
        ],
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


def replayed_json(failure: ProbeFailure, check: Check, verdict: CheckOutcome) -> dict[str, Any]:
    """Return what a check says of a kept state now, as a document."""
    return {
        "format": "tornlog-probe-replay/1",
        "program": list(failure.record.program),
        "check": check.name,
        "disk": failure.case.disk,
        "same": verdict.is_broken and verdict.signature == failure.case.verdict.signature,
        "outcome": verdict.outcome,
        "violations": list(verdict.lines),
        "signature": verdict.signature,
        "digest": failure.case.digest,
    }

"""Documents of a probe: make the JSON output, which `reports/cli/probe/command.py` explains."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .checks.check import Check, CheckOutcome
from .failure import RECOVERY, ProbeFailure, ProbeFinding, losses_json
from .record import ProgramRecord
from .recovery import Recoveries
from .report import ProbeReport, ViolationGroup
from .reruns import Reruns, rerun_text
from .story import named, story
from .visits import FaultCoverage

FORMAT = "tornlog-probe/1"
Places = Mapping[tuple[str, str], Path]
"""Directories of failures, by kind and signature."""


def refused_json(record: ProgramRecord, reasons: list[str]) -> dict[str, Any]:
    return {"format": FORMAT, "program": list(record.program), "steps": len(record.steps), "refused": reasons}


def probed_json(
    record: ProgramRecord,
    check: Check,
    limit: int,
    found: ProbeReport,
    findings: Sequence[ProbeFinding],
    places: Places,
    allowed: list[str],
) -> dict[str, Any]:
    stories = {one.signature: one for one in findings}
    return {
        "format": FORMAT,
        "program": list(record.program),
        "check": check.name,
        "disks": [{"disk": disk, **asdict(count)} for disk, count in found.counts.items()],
        "limit": limit,
        "finished": found.is_finished,
        "steps": len(record.steps),
        "operations": found.operations,
        "points": found.points,
        "acknowledged": len(record.acknowledged),
        "refusals": len(record.refused),
        "states": found.states,
        "images": len(found.images),
        "judged": found.judged,
        "breaches": [
            _breach_json(signature, group, stories.get(signature), places.get(("", signature)))
            for signature, group in found.in_order
        ],
        "damage": [
            {"disk": disk, "file": named(path), "states": count.states, **asdict(count)}
            for (disk, path), count in sorted(found.damage.items())
        ],
        "never_injected": found.never_injected,
        "refused": [],
        "allowed": allowed,
        "notes": found.notes(record),
        "seconds": round(found.seconds, 3),
        "states_per_second": round(found.judged / found.seconds, 1) if found.seconds else 0.0,
    }


def recoveries_json(recoveries: Recoveries, findings: Sequence[ProbeFinding], places: Places) -> dict[str, Any]:
    stories = {one.signature: one for one in findings}
    return {
        **_pick_fields(recoveries, "recorded", "writing", "points", "states", "judged"),
        "refused": dict(recoveries.refused),
        "breaches": [
            {
                **_breach_json(signature, breach.group, stories.get(signature), places.get((RECOVERY, signature))),
                "recovers_from": list(stories[signature].recovery) if signature in stories else [],
            }
            for signature, breach in recoveries.in_order
        ],
    }


def reruns_json(reruns: Reruns, findings: Sequence[ProbeFinding], places: Places) -> dict[str, Any]:
    """Return the document of the runs with faults or with other thread orders."""
    stories = {(one.kind, one.signature): one for one in findings}
    return {
        **_pick_fields(reruns, "runs", "failed", "refusals"),
        "injected": dict(reruns.injected),
        "never_injected": reruns.never_injected,
        "cut": list(reruns.cut),
        "coverage": {
            kind: {
                "calls": len(found.calls),
                "reached_calls": len(found.reached),
                "files": found.files,
                "missed_files": found.missed_files,
            }
            for kind, found in reruns.coverage.items()
        },
        "rules": {
            rule: {"calls": len(calls), "files": FaultCoverage(calls).files} for rule, calls in reruns.aimed.items()
        },
        **_pick_fields(
            reruns, "seeds", "orders", "choices", "hurried", "points", "states", "judged", "refused", "untried"
        ),
        "discarded": [str(control) for controls in reruns.discarded.values() for control in controls],
        "breaches": [
            {
                **_breach_json(signature, breach.group, stories.get((kind, signature)), places.get((kind, signature))),
                "kind": kind,
                "rerun": rerun_text(breach.control, breach.record),
            }
            for (kind, signature), breach in reruns.in_order
        ],
    }


def _pick_fields(found: object, *names: str) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names}


def _breach_json(
    signature: str, group: ViolationGroup, finding: ProbeFinding | None, place: Path | None
) -> dict[str, Any]:
    return {
        "signature": signature,
        "outcome": group.smallest.verdict.outcome,
        "violations": list(group.smallest.verdict.lines),
        "disks": group.disks,
        "states": group.states,
        "points": len(group.points),
        "smallest": None if finding is None else _smallest_case_json(finding),
        "file": "" if place is None else str(place / "failure.json"),
        "directory": "" if place is None else str(place / "files"),
    }


def _smallest_case_json(finding: ProbeFinding) -> dict[str, Any]:
    case = finding.shown.case
    return {
        "disk": case.disk,
        "step": case.point.step,
        "operations": case.point.operations,
        "inside": case.point.is_inside,
        "acknowledged": case.point.acknowledged,
        "refusals": case.point.refused,
        "losses": losses_json(finding.record, finding.shown),
        "story": list(story(finding.record, case.point.step)),
    }


def replayed_json(failure: ProbeFailure, check: Check, verdict: CheckOutcome) -> dict[str, Any]:
    """Return the document of a replay: the verdict of a check on a stored state."""
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

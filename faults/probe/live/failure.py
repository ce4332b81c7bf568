"""Finding of a live run: a directory with the files of a failed run, or of a run without a verdict.

    run.json                the seed, the events with their steps, the promises and the messages of the check
    images/1-n2/...         the directory of n2 at its restart after event 1
    logs/n1.log ...         output of each machine, of all starts; program.log: standard error of the program

A live run has no exact replay, because the machines run freely between two steps. A second run with the seed has the
same events.

JSON: `{"format": "tornlog-live-run/1", "seed", "machines": {name: directory}, "program": [arguments], "restart":
[arguments], "check", "signature", "outcome", "violations", "acknowledged", "refused", "events": [{"kind", "machines",
"after_steps", "ms", "disk", "images": [choice of each machine], "promises", "steps": {machine: steps since its start},
"late", "losses": {machine: {"count", "first": [texts]}}}], "again": command}`. seed: null for the run without events.
"""

import json
from pathlib import Path
from typing import Any

from ...disk.export import export_image
from ..record import FILES
from .campaign import NO_SEED, LiveFinding
from .outcome import CarriedOut, LivePlan

FORMAT = "tornlog-live-run/1"


def write_finding(place: Path, plan: LivePlan, finding: LiveFinding, again: str) -> None:
    """Write a finding to a directory. again: the command that repeats its seed."""
    outcome = finding.outcome
    (place / "logs").mkdir(parents=True, exist_ok=True)
    for name, text in outcome.logs.items():
        (place / "logs" / f"{name}.log").write_text(text)
    for number, one in enumerate(outcome.carried_out, 1):
        for name, found in one.images.items():
            directory = place / "images" / f"{number}-{name}"
            directory.mkdir(parents=True, exist_ok=True)
            export_image(found.image, FILES, directory)
    (place / "run.json").write_text(json.dumps(_document(plan, finding, again), indent=1))


def _document(plan: LivePlan, finding: LiveFinding, again: str) -> dict[str, Any]:
    outcome = finding.outcome
    return {
        "format": FORMAT,
        "seed": None if finding.seed == NO_SEED else finding.seed,
        "machines": dict(plan.machines),
        "program": list(plan.program),
        "restart": list(plan.restart),
        "check": plan.check.name,
        "signature": outcome.verdict.signature,
        "outcome": outcome.verdict.outcome,
        "violations": list(outcome.verdict.lines),
        "acknowledged": list(outcome.answers.acknowledged),
        "refused": list(outcome.answers.refused),
        "events": [event_json(one) for one in outcome.carried_out],
        "again": again,
    }


def event_json(one: CarriedOut) -> dict[str, Any]:
    event = one.event
    return {
        "kind": event.kind,
        "machines": list(event.machines),
        "after_steps": event.after_steps,
        "ms": event.ms,
        "disk": event.disk,
        "images": list(event.images),
        "promises": one.promises,
        "steps": dict(one.steps),
        "late": one.was_late,
        "losses": {
            name: {"count": found.loss_count, "first": list(found.losses)} for name, found in one.images.items()
        },
    }

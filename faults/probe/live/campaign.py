"""Campaign of live runs: one run without events, then one run per seed, and the findings by signature.

Each finding has a directory, described in docs/probe-machines.md. A live run has no exact replay, because the machines
run freely between two steps. A second run with the seed has the same events.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ....sim.interruption import EndedEarlyError, current_interruption
from ...disk.export import export_image
from ..record import FILES
from .run import LiveRun
from .schedule import CUT, CompletedEvent, DiscardedRunError, LiveEvent, LiveOutcome, LivePlan, StepCount, schedule_of

NO_SEED = -1
"""The seed field of the run without events."""


@dataclass(slots=True)
class LiveFinding:
    """The first run with a signature. seeds: all seeds with this signature."""

    seed: int
    outcome: LiveOutcome
    seeds: list[int]


@dataclass(slots=True)
class LiveReport:
    """The results of a campaign."""

    steps: Mapping[str, StepCount] = field(default_factory=dict)
    """Steps of each machine in the run without events."""
    promises: int = 0
    """Number of promises in the run without events."""
    runs: int = 0
    """Number of seeds with a verdict."""
    cuts: int = 0
    machines_cut: Counter[str] = field(default_factory=Counter)
    losing: int = 0
    """Number of power cuts after which some machine has lost data."""
    late: int = 0
    """Number of power cuts after the end of the program."""
    pauses: int = 0
    without_cut: list[int] = field(default_factory=list)
    discarded: dict[int, LiveOutcome] = field(default_factory=dict)
    """Runs without a verdict, by seed. The text of the outcome is the reason."""
    untried: int = 0
    """Number of seeds not run, because the probe ended early."""
    findings: dict[str, LiveFinding] = field(default_factory=dict)

    def add(self, seed: int, outcome: LiveOutcome) -> None:
        self.runs += 1
        for one in outcome.completed_events:
            self._count(one)
        if not outcome.cuts:
            self.without_cut.append(seed)
        self.judge(seed, outcome)

    def _count(self, one: CompletedEvent) -> None:
        if one.event.kind != CUT:
            self.pauses += 1
            return
        assert one.images, "a cut leaves an image of each machine"
        self.cuts += 1
        self.machines_cut.update(list(one.images))
        self.losing += any(image.loss_count for image in one.images.values())
        self.late += one.was_late

    def judge(self, seed: int, outcome: LiveOutcome) -> None:
        """Record the verdict of a run."""
        if outcome.verdict.is_broken:
            found = self.findings.setdefault(outcome.verdict.signature, LiveFinding(seed, outcome, []))
            found.seeds.append(seed)


def run_live(
    plan: LivePlan,
    seeds: Sequence[int],
    disks: Sequence[str],
    events_max: int,
    *,
    stops_at_first: bool = False,
    on_progress: Callable[[LiveReport, int], None] = lambda report, seed: None,
) -> LiveReport:
    """Run without events, then once per seed. After an early end, return the findings so far.

    DiscardedRunError: the run without events has no verdict.
    """
    report = LiveReport()
    first = _one_run(plan, [], NO_SEED)
    report.steps, report.promises = first.steps, len(first.answers.acknowledged)
    report.judge(NO_SEED, first)
    report.untried = len(seeds)
    if report.findings:
        return report
    with suppress(EndedEarlyError):
        for seed in seeds:
            current_interruption().check()
            on_progress(report, seed)
            try:
                report.add(seed, _one_run(plan, schedule_of(seed, report.steps, disks, events_max), seed))
            except DiscardedRunError as error:
                report.discarded[seed] = error.outcome
            report.untried -= 1
            if report.findings and stops_at_first:
                break
    return report


def _one_run(plan: LivePlan, events: Sequence[LiveEvent], seed: int) -> LiveOutcome:
    with TemporaryDirectory(prefix="tornlog-live-", ignore_cleanup_errors=True) as scratch:
        run = LiveRun(plan, Path(scratch, "run"), events, seed)
        try:
            return run.run()
        finally:
            run.close()


FORMAT = "tornlog-live-run/1"


def write_finding(place: Path, plan: LivePlan, finding: LiveFinding, again: str) -> None:
    """Write a finding to a directory. again: the command that repeats its seed."""
    outcome = finding.outcome
    (place / "logs").mkdir(parents=True, exist_ok=True)
    for name, text in outcome.logs.items():
        (place / "logs" / f"{name}.log").write_text(text)
    for number, one in enumerate(outcome.completed_events, 1):
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
        "events": [event_json(one) for one in outcome.completed_events],
        "again": again,
    }


def event_json(one: CompletedEvent) -> dict[str, Any]:
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

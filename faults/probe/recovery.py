"""Crashes in recovery: records the recovery that a check runs, and crashes it at each operation.

The record of a recovery begins with the promises and refusals before the first crash, so they must hold after a second
crash. The state after the first crash is durable, because the machine was off before the recovery. States that fail
their check are already findings, so they get no recovery.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from ..disk.image import Image
from .checks.checkers import Checkers
from .probe import Prober, Verdicts
from .record import PROMISE_TASK, Answers, ProgramRecord
from .recording.run import ProgramError
from .report import CrashCase, ViolationGroup
from .visits import EVERY_POINT, VisitPlan

RecordCheck = Callable[[Image, Answers], tuple[ProgramRecord, list[str]]]
"""Runs a check on an image. Returns the record, and how the files differ from it. ProgramError: no record."""


@dataclass(frozen=True, slots=True)
class RecordedRecovery:
    """One recovery: its record, its start, and the first crash."""

    record: ProgramRecord
    """The recorded steps, after the promises and refusals."""
    start: Image
    first_crash: CrashCase


@dataclass(frozen=True, slots=True)
class RecoveryBreach:
    """All broken states with one signature after crashes in recovery. recovery: belongs to the smallest case."""

    recovery: RecordedRecovery
    group: ViolationGroup

    @property
    def rank(self) -> tuple[tuple[bool, bool, bool, bool], int, tuple[int, int, int]]:
        """Return the rank of the smallest case. Its losses are those of both crashes."""
        case = self.group.smallest
        return case.severity, case.losses + self.recovery.first_crash.losses, case.size


@dataclass(slots=True)
class Recoveries:
    """The recoveries of one probe."""

    checkers: Checkers
    record_check: RecordCheck
    disks: Sequence[str]
    limit: int
    plan: VisitPlan = EVERY_POINT
    recorded: int = 0
    writing: int = 0
    """Number of recoveries that changed a file."""
    points: int = 0
    points_of: int = 0
    """Number of crash points in the recorded recoveries. `points` counts the tried ones."""
    states: int = 0
    judged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Number of recoveries without a record, by reason."""
    breaches: dict[str, RecoveryBreach] = field(default_factory=dict)
    _confirmed: set[tuple[str, str]] = field(default_factory=set)
    """(disk, signature) of confirmed time-outs."""

    @property
    def in_order(self) -> list[tuple[str, RecoveryBreach]]:
        """Return the breaches, most severe first, then smallest first."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].rank, one[0]))

    def explore(self, image: Image, answers: Answers, first_crash: CrashCase, verdicts: Verdicts) -> None:
        """Record the recovery of a state, and check the states after crashes inside the recovery.

        verdicts: all verdicts; gets the new ones.
        """
        try:
            record, unlike = self.record_check(image, answers)
        except ProgramError as error:
            self.refused[str(error)] += 1
            return
        reasons = [*(f"{one.event}: {one.detail}" for one in record.unseen), *unlike]
        if reasons:
            self.refused[reasons[0]] += 1
            return
        self.recorded += 1
        if not record.steps:
            return
        self.writing += 1
        assert self.writing <= self.recorded, (self.writing, self.recorded)
        promise_task = len(record.tasks)  # a separate task, because the program made the promises, not the recovery
        given = tuple(structs.replace(step, by=promise_task) for step in answers.steps)
        whole = replace(record, steps=given + record.steps, tasks=(*record.tasks, PROMISE_TASK))
        prober = Prober(whole, image, self.checkers, disks=self.disks, limit=self.limit, verdicts=verdicts)
        prober.plan, prober.confirmed = self.plan, self._confirmed
        try:
            prober.run(len(given))
        finally:
            self.points += prober.found.points
            self.points_of += prober.found.points_of or prober.found.points
            self.states += prober.found.states
            self.judged += prober.found.judged
            for signature, group in prober.found.breaches.items():
                self._record_breach(signature, group, RecordedRecovery(whole, image, first_crash))

    def _record_breach(self, signature: str, group: ViolationGroup, recovery: RecordedRecovery) -> None:
        found = RecoveryBreach(recovery, group)
        known = self.breaches.setdefault(signature, found)
        if known is found:
            return
        smallest = min(known, found, key=lambda one: one.rank)
        merged = known.group.merged_with(group, smallest.group.smallest)
        self.breaches[signature] = RecoveryBreach(smallest.recovery, merged)

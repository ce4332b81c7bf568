"""Crashes in recovery: a check is recorded as it recovers from one crash, and the plug is pulled inside that.

The record of a recovery begins with the promises that had been made before the crash, so whatever is left by a crash
inside of it owes as much. What it starts from is what the first crash has left, with all of that durable: machines have
been off in between. Only recoveries of states that hold are cut, for the others are broken already.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..disk.image import Image
from . import record as steps
from .checks.checkers import Checkers
from .probe import CrashCase, Prober, Verdicts, ViolationGroup
from .record import NOBODY, ProgramRecord, Step
from .recording.run import ProgramError

RecordCheck = Callable[[Image, list[str]], tuple[ProgramRecord, list[str]]]
"""Runs a check in an image; returns its record, and where that is not all it did. Raises ProgramError."""


@dataclass(frozen=True, slots=True)
class RecordedRecovery:
    """One recovery: what it did, what it began with, and the crash that this was left by."""

    record: ProgramRecord
    """Its first steps are the promises."""
    start: Image
    first_crash: CrashCase


@dataclass(frozen=True, slots=True)
class RecoveryBreach:
    """All broken states of one signature that crashes in recoveries have left; recovery: that of the smallest."""

    recovery: RecordedRecovery
    group: ViolationGroup

    @property
    def rank(self) -> tuple[tuple[bool, bool, bool], int, tuple[int, int, int]]:
        """Return the rank of the smallest case, in which the losses of both crashes count."""
        case = self.group.smallest
        return case.severity, case.losses + self.recovery.first_crash.losses, case.size


@dataclass(slots=True)
class Recoveries:
    """The recoveries of one probe."""

    checkers: Checkers
    record_check: RecordCheck
    disks: Sequence[str]
    limit: int
    recorded: int = 0
    writing: int = 0
    """How many of these changed anything."""
    points: int = 0
    states: int = 0
    judged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Why recoveries could not be recorded, and how many each time."""
    breaches: dict[str, RecoveryBreach] = field(default_factory=dict)

    @property
    def in_order(self) -> list[tuple[str, RecoveryBreach]]:
        """Return the breaches, the most severe first, then the smallest."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].rank, one[0]))

    def explore(self, image: Image, acknowledged: list[str], first_crash: CrashCase, verdicts: Verdicts) -> None:
        """Record the recovery of a state that holds, and check what crashes inside of it may leave.

        verdicts: what is known of states already, and will be.
        """
        try:
            record, unlike = self.record_check(image, acknowledged)
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
        nobody = len(record.tasks)  # of the recovery's: they are the program's promises
        promises = tuple(Step(steps.ACKNOWLEDGE, promise, by=nobody) for promise in acknowledged)
        whole = replace(record, steps=promises + record.steps, tasks=(*record.tasks, NOBODY))
        prober = Prober(whole, image, self.checkers, self.disks, self.limit, verdicts)
        try:
            prober.run(len(promises))
        finally:
            self.points += prober.found.points
            self.states += prober.found.states
            self.judged += prober.found.judged
            for signature, group in prober.found.breaches.items():
                self._keep(signature, group, RecordedRecovery(whole, image, first_crash))

    def _keep(self, signature: str, group: ViolationGroup, recovery: RecordedRecovery) -> None:
        found = RecoveryBreach(recovery, group)
        known = self.breaches.setdefault(signature, found)
        if known is found:
            return
        total, points = known.group.states + group.states, known.group.points | group.points
        disks = dict(Counter(known.group.disks) + Counter(group.disks))
        smallest = min(known, found, key=lambda one: one.rank)
        merged = ViolationGroup(smallest.group.smallest, total, points, disks)
        self.breaches[signature] = RecoveryBreach(smallest.recovery, merged)

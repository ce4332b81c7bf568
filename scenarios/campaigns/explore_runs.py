"""The two halves of a run that exploring needs on their own: up to a machine's death, and from an image on."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...faults.crashes.profiles import PROFILES
from ...faults.disk.crash_trigger import CrashPoint
from ...faults.disk.disk import Disk
from ...faults.disk.fault_injector import CrashPhase
from ...faults.disk.image import DamagedRange, Image
from ...sim.choices import Choices, Decision
from ...sim.policies import Policy
from ...sim.policies.replay import Replay
from ..claims.crash_points import CrashPoints
from ..claims.plan import Life, LifeEnding, Plan
from ..oracle.end_of_run import note_crash
from ..oracle.evidence import Violation
from ..oracle.judge import StopOnViolation
from ..oracle.state_digest import state_digest_of
from ..runs.store_run import Run


class OperationRecorder(CrashPoints):
    """Finds the names of all operations of a run's last life, none of which it ends in.

    In a life that is to end in its load, it ends in the first operation behind that, which is none of them.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.points: list[CrashPoint] = []
        self.run: DyingRun | None = None
        self._last = plan.lives[-1]
        self._times: dict[tuple[str, str], int] = {}

    def arm(self, disk: Disk, life: Life) -> None:
        """Arm as ever, but for the last life: listen to all of its operations."""
        if life is self._last:
            disk.crash_where(self, CrashPhase.BEFORE)
        else:
            super().arm(disk, life)

    def meets(self, number: int, kind: str, path: str) -> bool:
        """Take note of an operation."""
        if self._last.ending == LifeEnding.CRASH_IN_LOAD and self.run is not None and self.run.is_loaded:
            return True
        nth = self._times[kind, path] = self._times.get((kind, path), 0) + 1
        self.points.append(CrashPoint(kind, path, nth))
        return False


@dataclass(frozen=True, slots=True)
class CrashGuarantees:
    """What is promised when a crash of some kind has come."""

    known: bytes
    """The ledger, and what is known of the versions of side files, pickled: who judges changes them."""
    damage: tuple[DamagedRange, ...]
    """What disks have done so far to what was durable."""
    state: str
    """A digest of all that."""
    now_ns: int


@dataclass(frozen=True, slots=True)
class CrashedRun:
    """What a machine left when it died: its disk, what is promised after each kind of crash, and all draws so far."""

    disk: Disk
    promised: dict[str, CrashGuarantees]
    decisions: list[Decision]


class DyingRun(Run):
    """A run that is over with its last life, and has lost nothing yet by that: profiles are the crashes it may be."""

    def __init__(
        self,
        plan: Plan,
        choices: Choices,
        policy: Policy | None = None,
        *,
        profiles: Sequence[str] = (),
        crash_points: CrashPoints | None = None,
    ) -> None:
        super().__init__(plan, choices, policy, crash_points=crash_points)
        self._profiles = profiles
        self._left: CrashedRun | None = None

    @property
    def stream_name(self) -> str:
        """Return the name of the stream from which the present disk draws."""
        return self.lasting.stream_name

    @property
    def is_loaded(self) -> bool:
        """Return whether the store of the present life has been loaded."""
        return self._store is not None

    def die(self) -> CrashedRun | None:
        """Run; return what the last life left by dying, None if it did not die, or something was broken before."""
        with self._kernel:
            try:
                for number, life in enumerate(self._plan.lives):
                    self._live(number, life)
            except StopOnViolation:
                return None
            return self._left

    @property
    def violations(self) -> list[Violation]:
        """Return what was broken up to the death, or by it."""
        return self._judge.violations

    @property
    def schedule(self) -> list[list[Any]]:
        """Return the kernel's own record of the schedule."""
        return self._kernel.schedule

    def _end(self, disk: Disk, life: Life, *, crashed: bool) -> None:
        if life is not self._plan.lives[-1]:
            super()._end(disk, life, crashed=crashed)
        elif crashed:
            self._ledger.progress_is_final = False
            before = pickle.dumps(self._ledger)
            promised = {profile: self._promised(disk, profile, before) for profile in self._profiles}
            self._left = CrashedRun(disk, promised, self._choices.decisions())

    def _promised(self, disk: Disk, profile: str, before: bytes) -> CrashGuarantees:
        """Return what is promised after a crash of that profile; before: the ledger as it was when the machine died."""
        vars(self._ledger).update(vars(pickle.loads(before)))
        note_crash(self._plan, self._judge, self._ledger, self._store, disk, PROFILES[profile])
        self._judge.note_damage(self._config, disk.damage)
        versions = (self._progress.delayed, self._progress.groups)
        damage = tuple(self.lasting.damage)
        return CrashGuarantees(
            pickle.dumps((self._ledger, versions)),
            damage,
            state_digest_of(self._ledger, versions, damage),
            self._kernel.now_ns,
        )


class RecoveringRun(Run):
    """A run that begins with what a crash has left."""

    def __init__(self, plan: Plan, promised: CrashGuarantees, image: Image) -> None:
        ledger, (delayed, groups) = pickle.loads(promised.known)
        super().__init__(plan, Choices.replaying(()), Replay(), ledger=ledger)
        self._progress.delayed, self._progress.groups = delayed, groups
        self._judge.note_damage(self._config, promised.damage)
        self.lasting.leave(image)
        self._kernel.now_ns = promised.now_ns

    def violations(self, *, heal: bool) -> list[Violation]:
        """Recover and judge; with heal, go on as the run's end does."""
        with self._kernel:
            try:
                if heal:
                    self._heal()
                else:
                    self._recover("heal", self._judge.recovery)
            except StopOnViolation:
                pass
        return self._judge.violations

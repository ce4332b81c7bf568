"""Exploring a store alone: what it promised is kept when its machine dies, so each state is recovered without a rerun.

The first half of a run goes up to a machine's death; the second half begins with an image and what was promised. An
image that has been judged under the same promises is not recovered again, whichever moment it is met at. The same image
under other promises is, for these may be newer. Both are compared by digest (`Image.digest`, without times, and
`oracle.state_digest`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...faults.crashes.enumeration import CrashStates
from ...faults.crashes.profiles import PROFILES
from ...faults.disk.disk import Disk
from ...faults.disk.fault_injector import CrashPhase
from ...faults.disk.image import DamagedRange, Image
from ...faults.simulation.explore import (
    CrashChoice,
    CrashMoment,
    OperationLog,
    Situation,
    StateSample,
    write_bytes_of,
)
from ...faults.simulation.simulation import Simulation
from ...sim.choices import Choices, Decision
from ...sim.policies.replay import Replay
from ...sim.process import garbage_kept
from ..claims.plan import Life, LifeEnding, Plan
from ..oracle.evidence import Violation
from ..oracle.judge import StopOnViolation
from ..oracle.state_digest import state_digest_of
from ..runs.execution import life_name
from ..runs.outcome import RunOutcome
from ..runs.store_run import Run


@dataclass(frozen=True, slots=True)
class CrashGuarantees:
    """What is promised when a crash of some kind has come."""

    known: bytes
    """The ledger's savepoint: each recovery that is judged begins with it and adds to it."""
    damage: tuple[DamagedRange, ...]
    """What disks have done so far to what was durable."""
    state: str
    """A digest of all that."""
    now_ns: int


class DyingRun(Run):
    """A run that is over with its last life, and has lost nothing yet by that: profiles are the crashes it may be."""

    def __init__(self, plan: Plan, simulation: Simulation, profiles: Sequence[str] = ()) -> None:
        super().__init__(plan, simulation)
        self.disk: Disk | None = None
        """What the last life left by dying; None if it did not die, or something was broken before."""
        self.guarantees: dict[str, CrashGuarantees] = {}
        self._profiles = profiles

    @property
    def is_loaded(self) -> bool:
        """Return whether the store of the present life has been loaded."""
        return self._store is not None

    @property
    def violations(self) -> list[Violation]:
        """Return what was broken up to the death, or by it."""
        return self._judge.violations

    def _play(self) -> None:
        for number, life in enumerate(self._lives):
            self._live(number, life)

    def die(self) -> None:
        """Run up to the last life's end."""
        self.execute()
        if self.violations:
            self.disk = None

    def _end(self, disk: Disk, life: Life, *, crashed: bool) -> None:
        if life is not self._lives[-1]:
            super()._end(disk, life, crashed=crashed)
        elif crashed:
            self._ledger.progress_is_final = False
            before = self._ledger.savepoint()
            self.disk = disk
            self.guarantees = {profile: self._promised(disk, profile, before) for profile in self._profiles}

    def _promised(self, disk: Disk, profile: str, before: bytes) -> CrashGuarantees:
        """Return what is promised after a crash of that profile; before: the savepoint of when the machine died."""
        self._ledger.restore(before)
        self._judge.crash(self._store, disk, PROFILES[profile])
        self._judge.note_damage(self._config, disk.damage)
        damage = tuple(self.lasting.damage)
        state = state_digest_of(self._ledger, damage)
        return CrashGuarantees(self._ledger.savepoint(), damage, state, self._kernel.now_ns)


def run_lives(plan: Plan, simulation: Simulation) -> RunOutcome:
    """Run a plan's lives, and nothing behind them: the program of which a store's first life is explored."""
    return DyingRun(plan, simulation).execute()


class RecoveringRun(Run):
    """A run that begins with what a crash has left."""

    def __init__(self, plan: Plan, promised: CrashGuarantees, image: Image) -> None:
        super().__init__(plan, Simulation(Choices.replaying(()), Replay(), crashes=()))
        self._ledger.restore(promised.known)
        self._judge.note_damage(self._config, promised.damage)
        self.lasting.leave(image)
        self._kernel.now_ns = promised.now_ns

    def signature(self, *, heal: bool) -> str:
        """Recover and judge; with heal, go on as the run's end does. Return what breaks first; empty: nothing."""
        with self._kernel:
            try:
                if heal:
                    self._heal()
                else:
                    self._recover("heal", self._judge.recovery)
            except StopOnViolation:
                pass
        return self._judge.violations[0].signature if self._judge.violations else ""


class StoreCrash:
    """A store's machine that has died, and what it may leave."""

    def __init__(
        self,
        run: DyingRun,
        situation: Situation[Plan],
        moment: CrashMoment,
        states: dict[str, CrashStates],
        *,
        heal: bool,
    ) -> None:
        self.signature = run.violations[0].signature if run.violations else ""
        self.decisions: Sequence[Decision] = run.simulation.choices.decisions()
        self.write_bytes = write_bytes_of(self.decisions, moment.point)
        met = None if run.disk is None else run.disk.met
        self.site_offset = 0 if met is None else met.at
        self._guarantees = run.guarantees
        self._situation = situation
        self._moment = moment
        self._states = states
        self._heal = heal

    def choices(self, profile: str) -> Iterator[CrashChoice]:
        """Yield the states that a crash may leave."""
        states = self._states[profile]
        for state in states:
            yield CrashChoice(state, states, self._situation.stream)

    def extent(self, profile: str) -> tuple[bool, bool]:
        """Return whether these were all states, and whether the limit kept some from being tried."""
        return self._states[profile].is_exhaustive, self._states[profile].was_cut

    def promises(self, profile: str) -> str:
        """Return a digest of what is promised."""
        return self._guarantees[profile].state

    def judge(self, profile: str, choice: CrashChoice) -> str:
        """Recover a state and judge it."""
        with garbage_kept():
            plan = self._situation.record.setup
            return RecoveringRun(plan, self._guarantees[profile], choice.state.image).signature(heal=self._heal)


class StoreRuns:
    """Explores runs of a store alone."""

    def __init__(self, limit: int, *, heal: bool) -> None:
        self._limit = limit
        self._heal = heal
        self._fingerprint = ""
        self._states: dict[str, CrashStates] = {}
        """By profile, those of the last moment, which the next one has, too, unless the disk has changed."""

    def die(self, situation: Situation[Plan], moment: CrashMoment, decisions: Sequence[Decision]) -> StoreCrash | None:
        """Run up to a moment; None if the run does not come to it."""
        record = situation.crashed(moment, situation.profiles[0], decisions)
        choices = Choices.replaying(record.decisions)
        simulation = Simulation(choices, Replay(record.schedule), crashes=record.crashes)
        run = DyingRun(record.setup, simulation, situation.profiles)
        run.die()
        if run.disk is None and not run.violations:
            return None
        if run.disk is not None:
            self._find_states(run.disk, situation, moment)
        return StoreCrash(run, situation, moment, self._states, heal=self._heal)

    def _find_states(self, disk: Disk, situation: Situation[Plan], moment: CrashMoment) -> None:
        fingerprint = disk.fingerprint()
        if fingerprint == self._fingerprint:
            return
        self._fingerprint = fingerprint
        chances = Choices(f"explore/{situation.depth}")
        self._states = {
            profile: disk.crash_states(PROFILES[profile], self._limit, chances.stream(f"{moment} {profile}"))
            for profile in situation.profiles
        }


class _LoadLog(OperationLog):
    """The operations of a life up to where its store is loaded, behind which it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.run: DyingRun | None = None

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        """Take note of an operation of the load."""
        assert self.run is not None, "it is set before the run begins"
        return self.run.is_loaded or super().is_due(number, kind, path, nth)


def nested(sample: StateSample[Plan], situation: Situation[Plan]) -> Situation[Plan]:
    """Return the situation of a machine that recovers a state: the operations of its load."""
    record = sample.record
    plan = record.setup
    plan = replace(plan, lives=(*plan.lives, Life(LifeEnding.CRASH_IN_LOAD, "process-kill", -1, CrashPhase.BEFORE, 0)))
    record, life = replace(record, setup=plan), life_name(len(plan.lives) - 1)
    choices = Choices.replaying(record.decisions)
    simulation = Simulation(choices, Replay(record.schedule), crashes=record.crashes)
    log = simulation.triggers[life] = _LoadLog()
    run = log.run = DyingRun(plan, simulation)
    run.die()
    return replace(
        situation,
        record=record,
        life=life,
        points=tuple(log.points),
        stream=run.lasting.stream_name,
        depth=situation.depth + 1,
    )

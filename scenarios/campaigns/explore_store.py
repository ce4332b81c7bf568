"""Store exploration: recovers crash states without repeating the run.

A run is divided at the machine's crash. The second half starts with a crash image and with the guarantees at the crash.
Each distinct pair of image and guarantees is recovered and judged once. `Image.digest` without times identifies images,
`state_digest_of` identifies guarantees.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import blake2b

from ...faults.crashes.enumeration import CrashStates
from ...faults.crashes.profiles import PROFILES
from ...faults.disk.disk import Disk
from ...faults.disk.fault_injector import CrashPhase
from ...faults.disk.image import DamagedRange, Image
from ...faults.simulation.explore import CrashChoice, CrashMoment, OperationLog, Situation, StateSample, write_bytes_of
from ...faults.simulation.simulation import Simulation
from ...sim.choices import Choices, Decision
from ...sim.policies.replay import ReplayPolicy
from ...sim.process import collect_garbage_at_end
from ..claims.plan import Life, LifeEnding, Plan
from ..oracle.evidence import Violation
from ..oracle.judge import StopOnViolation
from ..oracle.ledger import Ledger
from ..oracle.put_entry import PutEntry
from ..runs.execution import life_name
from ..runs.outcome import RunOutcome
from ..runs.store_run import Run


def state_digest_of(ledger: Ledger, damage: Sequence[DamagedRange]) -> str:
    """Return the digest of the ledger and of damage to durable data. Both decide the verdict on a recovery.

    The digest omits unanswered puts without a known log offset. They allow a record but do not require it, and a crash
    image can contain the record only if the put began before the crash.
    """
    return blake2b(repr((_comparable_value(ledger), list(damage))).encode(), digest_size=16).hexdigest()


def _comparable_value(value: object) -> object:
    """Convert a ledger's state to nested lists of text. Sets and mappings are sorted."""
    if is_dataclass(value) and not isinstance(value, type):
        return [_comparable_value(getattr(value, one.name)) for one in fields(value) if one.compare]
    if isinstance(value, Mapping):
        return sorted(([_comparable_value(key), _comparable_value(one)] for key, one in value.items()), key=repr)
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [
            _comparable_value(one)
            for one in value
            if not (isinstance(one, PutEntry) and one.status is None and one.physical_offset is None)
        ]
    return repr(value)


@dataclass(frozen=True, slots=True)
class CrashGuarantees:
    """The guarantees that hold after a crash with a given profile."""

    known: bytes
    """The savepoint of the ledger from which each recovery starts."""
    damage: tuple[DamagedRange, ...]
    state: str
    """The digest of `known` and `damage`."""
    now_ns: int


class CrashingRun(Run):
    """A run that ends at its last crash, before the lost data is chosen."""

    def __init__(self, plan: Plan, simulation: Simulation, profiles: Sequence[str] = ()) -> None:
        super().__init__(plan, simulation)
        self.disk: Disk | None = None
        """The disk at the last crash; None without a crash or after a violation."""
        self.guarantees: dict[str, CrashGuarantees] = {}
        self._profiles = profiles

    @property
    def is_loaded(self) -> bool:
        return self._store is not None

    @property
    def violations(self) -> list[Violation]:
        return self._judge.violations

    def _run_all_lives(self) -> None:
        for number, life in enumerate(self._lives):
            self._run_life_number(number, life)

    def run_to_crash(self) -> None:
        self.execute()
        if self.violations:
            self.disk = None

    def _end_life(self, disk: Disk, life: Life, *, crashed: bool) -> None:
        if life is not self._lives[-1]:
            super()._end_life(disk, life, crashed=crashed)
        elif crashed:
            self._progress.note_crash(None)
            before = self._ledger.savepoint()
            self.disk = disk
            self.guarantees = {profile: self._guarantees_after(disk, profile, before) for profile in self._profiles}

    def _guarantees_after(self, disk: Disk, profile: str, before: bytes) -> CrashGuarantees:
        """before: the ledger's savepoint at the crash."""
        self._ledger.restore(before)
        self._judge.judge_crash(self._store, disk, PROFILES[profile])
        self._judge.note_damage(self._config, disk.damage)
        damage = tuple(self.lasting.damage)
        state = state_digest_of(self._ledger, damage)
        return CrashGuarantees(self._ledger.savepoint(), damage, state, self._kernel.now_ns)


def run_lives(plan: Plan, simulation: Simulation) -> RunOutcome:
    return CrashingRun(plan, simulation).execute()


class RecoveringRun(Run):
    """A run that starts from a crash image."""

    def __init__(self, plan: Plan, promised: CrashGuarantees, image: Image) -> None:
        super().__init__(plan, Simulation(Choices.for_replay(()), ReplayPolicy(), crashes=()))
        self._ledger.restore(promised.known)
        self._judge.note_damage(self._config, promised.damage)
        self.lasting.set_next_image(image)
        self._kernel.now_ns = promised.now_ns

    def signature(self, *, heal: bool) -> str:
        """Recover and judge the store. Return the signature of the first violation, or "".

        heal: afterwards end all faults, and check that the store works.
        """
        with self._kernel:
            try:
                if heal:
                    self._finish_run()
                else:
                    self._recover_and_judge("heal", self._judge.judge_recovery)
            except StopOnViolation:
                pass
        return self._judge.violations[0].signature if self._judge.violations else ""


class StoreCrash:
    """A crashed machine, and the possible states of its disk."""

    def __init__(
        self,
        run: CrashingRun,
        situation: Situation[Plan],
        moment: CrashMoment,
        states: dict[str, CrashStates],
        *,
        heal: bool,
    ) -> None:
        self.signature = run.violations[0].signature if run.violations else ""
        self.decisions: Sequence[Decision] = run.simulation.choices.decisions()
        self.write_bytes = write_bytes_of(self.decisions, moment.point)
        met = None if run.disk is None else run.disk.crash_site
        self.site_offset = 0 if met is None else met.at
        self._guarantees = run.guarantees
        self._situation = situation
        self._moment = moment
        self._states = states
        self._finish_run = heal

    def choices(self, profile: str) -> Iterator[CrashChoice]:
        states = self._states[profile]
        for state in states:
            yield CrashChoice(state, states, self._situation.stream)

    def completeness(self, profile: str) -> tuple[bool, bool]:
        """Return whether `choices` yields all states, and whether the limit excluded states."""
        assert not (self._states[profile].is_exhaustive and self._states[profile].was_cut), profile
        return self._states[profile].is_exhaustive, self._states[profile].was_cut

    def promises(self, profile: str) -> str:
        return self._guarantees[profile].state

    def judge(self, profile: str, choice: CrashChoice) -> str:
        with collect_garbage_at_end():
            plan = self._situation.record.setup
            return RecoveringRun(plan, self._guarantees[profile], choice.state.image).signature(heal=self._finish_run)


class StoreRunExplorer:
    """Explores runs of a single store."""

    def __init__(self, limit: int, *, heal: bool) -> None:
        self._limit = limit
        self._finish_run = heal
        self._fingerprint = ""
        self._states: dict[str, CrashStates] = {}
        """The states at the last crash point, by crash profile. They are reused until the disk changes."""

    def run_to_crash(
        self, situation: Situation[Plan], moment: CrashMoment, decisions: Sequence[Decision]
    ) -> StoreCrash | None:
        """Run to a crash point. Return None if the run does not reach the crash point."""
        record = situation.record_with_crash(moment, situation.profiles[0], decisions)
        choices = Choices.for_replay(record.decisions)
        simulation = Simulation(choices, ReplayPolicy(record.schedule), crashes=record.crashes)
        run = CrashingRun(record.setup, simulation, situation.profiles)
        run.run_to_crash()
        assert (run.disk is None) or not run.violations, "a run that broke a promise has no disk to explore"
        if run.disk is None and not run.violations:
            return None
        if run.disk is not None:
            self._find_states(run.disk, situation, moment)
        return StoreCrash(run, situation, moment, self._states, heal=self._finish_run)

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


class _LoadOperations(OperationLog):
    """Records the disk operations of a store's load, and ends the run after the load."""

    def __init__(self) -> None:
        super().__init__()
        self.run: CrashingRun | None = None

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        """Record an operation of the load. The first operation after the load ends the run."""
        assert self.run is not None, "`run` is set before the run begins"
        return self.run.is_loaded or super().is_due(number, kind, path, nth)


def situation_of_load(sample: StateSample[Plan], situation: Situation[Plan]) -> Situation[Plan]:
    """Return the situation of a machine that recovers a crash state.

    The operations of this situation are the disk operations of the load.
    """
    record = sample.record
    plan = record.setup
    plan = replace(plan, lives=(*plan.lives, Life(LifeEnding.CRASH_IN_LOAD, "process-kill", -1, CrashPhase.BEFORE, 0)))
    record, life = replace(record, setup=plan), life_name(len(plan.lives) - 1)
    choices = Choices.for_replay(record.decisions)
    simulation = Simulation(choices, ReplayPolicy(record.schedule), crashes=record.crashes)
    log = simulation.triggers[life] = _LoadOperations()
    run = log.run = CrashingRun(plan, simulation)
    run.run_to_crash()
    return replace(
        situation,
        record=record,
        life=life,
        points=tuple(log.points),
        stream=run.lasting.stream_name,
        depth=situation.depth + 1,
    )

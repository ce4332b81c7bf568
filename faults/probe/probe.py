"""Probe: enumerates the states after every crash of a record and checks each once.

    for each operation of the record, and after the last one, and for each disk: enumerate the crash states
        check each new state against the promises made so far, and group the breaches by signature

The verdict depends only on the state and the promises, so each such pair is checked once for all moments and disks.

In a sequence of stores through maps, a power cut is tried only after the last store: pages reach the disk in any order,
so this power cut has all states of earlier ones. A process kill is tried between any two stores.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

from ...sim.choices import Choices, Decision
from ...sim.interruption import EndedEarlyError, current_interruption
from ..crashes.at_rest import AT_REST, DAMAGES, DamagedState
from ..crashes.enumeration import CrashState, PossibleStates
from ..crashes.profiles import NOTHING_LOST, PROFILES, Metadata, crash_kinds
from ..disk.image import Image
from . import DISKS, LIMIT
from . import record as steps
from .checks.check import CheckOutcome
from .checks.checkers import Checkers
from .record import Answers, ProgramRecord
from .replay import DISK_STREAM, Point, Replayer

_BATCH_PER_JOB = 4
"""Number of states or points checked together, per checking process. Large enough to keep all processes busy, but
small, because a probe that ends early loses the current batch.
"""

_QUOTED_MAX = 60


@dataclass(slots=True)
class DiskCount:
    """Counts for one kind of disk."""

    crashes: int = 0
    exhausted: int = 0
    """Number of crashes of which every state was tried."""
    cut: int = 0
    """Number of crashes of which the limit left states out."""
    states: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True)
class CrashCase:
    """One broken state: moment, disk, and the decisions that select the losses."""

    point: Point
    disk: str
    decisions: tuple[Decision, ...]
    digest: str
    verdict: CheckOutcome
    losses: int

    @property
    def severity(self) -> tuple[bool, bool, bool]:
        """Return a sort key that puts the most severe case first.

        Cases after a promise or a refusal are most severe. Next, a process kill is more severe than a power cut, and a
        real file system more severe than a profile that only POSIX allows. Damage at rest is least severe.
        """
        if self.disk in AT_REST:
            return not self.point.answers, True, True
        profile = PROFILES[self.disk]
        return not self.point.answers, not profile.page_cache_survives, profile.metadata is Metadata.ANY

    @property
    def size(self) -> tuple[int, int, int]:
        """Return a sort key that puts the case with the fewest losses first, then operations, then answers."""
        return self.losses, self.point.operations, self.point.answers

    @property
    def rank(self) -> tuple[tuple[bool, bool, bool], tuple[int, int, int]]:
        """Return the sort key that selects the case to print: severity, then size."""
        return self.severity, self.size


@dataclass(slots=True)
class ViolationGroup:
    """All broken states with one signature. smallest: the first case by rank."""

    smallest: CrashCase
    states: int = 0
    points: set[int] = field(default_factory=set)
    """Numbers of disk operations before the crashes."""
    disks: dict[str, int] = field(default_factory=dict)

    def joined(self, other: "ViolationGroup", smallest: CrashCase) -> "ViolationGroup":
        """Return a group with the states of both groups."""
        disks = dict(Counter(self.disks) + Counter(other.disks))
        assert sum(disks.values()) == self.states + other.states, "each broken state counts on one disk"
        return ViolationGroup(smallest, self.states + other.states, self.points | other.points, disks)


@dataclass(slots=True)
class DamageCount:
    """Reactions of the check to the damage of one file at rest."""

    noticed: int = 0
    unnoticed: int = 0
    """Number of states in which a promise is broken, and the program did not report the damage."""
    harmless: int = 0

    @property
    def states(self) -> int:
        return self.noticed + self.unnoticed + self.harmless


@dataclass(slots=True)
class ProbeReport:
    """Counts, breaches and faults of a probe."""

    counts: dict[str, DiskCount]
    breaches: dict[str, ViolationGroup] = field(default_factory=dict)
    points: int = 0
    operations: int = 0
    steps: int = 0
    """Number of steps of which all crashes were tried."""
    is_finished: bool = False
    is_of_end: bool = False
    """Whether only the state at the end of the run was checked, without any crash."""
    images: set[str] = field(default_factory=set)
    judged: int = 0
    seconds: float = 0.0
    injected: set[str] = field(default_factory=set)
    """Faults that occurred in at least one state, by the names in `kinds`."""
    damage: dict[tuple[str, str], DamageCount] = field(default_factory=dict)
    """Reactions to damage at rest, by disk and damaged file."""
    enabled: tuple[str, ...] = ()
    """Faults that are possible with the program's calls and the disks."""

    @property
    def never_injected(self) -> list[str]:
        """Return the possible faults that occurred in no state. Empty if the probe ended early."""
        return [name for name in self.enabled if name not in self.injected] if self.is_finished else []

    @property
    def states(self) -> int:
        return sum(count.states for count in self.counts.values())

    def notes(self, record: ProgramRecord) -> list[str]:
        """Return the reasons why a result without breaches proves little."""
        found = []
        if self.is_of_end and self.breaches:
            found.append(
                "the check does not accept the state at the end of the run, without any crash, so no crash was tried. "
                "Either the program has this bug without a crash, or the check is wrong. Mend one of them to go on"
            )
        if not self.operations and self.is_finished:
            found.append("no operation was recorded: nothing in the program's directory was changed")
        if not record.acknowledged:
            found.append("nothing was promised: the program has ended no line of output")
        if record.unended:
            text = record.unended[-_QUOTED_MAX:]
            found.append(f"the last line of output is no promise, for it was not ended: {text!r}")
        return found

    @property
    def in_order(self) -> list[tuple[str, ViolationGroup]]:
        """Return the breaches, most severe first, then smallest first."""
        return sorted(self.breaches.items(), key=lambda one: (one[1].smallest.rank, one[0]))


Verdicts = dict[tuple[str, int], CheckOutcome]
"""Outcomes by the digest of a state and the number of answers."""
OnHeld = Callable[[Image, Answers, CrashCase, Verdicts], None]
"""Called for each state that holds, with the answers, the crash, and all verdicts so far."""


class _Waiting(NamedTuple):
    """A state that has not been checked yet, and the first crash that left it."""

    point: Point
    disk: str
    states: PossibleStates
    state: CrashState


def probe(
    record: ProgramRecord,
    start: Image,
    checkers: Checkers,
    *,
    disks: Sequence[str] = DISKS,
    limit: int = LIMIT,
    on_progress: Callable[[ProbeReport, int, int], None] = lambda found, done, steps: None,
    on_held: OnHeld | None = None,
    verdicts: Verdicts | None = None,
) -> ProbeReport:
    """Try all crashes of a record. limit: states per crash. on_progress(report, steps done, steps).

    on_held: called with each state that holds. verdicts: new verdicts are added. A probe that ends early returns its
    findings so far.
    """
    prober = Prober(record, start, checkers, disks, limit, {} if verdicts is None else verdicts, on_held)
    began = perf_counter()
    with suppress(EndedEarlyError):
        prober.run(on_point=lambda point: on_progress(prober.found, point.step + 1, len(record.steps)))
    kinds = crash_kinds(prober.replayer.kinds, [PROFILES[disk] for disk in disks if disk not in AT_REST])
    damages = (DAMAGES[disk].fault.value for disk in disks if disk in AT_REST)
    prober.found.enabled = tuple(dict.fromkeys([*kinds, *damages]))
    prober.found.seconds = perf_counter() - began
    return prober.found


def probe_end(record: ProgramRecord, start: Image, checkers: Checkers) -> ProbeReport:
    """Check the state at the end of a record, without a crash. A probe that ends early has no verdict."""
    prober = Prober(record, start, checkers, (NOTHING_LOST,), 1, {})
    prober.found.is_of_end = True
    *_, last = prober.replayer.points()
    with suppress(EndedEarlyError):
        prober.explore(last)
        prober.judge()
    return prober.found


class Prober:
    """Visits the points of a record in order. Invariant: each pair of state and promises found so far has a verdict or
    is queued for its check.
    """

    def __init__(
        self,
        record: ProgramRecord,
        start: Image,
        checkers: Checkers,
        disks: Sequence[str],
        limit: int,
        verdicts: Verdicts,
        on_held: OnHeld | None = None,
        known: Collection[tuple[str, str]] = (),
    ) -> None:
        self.replayer = Replayer(record, start, disks=disks)
        self.found = ProbeReport({disk: DiskCount() for disk in disks})
        self._record = record
        self._answers = record.answers
        self._checkers = checkers
        self._limit = limit
        self._chances = Choices("probe")
        self._states: dict[str, PossibleStates] = {}
        """States of the last point, by disk. They are reused for the next point if the disk has not changed."""
        self._operations = -1
        self._verdicts = verdicts
        self._on_held = on_held
        self._known = known  # disk and signature of breaches that are already known
        self._damage_verdicts: Verdicts = {}  # apart, because a recovery follows each verdict on a crash state
        self._waiting: dict[tuple[str, int, bool], _Waiting] = {}
        """Queued states by digest, number of answers, and whether they are of damage at rest."""
        self._points: list[tuple[Point, dict[str, PossibleStates]]] = []  # points that are not counted yet
        self._counted: Point | None = None  # the last point that was counted
        self._has_crashes = not AT_REST.issuperset(disks)

    def run(self, first_step: int = -1, on_point: Callable[[Point], None] = lambda point: None) -> None:
        """Explore all points after a step. EndedEarlyError: the probe was interrupted; the counts are up to date."""
        point = None
        try:
            for point in self.replayer.points():
                if point.step >= first_step:
                    current_interruption().check()
                    self.explore(point)
                    on_point(point)
            if point is not None and not self._is_promise(point):
                self._queue(point, [disk for disk in self.found.counts if disk in AT_REST])
            self.judge()
            self.found.steps, self.found.is_finished = len(self._record.steps), True
        finally:
            self._sum_up_all()

    def explore(self, point: Point) -> None:
        """Queue the states that a crash at the current point may leave, and those of damage at rest."""
        self._queue(point, [disk for disk in self.found.counts if self._may_leave_new_states(disk, point)])

    def _queue(self, point: Point, disks: Sequence[str]) -> None:
        if point.operations != self._operations:
            self._operations, self._states = point.operations, {}
        for disk in disks:
            if disk not in self._states:
                stream = self._chances.stream(f"{disk} after {point.operations}")
                self._states[disk] = self.replayer.states(disk, self._limit, stream)
            for state in self._states[disk]:
                key = state.digest, point.answers
                if key not in self._verdicts_for(disk):
                    self._waiting.setdefault((*key, disk in AT_REST), _Waiting(point, disk, self._states[disk], state))
        self._points.append((point, {disk: self._states[disk] for disk in disks}))
        if max(len(self._waiting), len(self._points)) >= _BATCH_PER_JOB * self._checkers.jobs:
            self.judge()

    def _may_leave_new_states(self, disk: str, point: Point) -> bool:
        """Return whether a crash at this point may leave a state that no later crash leaves. Damage at rest is tried
        after each promise, and at the end of the run.
        """
        if disk in AT_REST:
            return self._is_promise(point)
        run = [step.kind for step in self._record.steps[max(0, point.step) : point.step + 2]]
        is_inside_of_run = run == [steps.STORE, steps.STORE]
        return not is_inside_of_run or PROFILES[disk].page_cache_survives

    def _verdicts_for(self, disk: str) -> Verdicts:
        return self._damage_verdicts if disk in AT_REST else self._verdicts

    def _is_promise(self, point: Point) -> bool:
        return point.step >= 0 and self._record.steps[point.step].kind == steps.ACKNOWLEDGE

    def judge(self) -> None:
        """Check the queued states and count them."""
        waiting, self._waiting = self._waiting, {}
        answers = {key: Answers.of(self._answers[: key[1]]) for key in waiting}
        questions = [(one.state.image, answers[key]) for key, one in waiting.items()]
        keys = list(waiting)
        for number, verdict in self._checkers.answered(questions):
            digest, given, _ = keys[number]
            self._verdicts_for(waiting[keys[number]].disk)[digest, given] = verdict
            self.found.judged += 1
            self.found.images.add(digest)
        if self._on_held is not None:
            for key, one in waiting.items():
                verdict = self._verdicts_for(one.disk)[key[:2]]
                if not verdict.is_broken and one.disk not in AT_REST:
                    self._on_held(one.state.image, answers[key], _case(*one, verdict), self._verdicts)
        self._sum_up_all()

    def _sum_up_all(self) -> None:
        for point, states_of in self._points:
            self._count_point(point, states_of)
        self._points.clear()

    def _count_point(self, point: Point, states_of: dict[str, PossibleStates]) -> None:
        """Count a point. After an early end, states without a verdict are not counted, nor are their crashes."""
        is_whole = True
        for disk, states in states_of.items():
            count = self.found.counts[disk]
            is_judged = True
            for state in states:
                verdict = self._verdicts_for(disk).get((state.digest, point.answers))
                if verdict is None:
                    is_judged = False
                    continue
                count.states += 1
                self._note(states, state)
                is_breach = verdict.is_breach(is_damaged=disk in AT_REST and state.loss_count > 0)
                self._count_damage(disk, state, verdict, is_breach=is_breach)
                if is_breach and (disk, verdict.signature) not in self._known:
                    count.broken += 1
                    self._keep(point, disk, states, state, verdict)
            count.crashes += is_judged
            count.exhausted += is_judged and states.is_exhaustive
            count.cut += is_judged and states.was_cut
            assert max(count.exhausted, count.cut) <= count.crashes, (disk, count)
            is_whole = is_whole and is_judged
        if is_whole:
            # the end of the run may follow as a point of damage only, and has been counted then
            self.found.points += point != self._counted and (bool(states_of) or self._has_crashes)
            self._counted = point
            self.found.operations = point.operations
            self.found.steps = max(0, point.step)  # other points of this step may follow

    def _count_damage(self, disk: str, state: CrashState, verdict: CheckOutcome, *, is_breach: bool) -> None:
        if not isinstance(state, DamagedState) or state.damage is None:
            return
        self.found.injected.add(DAMAGES[disk].fault)
        count = self.found.damage.setdefault((disk, state.damage.place.path), DamageCount())
        count.unnoticed += is_breach
        count.noticed += not is_breach and verdict.is_noticed
        count.harmless += not verdict.is_broken

    def _note(self, states: PossibleStates, state: CrashState) -> None:
        injected = self.found.injected
        if state.lost:
            injected.update(change.loss_kind(kept_bytes) for change, kept_bytes in states.losses_of(state).changes)
        for page, page_outcome in zip(state.dirty_pages, state.page_outcomes, strict=True):
            if page_outcome.torn_at and page_outcome.version != page_outcome.other:
                injected.add("torn sector")
                injected.add("torn page")
            elif page_outcome.sectors and page_outcome.version != page_outcome.other:
                injected.add("torn page")
            elif page_outcome.version < len(page.writes):
                injected.add("page lost")

    def _keep(self, point: Point, disk: str, states: PossibleStates, state: CrashState, verdict: CheckOutcome) -> None:
        case = CrashCase(point, disk, (), state.digest, verdict, state.loss_count)
        breach = self.found.breaches.get(verdict.signature)
        if breach is None or case.rank < breach.smallest.rank:
            case = _case(point, disk, states, state, verdict)
            if breach is None:
                breach = self.found.breaches[verdict.signature] = ViolationGroup(case)
            breach.smallest = case
        breach.states += 1
        breach.points.add(point.operations)
        breach.disks[disk] = breach.disks.get(disk, 0) + 1
        assert sum(breach.disks.values()) == breach.states, "each broken state counts on one disk"


def _case(point: Point, disk: str, states: PossibleStates, state: CrashState, verdict: CheckOutcome) -> CrashCase:
    decisions = tuple(states.decisions(state, DISK_STREAM))
    return CrashCase(point, disk, decisions, state.digest, verdict, state.loss_count)

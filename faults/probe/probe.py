"""Probe: enumerates the states after every crash of a record, and checks each state once.

    for each operation of the record, and after the last one, and for each disk: enumerate the crash states
        check each new state against the promises made so far, and group the breaches by signature

A sample, or a probe with a time limit, visits crash points evenly over the record (`visits`). The probe tries damage at
rest after each promise and at the end of the run, even if a sample omits this crash point.

The verdict depends only on the state and the promises, so the probe checks each pair once for all crash points and
disks.

In a sequence of stores through maps, the probe tries a power cut only after the last store: pages reach the disk in any
order, so this power cut has all states of earlier ones. It tries a process kill between any two stores.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import KW_ONLY, dataclass, field
from time import perf_counter
from typing import NamedTuple

from ...sim.choices import Choices
from ...sim.interruption import EndedEarlyError, current_interruption
from ..crashes.at_rest import AT_REST, DAMAGES, DamagedState
from ..crashes.enumeration import CrashState, PossibleStates
from ..crashes.profiles import NOTHING_LOST, PROFILES, crash_kinds
from ..disk.image import Image
from . import DISKS, LIMIT
from . import record as steps
from .checks.check import HELD, CheckOutcome
from .checks.checkers import Checkers
from .combinations import CombinedStates
from .crash_points import points_of_rules
from .elsewhere import ProbeJob, StatesOf, states_of_disk
from .record import Answers, ProgramRecord
from .replay import DISK_STREAM, Point, Replayer
from .report import CrashCase, DamageCount, DiskCount, ProbeReport, ViolationGroup, is_breach
from .visits import EVEN, EVERY_POINT, STOP_AT_FIRST, VisitPlan

_BATCH_PER_JOB = 4
"""Number of states or points per batch and checking process. A small batch leaves processes idle; an early end of the
probe loses a large batch.
"""


Verdicts = dict[tuple[int, int], CheckOutcome]
"""Outcomes by the key of a state, and the number of promises and refusals."""
OnHeld = Callable[[Image, Answers, CrashCase, Verdicts], None]
"""Called for each state that passes its check, with the promises and refusals, the crash, and all verdicts so far."""


class _QueuedState(NamedTuple):
    """An unchecked state, and the first crash that leaves it."""

    point: Point
    disk: str
    states: PossibleStates
    state: CrashState


def probe_final_state(record: ProgramRecord, start: Image, checkers: Checkers) -> ProbeReport:
    """Check the state at the end of a record, without a crash. After an early end there is no verdict."""
    prober = Prober(record, start, checkers, disks=(NOTHING_LOST,), limit=1)
    prober.found.is_of_end = True
    *_, last = prober.replayer.points()
    with suppress(EndedEarlyError):
        prober.explore(last, prober.states_at(last, [NOTHING_LOST]))
        prober.judge()
    return prober.found


@dataclass(eq=False)
class Prober:
    """Visits the crash points of a record. Invariant: each pair of state and promises so far has a verdict or is
    queued.
    """

    record: ProgramRecord
    start: Image
    checkers: Checkers
    _: KW_ONLY
    disks: Sequence[str] = DISKS
    limit: int = LIMIT
    """Maximum of states per crash."""
    on_held: OnHeld | None = None
    verdicts: Verdicts = field(default_factory=dict)
    """Gets the new verdicts."""
    plan: VisitPlan = EVERY_POINT
    known: Collection[tuple[str, str]] = ()
    """Disks and signatures of known breaches."""
    confirmed: set[tuple[str, str]] = field(default_factory=set)
    """Disks and signatures of confirmed time-outs."""
    only: Collection[Point] | None = None
    """Crash points to try; None: all. Damage at rest may have other points."""
    first: Collection[Point] = ()
    """Crash points to try before the others."""

    def __post_init__(self) -> None:
        self.replayer = Replayer(self.record, self.start, disks=self.disks)
        self.found = ProbeReport({disk: DiskCount() for disk in self.disks})
        self._visited_count = self._visits = 0
        self._answers = self.record.answers
        self._chances = Choices("probe")
        self._states: dict[str, PossibleStates] = {}
        """States at the current crash point, by disk, for reuse at the next point if the disk has not changed."""
        self._operations = -1
        self._first = frozenset(self.first)
        self._damage_verdicts: Verdicts = {}  # separate: a recovery follows each verdict on a crash state
        self._waiting: dict[tuple[int, int, bool], _QueuedState] = {}
        """Queued states by key, number of promises and refusals, and whether damage at rest left the state."""
        self._points: list[tuple[Point, StatesOf]] = []  # points to count
        self._at_rest = [disk for disk in self.disks if disk in AT_REST]
        self._has_crashes = len(self._at_rest) < len(self.disks)

    def probe(
        self, on_progress: Callable[[ProbeReport, int, int], None] = lambda found, done, total: None
    ) -> ProbeReport:
        """Try all crashes. After an early end, return the findings so far.

        on_progress(report, done, total): done and total count steps, or crash points in an even visit.
        """
        began = perf_counter()
        with suppress(EndedEarlyError):
            self.run(on_point=lambda point: on_progress(self.found, *self.progress(point)))
        kinds = crash_kinds(self.replayer.kinds, [PROFILES[disk] for disk in self.disks if disk not in AT_REST])
        damages = (DAMAGES[disk].fault.value for disk in self._at_rest)
        self.found.enabled = tuple(dict.fromkeys([*kinds, *damages]))
        self.found.seconds = perf_counter() - began
        return self.found

    def run(self, first_step: int = -1, on_point: Callable[[Point], None] = lambda point: None) -> None:
        """Explore all points after a step. EndedEarlyError: interrupted, with correct counts."""
        visits = ((point, self.states_at(point, disks)) for point, disks in self._visit_points(first_step))
        job = ProbeJob(self.record, self.start, tuple(self.found.counts), self.limit)
        try:
            with closing(self.checkers.looking_ahead(visits, job, self._is_known)) as visited:
                for point, states_of in visited:
                    current_interruption().check()
                    self._visited_count += 1
                    self.explore(point, states_of)
                    on_point(point)
                self.judge()
            self.found.steps, self.found.is_finished = len(self.record.steps), True
        finally:
            self._sum_up_all()

    def progress(self, point: Point) -> tuple[int, int]:
        """Return the number of visited points and of all points; of steps if the number of points is unknown."""
        if not self.found.points_of:
            return point.step + 1, len(self.record.steps)
        return self._visited_count, self._visits

    def _visit_points(self, first_step: int) -> Iterator[tuple[Point, list[str]]]:
        """Replay to each point of the plan, and yield it with the disks to try."""
        if self.plan.is_even:
            yield from self._visit_sample_first(first_step)
            return
        if self._first:
            yield from self._visited_in_order(first_step, self._first.__contains__)
            self._replay_again()
        yield from self._visited_in_order(first_step, lambda point: point not in self._first)

    def _visited_in_order(
        self, first_step: int, is_chosen: Callable[[Point], bool]
    ) -> Iterator[tuple[Point, list[str]]]:
        point = None
        for point in self.replayer.points():
            is_crashed = self.only is None or point in self.only
            disks = self._disks_to_try(point, self._is_promise(point), is_crashed)
            if point.step >= first_step and is_chosen(point) and (is_crashed or disks):
                yield point, disks
        if point is not None and self._at_rest and not self._is_promise(point) and is_chosen(point):
            yield point, self._at_rest

    def _visit_sample_first(self, first_step: int) -> Iterator[tuple[Point, list[str]]]:
        """Yield the points of a sample, then omitted points that the program requested or that have damage at rest."""
        points = []
        for point in self.replayer.points():
            current_interruption().check()
            if point.step >= first_step:
                points.append(point)
        crash_points = [point for point in points if self._has_crashes and (self.only is None or point in self.only)]
        of_damage = {point for point in points if self._at_rest and (self._is_promise(point) or point == points[-1])}
        self.found.damage_left = len(of_damage)
        self.found.points_of = len(crash_points if self._has_crashes else of_damage)
        self.found.operations = self.replayer.operations
        sampled = list(self.plan.passes(self.record, crash_points))
        marked = points_of_rules((), self.record, self.start) if self.record.cuts else set()
        first = [point for point in crash_points if point in self._first]
        to_crash = marked.intersection(crash_points).union(first, *sampled)
        left = (to_crash | of_damage).difference(first, *sampled)
        after = [[point for point in chosen if point not in self._first] for chosen in sampled]
        passes = [first, *after, *EVEN.passes(self.record, [point for point in points if point in left])]
        self._visits = sum(map(len, passes))
        for chosen in filter(None, passes):
            self._replay_again()
            for point in self._points_of_replay(chosen):
                yield point, self._disks_to_try(point, point in of_damage, point in to_crash)

    def _replay_again(self) -> None:
        kinds = self.replayer.kinds
        self.replayer = Replayer(self.record, self.start, disks=list(self.found.counts))
        self.replayer.kinds = kinds
        # Each pass has a new stream, so that random states do not depend on the points visited before.
        self._chances, self._operations = Choices("probe"), -1

    def _points_of_replay(self, chosen: list[Point]) -> Iterator[Point]:
        left = iter(chosen)
        wanted = next(left, None)
        for point in self.replayer.points():
            current_interruption().check()
            if point == wanted:
                yield point
                wanted = next(left, None)
                if wanted is None:
                    return

    def _disks_to_try(self, point: Point, is_damaged: bool, is_crashed: bool) -> list[str]:
        """Return the disks to try at a point: disks with damage at rest, and disks on which a crash may leave new
        states.
        """
        return [
            disk
            for disk in self.found.counts
            if (is_damaged if disk in AT_REST else is_crashed and self._may_leave_new_states(disk, point))
        ]

    def states_at(self, point: Point, disks: Sequence[str]) -> StatesOf:
        """Return the states that a crash may leave on these disks. The replayer must be at the point."""
        if point.operations != self._operations:
            self._operations, self._states = point.operations, {}
        for disk in disks:
            if disk not in self._states:
                self._states[disk] = states_of_disk(self.replayer, point, disk, self.limit, self._chances)
        return {disk: self._states[disk] for disk in disks}

    def explore(self, point: Point, states_of: StatesOf) -> None:
        """Queue the states of a point."""
        given = point.answers
        for disk, states in states_of.items():
            verdicts, is_at_rest = self._verdicts_for(disk), disk in AT_REST
            for state in states:
                if (state.key, given) not in verdicts:
                    key = state.key, given, is_at_rest
                    self._waiting.setdefault(key, _QueuedState(point, disk, states, state))
        self._points.append((point, states_of))
        if max(len(self._waiting), len(self._points)) >= _BATCH_PER_JOB * self.checkers.jobs:
            self.judge()

    def _may_leave_new_states(self, disk: str, point: Point) -> bool:
        """Return whether a crash at this point may leave a state that no later crash leaves."""
        if self.only is not None or point.step + 1 in self.record.cuts:
            return True  # the plan may omit later crashes, or the program requested this one
        if self.plan.points_max is not None and self.plan.points_max < self.found.points_of:
            return True  # the sample may omit the later crash
        run = [step.kind for step in self.record.steps[max(0, point.step) : point.step + 2]]
        is_inside_of_run = run == [steps.STORE, steps.STORE]
        return not is_inside_of_run or PROFILES[disk].page_cache_survives

    def _is_known(self, point: Point, disk: str, state: CrashState) -> bool:
        return (state.key, point.answers) in self._verdicts_for(disk)

    def _verdicts_for(self, disk: str) -> Verdicts:
        return self._damage_verdicts if disk in AT_REST else self.verdicts

    def _is_promise(self, point: Point) -> bool:
        return point.step >= 0 and self.record.steps[point.step].kind == steps.ACKNOWLEDGE

    def judge(self) -> None:
        """Check the queued states and count them."""
        waiting, self._waiting = self._waiting, {}
        answers = {given: Answers.from_steps(self._answers[:given]) for _, given, _ in waiting}
        questions = [(one.state, answers[given]) for (_, given, _), one in waiting.items()]
        keys = list(waiting)
        with closing(self.checkers.judge_each(questions)) as arriving:
            for number, verdict in _in_question_order(arriving) if self.plan.stops_at_first else arriving:
                (image_key, given, _), one = keys[number], waiting[keys[number]]
                self._verdicts_for(one.disk)[image_key, given] = verdict
                self.found.judged += 1
                self.found.images.add(image_key)
                if verdict.is_assumed or not is_breach(verdict, one.state):
                    continue
                if (one.disk, verdict.signature) not in self.known:
                    self._stop_at_new_breach([verdict.signature])
        self._confirm_time_outs()
        if self.on_held is not None:
            for key, one in waiting.items():
                verdict = self._verdicts_for(one.disk)[key[:2]]
                if not verdict.is_broken and one.disk not in AT_REST:
                    self.on_held(one.state.image, answers[key[1]], _make_case(*one, verdict), self.verdicts)
        self._sum_up_all()
        self._stop_at_new_breach(self.found.breaches)  # verdicts of another record also give breaches, without a check

    def _confirm_time_outs(self) -> None:
        """Repeat assumed time-outs until the whole time limit confirms one for each disk and signature."""
        if not self.checkers.assumed:
            return
        for point, states_of in self._points:
            for disk, states in states_of.items():
                for state in states:
                    verdicts, key = self._verdicts_for(disk), (state.key, point.answers)
                    verdict = verdicts[key]
                    if self._is_unconfirmed(disk, verdict):
                        question = state, Answers.from_steps(self._answers[: point.answers])
                        verdict = verdicts[key] = self.checkers.judge_again(question)
                    if verdict.is_broken and not verdict.is_assumed:
                        self.confirmed.add((disk, verdict.signature))

    def _is_unconfirmed(self, disk: str, verdict: CheckOutcome) -> bool:
        return (
            verdict.is_assumed
            and (disk, verdict.signature) not in self.confirmed
            and (disk, verdict.signature) not in self.known
        )

    def _stop_at_new_breach(self, breaches: Iterable[str]) -> None:
        if self.plan.stops_at_first and not self.plan.known.issuperset(breaches):
            raise EndedEarlyError(STOP_AT_FIRST)

    def _sum_up_all(self) -> None:
        for point, states_of in self._points:
            self._count_point(point, states_of)
        self._points.clear()

    def _count_point(self, point: Point, states_of: StatesOf) -> None:
        """Count a point. After an early end, omit states without a verdict and their crashes."""
        is_whole = True
        for disk, states in states_of.items():
            count = self.found.counts[disk]
            is_judged = True
            verdicts, given, injected = self._verdicts_for(disk), point.answers, self.found.injected
            for state in states:
                verdict = verdicts.get((state.key, given))
                if verdict is None or (verdict.is_assumed and self._is_unconfirmed(disk, verdict)):
                    is_judged = False
                    continue
                count.states += 1
                if not (state.loss_kinds <= injected and states.page_faults <= injected):
                    self._count_losses(states, state)
                if verdict.outcome == HELD and disk not in AT_REST:  # most states
                    continue
                self._count_damage(disk, state, verdict)
                if is_breach(verdict, state) and (disk, verdict.signature) not in self.known:
                    count.broken += 1
                    if point in self._first and verdict.signature not in self.plan.known:
                        self.found.failed_first.add(point)
                    if not verdict.is_assumed:
                        self.confirmed.add((disk, verdict.signature))
                    self._record_breach(point, disk, states, state, verdict)
            if is_judged and isinstance(states, CombinedStates):
                self.found.combined += states.tried
                self.found.combinations += states.possible
            count.crashes += is_judged
            count.exhausted += is_judged and states.is_exhaustive
            count.cut += is_judged and states.was_cut
            assert max(count.exhausted, count.cut) <= count.crashes, (disk, count)
            is_whole = is_whole and is_judged
        if is_whole:
            # the plan may try only damage at rest at a crash point
            is_damage_only = bool(states_of) and AT_REST.issuperset(states_of)
            self.found.points += is_damage_only != self._has_crashes
            self.found.damage_left -= self.found.damage_left > 0 and not AT_REST.isdisjoint(states_of)
            if not self.found.points_of:
                self.found.operations = max(self.found.operations, point.operations)
            if point in self._first:
                self.found.tried_first.add(point)
            else:
                self.found.steps = max(0, point.step)  # this step may have more points

    def _count_damage(self, disk: str, state: CrashState, verdict: CheckOutcome) -> None:
        if not isinstance(state, DamagedState) or state.damage is None:
            return
        self.found.injected.add(DAMAGES[disk].fault)
        count = self.found.damage.setdefault((disk, state.damage.place.path), DamageCount())
        count.unnoticed += is_breach(verdict, state)
        count.noticed += verdict.is_damage_reported
        count.harmless += not verdict.is_broken

    def _count_losses(self, states: PossibleStates, state: CrashState) -> None:
        injected = self.found.injected
        injected.update(state.loss_kinds)
        if states.page_faults <= injected:
            return
        for page, page_outcome in zip(state.dirty_pages, state.page_outcomes, strict=True):
            if page_outcome.torn_at and page_outcome.version != page_outcome.other:
                injected.add("torn sector")
                injected.add("torn page")
            elif page_outcome.sectors and page_outcome.version != page_outcome.other:
                injected.add("torn page")
            elif page_outcome.version < len(page.writes):
                injected.add("page lost")

    def _record_breach(
        self, point: Point, disk: str, states: PossibleStates, state: CrashState, verdict: CheckOutcome
    ) -> None:
        case = CrashCase(point, disk, (), "", verdict, state.loss_count)  # the shrunk case determines the rank
        breach = self.found.breaches.get(verdict.signature)
        if breach is None or case.rank < breach.smallest.rank:
            case = _make_case(point, disk, states, state, verdict)
            if breach is None:
                breach = self.found.breaches[verdict.signature] = ViolationGroup(case)
            breach.smallest = case
        breach.states += 1
        breach.points.add(point.operations)
        breach.disks[disk] = breach.disks.get(disk, 0) + 1
        assert sum(breach.disks.values()) == breach.states, "each broken state counts on one disk"


def _in_question_order(answers: Iterable[tuple[int, CheckOutcome]]) -> Iterator[tuple[int, CheckOutcome]]:
    """Yield outcomes in the order of the questions, so that the speed of checks does not select the first breach."""
    early: dict[int, CheckOutcome] = {}
    following = 0
    for number, verdict in answers:
        early[number] = verdict
        while following in early:
            yield following, early.pop(following)
            following += 1


def _make_case(point: Point, disk: str, states: PossibleStates, state: CrashState, verdict: CheckOutcome) -> CrashCase:
    decisions = tuple(states.decisions(state, DISK_STREAM))
    return CrashCase(point, disk, decisions, state.digest, verdict, state.loss_count)

"""Shrinking of a failed run: removes crashes, losses and task switches, and reduces the setup.

All programs share `RecordShrinker` and add axes: a user's scenario adds the steps of its workload, a store's plan its
features and messages.

Log files have numbers as names. Without a workload step the crash may be in a file with another number, so shrinking
adapts the names in the record (`with_file_names_of`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic

from ...sim.choices import Choices, Decision
from ...sim.errors import LeakError, ReplayDivergedError
from ...sim.guard import leak_guard
from ...sim.policies import Policy
from ...sim.policies.random_walk import draw_policy
from ...sim.process import CpuLimitReached, stall_limit
from ...sim.shrink import ShrinkSearch, shrink_decisions, shrink_schedule
from ..crashes.profiles import NOTHING_LOST
from ..disk.fault_injector import CrashPhase, CrashPoint
from .disk_lifecycle import PROCESS_KILL
from .finding import Finding, TrialRecord, steps_taken
from .record import Program, Record, RecordReplay, Result, Setup, record_of, replay
from .simulation import DISK_STREAM, STEP_LIMIT, TORN_SECTORS, Crash, Scenario
from .trials import TrialOutcome, finding_of, program_of

TRIES_MAX = 2_000
SCHEDULES = 48
"""Number of other schedules to try if a candidate with fewer steps does not fail under the recorded one."""
_EARLIER_MAX = 64
"""Maximum of earlier operations to try one by one. Above it, shrinking bisects operations of the same name."""
_PROFILES = (NOTHING_LOST, PROCESS_KILL, "ext4-ordered")  # crash profiles to try, mildest first
_NUMBER = re.compile(r"\d+")
Axis = Callable[[ShrinkSearch[Record[Setup]]], None]
Test = Callable[[RecordReplay[Setup, Result]], bool]


class RecordShrinker(Generic[Setup, Result]):
    """Shrinks a failing record axis by axis, to a local minimum or until the budget is used up.

    is_same: returns whether a replay fails in the same way. stall_seconds: see `stall_limit`; a run that reaches this
    limit does not fail.
    """

    def __init__(
        self,
        program: Program[Setup, Result],
        is_same: Test[Setup, Result],
        *,
        steps: int,
        has_limit: bool = True,
        renumbers: bool = False,
        stall_seconds: float | None = None,
    ) -> None:
        """steps: scheduling points of the failed run. has_limit: whether to abort long runs."""
        assert steps >= 0, steps
        self.operations: dict[str, Mapping[tuple[str, str], int]] = {}
        """Operations of the last failing simulation: by process run, then by kind and path."""
        # A candidate that takes twenty times as long rarely fails in the same way, and costs as much as twenty others.
        self.step_limit = min(STEP_LIMIT, 20 * steps + 20_000) if has_limit else STEP_LIMIT
        self._program = program
        self._is_same = is_same
        self._renumbers = renumbers
        self._stall_seconds = stall_seconds

    def shrink(
        self,
        start: Record[Setup],
        axes: Sequence[Axis[Setup]],
        *,
        tries_max: int,
        coarsely_first: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_try: Callable[[Record[Setup], bool], None] = lambda record, accepted: None,
    ) -> ShrinkSearch[Record[Setup]]:
        """Return the search with the smallest record. stop and on_try: see `sim.shrink.ShrinkSearch`.

        coarsely_first: whether each axis first removes only large parts, which is faster for long runs.

        ReplayDivergedError: a replay of the record does not fail in the same way.
        """
        first = replay(self._program, start)
        if not self._is_same(first):
            found = first.result.signature or "no failure"
            raise ReplayDivergedError("record", 0, "the failure to shrink", found)
        self.operations.update(first.simulation.operations)
        search = ShrinkSearch(start, self.still_fails, tries_max=tries_max, stop=stop, on_try=on_try)
        with leak_guard():  # one guard around all runs makes the guard of each run cheap
            search.is_coarse = coarsely_first
            if coarsely_first:
                for axis in axes:
                    axis(search)
            search.is_coarse, before = False, None
            while before != search.best and not search.is_over:
                before = search.best
                for axis in axes:
                    axis(search)
        return search

    def still_fails(self, record: Record[Setup]) -> Record[Setup] | None:
        """Replay a candidate. Return its record, or None if it does not fail in the same way."""
        replayed = self._replay_candidate(record)
        if replayed is None:
            return None
        self.operations.update(replayed.simulation.operations)
        return replayed.record

    def _replay_candidate(
        self, record: Record[Setup], policy: Policy | None = None
    ) -> RecordReplay[Setup, Result] | None:
        """Replay a candidate. Return None if it does not fail in the same way. policy: replaces the schedule."""
        try:
            with stall_limit(self._stall_seconds):
                replayed = replay(self._program, record, policy=policy, step_limit=self.step_limit)
                if self._renumbers and policy is None and not self._is_same(replayed):
                    moved = with_file_names_of(record, replayed)
                    if moved != record:
                        replayed = replay(self._program, moved, step_limit=self.step_limit)
        except LeakError:
            raise
        # an edited record may be invalid for the program, which is no failure
        except (Exception, CpuLimitReached):
            return None
        return replayed if self._is_same(replayed) else None

    def fails_under_any_schedule(self, record: Record[Setup]) -> Record[Setup] | None:
        """Replay a candidate, under other schedules if it does not fail under its own."""
        followed = self.still_fails(record)
        for number in range(SCHEDULES if followed is None else 0):
            policy = draw_policy(Choices(f"schedule {number}").stream("schedule"))
            replayed = self._replay_candidate(record, policy)
            if replayed is not None:
                found, run = replayed.result, replayed.simulation
                return record_of(self._program, record.setup, run, found).record
        return followed

    def shrink_crashes(self, search: ShrinkSearch[Record[Setup]]) -> None:
        """Try crashes without losses, at the end of the process run, with smaller losses, and at earlier operations."""
        for life in [crash.life for crash in search.best.crashes]:
            for kinder in (_crashes_at_the_end, _milder_profiles, _other_moments, self._earlier_crashes):
                crash = _crash_of(search.best, life)
                if crash is not None:
                    any(search.attempt(replace_crash(search.best, change)) for change in kinder(crash))
            crash = _crash_of(search.best, life)
            if crash is not None and crash.point:
                search.lower_value(CrashPoint.parse(crash.point).nth, 1, _with_nth(life))

    def _earlier_crashes(self, crash: Crash) -> Iterator[Crash]:
        times = self.operations.get(crash.life, {})
        if not crash.point or sum(times.values()) > _EARLIER_MAX:
            return
        for (kind, path), count in times.items():
            for nth in range(1, count + 1):
                earlier = str(CrashPoint(kind, path, nth))
                if earlier == crash.point:
                    return  # the remaining operations are not earlier
                yield crash._replace(point=earlier)


def shrink(
    scenario: Scenario,
    finding: Finding,
    *,
    tries_max: int = TRIES_MAX,
    on_try: Callable[[TrialRecord, bool], None] = lambda record, accepted: None,
) -> Finding:
    """Return a smaller run with the same signature: a local minimum, or the smallest one after tries_max runs.

    on_try: called after each run with whether it was accepted. ReplayDivergedError: the finding does not reproduce.
    """

    def is_same(replayed: RecordReplay[None, TrialOutcome]) -> bool:
        return replayed.result.signature == finding.signature

    shrinker = RecordShrinker(program_of(scenario), is_same, steps=finding.steps, renumbers=True)

    def drop_steps(search: ShrinkSearch[TrialRecord]) -> None:
        search.continue_with_test(
            shrinker.fails_under_any_schedule, lambda others: others.drop_parts(steps_taken, _keep_steps)
        )

    axes = (shrinker.shrink_crashes, shrink_decisions, shrink_schedule, drop_steps)
    search = shrinker.shrink(finding.record, axes, tries_max=tries_max, on_try=on_try)
    is_shrunk = finding.is_shrunk or search.best != finding.record
    return replace(finding_of(scenario, finding.seed, search.best), is_shrunk=is_shrunk)


def _keep_steps(record: TrialRecord, kept: Sequence[Decision]) -> TrialRecord:
    gone = {step for step in steps_taken(record) if step not in kept}
    return replace(record, decisions=tuple(other for other in record.decisions if other not in gone))


def _crashes_at_the_end(crash: Crash) -> Iterator[Crash]:
    yield Crash(crash.life, NOTHING_LOST, CrashPhase.AFTER, "")
    yield crash._replace(point="", moment=CrashPhase.AFTER)


def _milder_profiles(crash: Crash) -> Iterator[Crash]:
    for profile in _PROFILES:
        if profile == crash.profile:
            return
        yield crash._replace(profile=profile)
    if crash.profile == TORN_SECTORS:
        yield crash._replace(profile="strict-posix")


def _other_moments(crash: Crash) -> Iterator[Crash]:
    for moment in (CrashPhase.BEFORE, CrashPhase.AFTER):
        if moment == crash.moment or not crash.point:
            return
        yield crash._replace(moment=moment)


def _crash_of(record: Record[Setup], life: str) -> Crash | None:
    return next((crash for crash in record.crashes if crash.life == life), None)


def replace_crash(record: Record[Setup], changed: Crash) -> Record[Setup]:
    crashes = tuple(changed if crash.life == changed.life else crash for crash in record.crashes)
    return replace(record, crashes=crashes)


def _with_nth(life: str) -> Callable[[Record[Setup], int], Record[Setup]]:
    def edit(record: Record[Setup], value: int) -> Record[Setup]:
        crash = _crash_of(record, life)
        if crash is None or not crash.point:
            return record
        point = CrashPoint.parse(crash.point)._replace(nth=value)
        return replace_crash(record, crash._replace(point=str(point)))

    return edit


def with_file_names_of(record: Record[Setup], replayed: RecordReplay[Setup, Result]) -> Record[Setup]:
    """Replace the file names of the record by the replay's names.

    Example: the record names `log-00000005`, but the replay only reached `log-00000004`. The new name is the last name
    of the replay that differs only in its numbers.
    """
    gone = set(replayed.gone)
    operations = replayed.simulation.operations
    plain = [draw for draw in replayed.simulation.choices.draws() if not draw.value]
    return replace(
        record,
        decisions=tuple(
            _draw_with_matching_label(one, plain) if one in gone and one.stream.startswith(DISK_STREAM) else one
            for one in record.decisions
        ),
        crashes=tuple(
            _crash_at_matching_file(one, operations.get(one.life, {})) if one in gone and one.point else one
            for one in record.crashes
        ),
    )


def _draw_with_matching_label(decision: Decision, plain: Iterable[Decision]) -> Decision:
    shape, found = _name_pattern(decision.label), decision
    for draw in plain:
        if draw.stream == decision.stream and draw.options > decision.value and _name_pattern(draw.label) == shape:
            found = draw._replace(value=decision.value)
    return found


def _crash_at_matching_file(crash: Crash, operations: Iterable[tuple[str, str]]) -> Crash:
    """Move the crash to the first operation of the same kind on the last file with a matching name."""
    kind, path, _ = CrashPoint.parse(crash.point)
    shape, found = _name_pattern(path), crash
    for other_kind, other in operations:
        if other_kind == kind and _name_pattern(other) == shape:
            found = crash._replace(point=str(CrashPoint(kind, other, 1)))
    return found


def _name_pattern(name: str) -> str:
    return _NUMBER.sub("0", name)

"""Shrinking a finding: fewer steps of the workload, fewer and kinder crashes, fewer losses and switches of tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...sim.choices import Choices, Decision
from ...sim.errors import ReplayDivergedError
from ...sim.guard import guard
from ...sim.policies.random_walk import draw_policy
from ...sim.shrink import Search, shrink_decisions, shrink_schedule
from ..disk.crash_trigger import CrashPoint
from ..disk.fault_injector import CrashPhase
from .finding import Finding, TrialRecord
from .renumber import renumbered
from .simulation import NOTHING_LOST, PROCESS_KILL, STEP_LIMIT, TORN_SECTORS, Crash, Scenario
from .trials import finding_of, record_of, replay, replay_otherwise

TRIES_MAX = 2_000
SCHEDULES = 48
"""How many others are tried with fewer steps, where the recorded one does not fail any more."""
Operations = Mapping[str, Mapping[tuple[str, str], int]]
_PROFILES = (NOTHING_LOST, PROCESS_KILL, "ext4-ordered")
"""What crashes may leave, the kindest first."""


def shrink(
    scenario: Scenario,
    finding: Finding,
    *,
    tries_max: int = TRIES_MAX,
    on_try: Callable[[TrialRecord, bool], None] = lambda record, accepted: None,
) -> Finding:
    """Return a smaller run with the same signature, down to a local minimum or until tries_max runs are used up.

    on_try is told of each run whether it was a step ahead. Raises ReplayDivergedError if the finding does not
    reproduce.
    """
    step_limit = min(STEP_LIMIT, 20 * finding.steps + 20_000)  # what takes far longer has got lost
    first = replay(scenario, finding.record).outcome
    if first.signature != finding.signature:
        raise ReplayDivergedError("finding", 0, finding.signature, first.signature or "no failure")
    passed: dict[str, Mapping[tuple[str, str], int]] = dict(first.operations)

    def still_fails(record: TrialRecord) -> TrialRecord | None:
        replayed = replay(scenario, record, step_limit=step_limit)
        if replayed.outcome.signature != finding.signature:
            moved = renumbered(record, replayed)
            if moved == record:
                return None
            replayed = replay(scenario, moved, step_limit=step_limit)
        if replayed.outcome.signature != finding.signature:
            return None
        passed.update(replayed.outcome.operations)
        return replayed.record

    def fails_somehow(record: TrialRecord) -> TrialRecord | None:
        followed = still_fails(record)
        for number in range(SCHEDULES if followed is None else 0):
            policy = draw_policy(Choices(f"schedule {number}").stream("schedule"))
            outcome = replay_otherwise(scenario, record, policy, step_limit=step_limit)
            if outcome.signature == finding.signature:
                return record_of(scenario, outcome)
        return followed

    def search_from(
        start: TrialRecord, test: Callable[[TrialRecord], TrialRecord | None]
    ) -> Search[TrialRecord]:
        return Search(start, test, tries_max=tries_max - tries, on_try=on_try)

    best, before, tries = finding.record, None, 0
    with guard():  # inside of it, the guards of the runs cost next to nothing
        while best != before:
            before = best
            search = search_from(best, still_fails)
            _shrink_each_way(search, passed)
            tries += search.tries
            others = search_from(search.best, fails_somehow)
            _drop_steps(others)
            tries += others.tries
            best = others.best
        is_shrunk = finding.is_shrunk or best != finding.record
        return replace(finding_of(scenario, finding.seed, best), is_shrunk=is_shrunk)


def _shrink_each_way(search: Search[TrialRecord], passed: Operations) -> None:
    before = None
    while before != search.best and not search.is_over:
        before = search.best
        _shrink_crashes(search, passed)
        shrink_decisions(search)  # before the schedule: fewer steps are to blame on the same switches
        shrink_schedule(search)


def _drop_steps(search: Search[TrialRecord]) -> None:
    """Drop steps of the workload; the search may find the failure again under another schedule."""

    def keep(record: TrialRecord, kept: Sequence[Decision]) -> TrialRecord:
        gone = {step for step in record.taken if step not in kept}
        return replace(record, decisions=tuple(other for other in record.decisions if other not in gone))

    search.drop_parts(lambda record: record.taken, keep)


def _shrink_crashes(search: Search[TrialRecord], passed: Operations) -> None:
    """Let lives end more kindly: cleanly, at their end, with less lost, at an earlier operation."""
    for life in [crash.life for crash in search.best.crashes]:
        for kinder in (_endings, _profiles, _moments, partial(_earlier, passed)):
            crash = _crash_of(search.best, life)
            if crash is not None:
                any(search.attempt(_with_crash(search.best, change)) for change in kinder(crash))


def _endings(crash: Crash) -> Iterator[Crash]:
    yield Crash(crash.life, NOTHING_LOST, CrashPhase.AFTER, "")
    yield crash._replace(point="", moment=CrashPhase.AFTER)


def _profiles(crash: Crash) -> Iterator[Crash]:
    for profile in _PROFILES:
        if profile == crash.profile:
            return
        yield crash._replace(profile=profile)
    if crash.profile == TORN_SECTORS:
        yield crash._replace(profile="strict-posix")


def _moments(crash: Crash) -> Iterator[Crash]:
    for moment in (CrashPhase.BEFORE, CrashPhase.AFTER):
        if moment == crash.moment or not crash.point:
            return
        yield crash._replace(moment=moment)


def _earlier(passed: Operations, crash: Crash) -> Iterator[Crash]:
    """Yield crashes at earlier operations, the earliest first."""
    point = crash.point and CrashPoint.parse(crash.point)
    for (kind, path), times in passed.get(crash.life, {}).items():
        for nth in range(1, times + 1):
            earlier = CrashPoint(kind, path, nth)
            if not point or earlier == point:
                return
            yield crash._replace(point=str(earlier))


def _crash_of(record: TrialRecord, life: str) -> Crash | None:
    """Return how a life ends, None if it was left out."""
    return next((crash for crash in record.crashes if crash.life == life), None)


def _with_crash(record: TrialRecord, changed: Crash) -> TrialRecord:
    crashes = tuple(changed if crash.life == changed.life else crash for crash in record.crashes)
    return replace(record, crashes=crashes)

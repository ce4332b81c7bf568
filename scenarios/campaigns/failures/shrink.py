"""Shrinking a failure along its three axes: workload, schedule, and what crashes and faults took.

What counts as the same failure is that the first thing to break is the same: the kind of breach, or only the promise.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any, Literal

from ....sim.errors import ReplayDivergedError
from ....sim.process import CPU_SECONDS_MAX, NoEndInSight, cpu_limit
from ....sim.shrink import Search, shrink_decisions, shrink_schedule
from ...mutants.known import applied_mutant
from ...runs.execution import STEP_LIMIT
from .failing_run import FailingRun, RunRecord
from .failure import Failure
from .replay import breach_of, replay
from .shrink_plan import shrink_crashes, shrink_workload

TRIES_MAX = 4_000
Same = Literal["signature", "invariant"]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A failure with its shrunk run, and what that took."""

    failure: Failure
    tries: int


def shrunk_json(shrunk: Shrunk, seconds: float) -> dict[str, Any]:
    """Return what shrinking came to, as JSON takes it: sizes before and after, and what it took."""
    before, after = shrunk.failure.original, shrunk.failure.smallest
    return {
        "before": asdict(before.size),
        "after": asdict(after.size),
        "digest": after.digest,
        "tries": shrunk.tries,
        "seconds": round(seconds, 3),
    }


def shrink_failure(
    failure: Failure,
    *,
    tries_max: int = TRIES_MAX,
    stop: Callable[[], bool] = lambda: False,
    same: Same = "signature",
    on_try: Callable[[RunRecord, bool], None] = lambda record, accepted: None,
    cpu_seconds_max: float | None = None,
) -> Shrunk:
    """Return the failure with a smaller run, from the smallest it has, under its mutant if it has one.

    stop and on_try are those of `sim.shrink.Search`. With cpu_seconds_max, a run that takes more is taken for one that
    does not fail. Raises ReplayDivergedError if the failure does not reproduce.
    """
    with applied_mutant(failure.mutant):
        start = failure.smallest
        search = Search(
            start.record,
            _still_fails(start, same, cpu_seconds_max),
            tries_max=tries_max,
            stop=stop,
            on_try=on_try,
        )
        search.is_coarse = True
        _shrink_along_each_axis(search)
        search.is_coarse, before = False, None
        while before != search.best and not search.is_over:
            before = search.best
            _shrink_along_each_axis(search)
        return Shrunk(replace(failure, shrunk=breach_of(search.best)), search.tries)


def shrunk_within(failure: Failure, seconds: float) -> Failure:
    """Return a failure made smaller for so long; as it is if it does not reproduce here."""
    began = perf_counter()
    try:
        return shrink_failure(
            failure, stop=lambda: perf_counter() - began > seconds, cpu_seconds_max=CPU_SECONDS_MAX
        ).failure
    except ReplayDivergedError:
        return failure


def _shrink_along_each_axis(search: Search[RunRecord]) -> None:
    shrink_workload(search)
    shrink_schedule(search)
    shrink_crashes(search)
    shrink_decisions(search)


def _still_fails(
    breach: FailingRun, same: Same, cpu_seconds_max: float | None
) -> Callable[[RunRecord], RunRecord | None]:
    wanted = getattr(breach.violations[0], same)
    step_limit = STEP_LIMIT
    if breach.violations[0].invariant != "LIVE":  # what ends by the limit itself must be let to
        step_limit = min(step_limit, 20 * breach.steps + 20_000)

    def still_fails(record: RunRecord) -> RunRecord | None:
        try:
            with cpu_limit(cpu_seconds_max):
                replayed = replay(record, step_limit=step_limit)
        except (Exception, NoEndInSight):  # the harness cannot follow what an edit made: it shows nothing
            return None
        outcome = replayed.outcome
        if not outcome.violations or getattr(outcome.violations[0], same) != wanted:
            return None
        if outcome.messages > breach.size.messages:  # it breaks, but later
            return None
        return replayed.record

    return still_fails

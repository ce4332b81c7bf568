"""Shrinking of failures: reduces workload, schedule, crashes and lost data.

A smaller run is the same failure if its first violation has the same signature. With same="invariant", the same
invariant is enough.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any, Literal

from ....faults.simulation.shrink import RecordShrinker
from ....sim.errors import ReplayDivergedError
from ....sim.process import STALL_SECONDS
from ....sim.shrink import shrink_decisions, shrink_schedule
from ...mutants.known import applied_mutant
from .failure import Failure, RunRecord
from .parts import needed_parts
from .replay import RunReplay, run_plan, verified_run
from .shrink_plan import shrink_lives, shrink_workload

TRIES_MAX = 4_000
Same = Literal["signature", "invariant"]


@dataclass(frozen=True, slots=True)
class ShrunkFailure:
    """A shrunk failure, and the number of tried runs."""

    failure: Failure
    tries: int


def shrunk_json(shrunk: ShrunkFailure, seconds: float) -> dict[str, Any]:
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
    stall_seconds: float | None = None,
) -> ShrunkFailure:
    """Shrink a failure further, starting from its smallest run, with its mutant applied.

    stop, on_try and stall_seconds: see `RecordShrinker`. Raises ReplayDivergedError if the failure does not
    reproduce.
    """
    start = failure.smallest
    expected = getattr(start.violations[0], same)

    def is_same(replayed: RunReplay) -> bool:
        outcome = replayed.result
        if not outcome.violations or getattr(outcome.violations[0], same) != expected:
            return False
        return outcome.messages <= start.size.messages  # with more messages, the violation may occur later

    with applied_mutant(failure.mutant):
        shrinker = RecordShrinker(
            run_plan,
            is_same,
            steps=start.steps,
            has_limit=start.violations[0].invariant != "LIVE",  # a violation of LIVE (progress) may need the full limit
            stall_seconds=stall_seconds,
        )
        axes = (shrink_workload, shrink_schedule, shrink_lives, shrinker.shrink_crashes, shrink_decisions)
        search = shrinker.shrink(start.record, axes, tries_max=tries_max, coarsely_first=True, stop=stop, on_try=on_try)
        shrunk = verified_run(search.best)
        if search.tries:  # a search that was stopped at once is an interruption
            shrunk = replace(shrunk, parts=needed_parts(shrunk.record, shrunk.signature, shrinker.step_limit))
        return ShrunkFailure(replace(failure, shrunk=shrunk), search.tries)


def shrink_for_seconds(failure: Failure, seconds: float) -> Failure:
    """Shrink a failure for a limited time. A failure that does not reproduce on this machine is returned unchanged."""
    began = perf_counter()
    try:
        return shrink_failure(
            failure, stop=lambda: perf_counter() - began > seconds, stall_seconds=STALL_SECONDS
        ).failure
    except ReplayDivergedError:
        return failure

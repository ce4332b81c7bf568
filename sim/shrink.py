"""Shrinking: reduces a failing run to a local minimum that fails in the same way.

A run is a function of its decisions, so shrinking edits the decisions and runs the program again. Any subset of
decisions is valid: a replay returns the plain outcome for a missing draw, and follows the default schedule at a missing
deviation. Edited inputs or traces of the program could be invalid.

The test of a candidate makes one run. If the run fails in the same way, the test returns the decisions that the run
used, so decisions without effect disappear. The test defines "the same way": with a too strict test, shrinking stops
early; with a too loose test, it may end at another bug.

Three steps repeat until no step makes the run smaller:

    1. drop switches of the schedule, preemptions first, because they are the hardest part to understand
    2. drop whole streams of draws, then single draws (delta debugging: large chunks first, then smaller ones)
    3. lower the values of the remaining draws by bisection

In the result, no single part can be dropped, but two parts together may be. The number of tries limits the cost. The
search is deterministic unless `stop` reads a clock.

Source: Zeller, Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 2002.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from .choices import Decision
from .schedule import TaskSwitch

_VALUE_STEPS_MAX = 6  # runs per bisection, because 1/64 of the range is precise enough
_COARSE_PARTS = 8  # the smallest chunk of a coarse search is 1/8 of the parts


@dataclass(frozen=True, slots=True)
class RunDecisions:
    """The decisions of a run: draws other than 0, and deviations from the default schedule."""

    decisions: tuple[Decision, ...]
    schedule: tuple[TaskSwitch, ...]


C = TypeVar("C", bound=Hashable)
D = TypeVar("D", bound=RunDecisions)
P = TypeVar("P")


class ShrinkSearch(Generic[C]):
    """A search for a smaller candidate. `best` is the smallest so far.

    still_fails returns the record of the candidate's run, None if the run does not fail in the same way. stop is called
    before each try, and ends the search by returning True. on_try is called after each try with the candidate and
    whether it fails.
    """

    def __init__(
        self,
        start: C,
        still_fails: Callable[[C], C | None],
        *,
        tries_max: int,
        stop: Callable[[], bool] = lambda: False,
        on_try: Callable[[C, bool], None] = lambda candidate, accepted: None,
    ) -> None:
        self.best = start
        self.tries = 0
        self.is_coarse = False
        """Whether to drop only large chunks of parts."""
        self._still_fails = still_fails
        self._tries_max = tries_max
        self._stop = stop
        self._on_try = on_try
        self._seen = {start}
        self._has_stopped = False

    @property
    def is_over(self) -> bool:
        if not self._has_stopped:
            self._has_stopped = self.tries >= self._tries_max or self._stop()
        return self._has_stopped

    def attempt(self, candidate: C) -> bool:
        if candidate in self._seen or self.is_over:
            return False
        self._seen.add(candidate)
        self.tries += 1
        followed = self._still_fails(candidate)
        if followed is not None:
            self.best = followed
            self._seen.add(followed)
        self._on_try(candidate, followed is not None)
        return followed is not None

    def continue_with_test(
        self, still_fails: Callable[[C], C | None], shrink_on: Callable[["ShrinkSearch[C]"], None]
    ) -> None:
        """Continue from the best candidate with another test, without resetting the number of tries."""
        others = ShrinkSearch(self.best, still_fails, tries_max=self._tries_max, stop=self._stop, on_try=self._on_try)
        others.tries = self.tries
        shrink_on(others)
        self.best, self.tries = others.best, others.tries

    def drop_parts(self, parts: Callable[[C], Sequence[P]], keeping: Callable[[C, Sequence[P]], C]) -> None:
        """Drop parts of the best candidate until no part can be dropped alone.

        keeping(candidate, some) returns the candidate with only the parts in `some`.
        """
        left = list(parts(self.best))
        if left and self.attempt(keeping(self.best, ())):
            left = list(parts(self.best))
        chunk = (len(left) + 1) // 2
        least = max(1, len(left) // _COARSE_PARTS) if self.is_coarse else 1
        while left and chunk >= least and not self.is_over:
            has_dropped = False
            end = len(left)  # from the end, because later parts depend on earlier parts
            while end > 0 and not self.is_over:
                start = max(0, end - chunk)
                if self.attempt(keeping(self.best, left[:start] + left[end:])):
                    left = list(parts(self.best))
                    has_dropped = True
                end = min(start, len(left))
            if chunk == 1 and not has_dropped:
                return
            chunk = max(min(chunk // 2, len(left)), 0 if self.is_coarse else 1)

    def lower_value(self, value: int, least: int, with_value: Callable[[C, int], C], *, steps_max: int = 64) -> None:
        """Lower a number of the best candidate to least, otherwise by bisection."""
        if value <= least or self.attempt(with_value(self.best, least)):
            return
        refused = least
        for _ in range(steps_max):
            if value - refused <= 1 or self.is_over:
                return
            middle = (value + refused) // 2
            if self.attempt(with_value(self.best, middle)):
                value = middle
            else:
                refused = middle


def shrink(search: ShrinkSearch[D]) -> D:
    """Shrink schedule and draws until neither gets smaller. Returns the best candidate."""
    before = None
    while before != search.best and not search.is_over:
        before = search.best
        shrink_schedule(search)
        shrink_decisions(search)
    return search.best


def shrink_schedule(search: ShrinkSearch[D]) -> None:

    def keep_preemptions(candidate: D, kept: Sequence[TaskSwitch]) -> D:
        some = set(kept)
        left = (switch for switch in candidate.schedule if not switch.is_preemption or switch in some)
        return replace(candidate, schedule=tuple(left))

    if search.attempt(replace(search.best, schedule=())):
        return
    search.drop_parts(
        lambda candidate: [switch for switch in candidate.schedule if switch.is_preemption], keep_preemptions
    )
    search.drop_parts(
        lambda candidate: candidate.schedule, lambda candidate, kept: replace(candidate, schedule=tuple(kept))
    )


def shrink_decisions(search: ShrinkSearch[D]) -> None:

    def streams(candidate: D) -> list[str]:
        return sorted({decision.stream for decision in candidate.decisions})

    def keep_streams(candidate: D, kept: Sequence[str]) -> D:
        decisions = tuple(decision for decision in candidate.decisions if decision.stream in kept)
        return replace(candidate, decisions=decisions)

    search.drop_parts(streams, keep_streams)
    search.drop_parts(
        lambda candidate: candidate.decisions, lambda candidate, kept: replace(candidate, decisions=tuple(kept))
    )
    for decision in search.best.decisions:
        search.lower_value(decision.value, 0, _value_editor(decision), steps_max=_VALUE_STEPS_MAX)


def _value_editor(decision: Decision) -> Callable[[D, int], D]:
    def replace_value(candidate: D, value: int) -> D:
        decisions = [
            other._replace(value=value) if other[:3] == decision[:3] else other for other in candidate.decisions
        ]
        return replace(candidate, decisions=tuple(other for other in decisions if other.value))

    return replace_value

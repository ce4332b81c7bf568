"""Shrinking: of a run that fails, the smaller run that still fails the same way, down to a local minimum.

What decides a run is edited, not the run: draws become plain, deviations from the default schedule are dropped, chunks
first and then one by one (delta debugging: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input,
IEEE TSE 2002), and what cannot be plain is made as small as bisection finds. A test says of each candidate whether it
still fails, and if so, what record it really followed, which the search goes on from. The search is deterministic as
long as it ends by its number of tries rather than by its caller's clock.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from .choices import Decision
from .schedule import Switch

_VALUE_STEPS_MAX = 6  # of bisection, each of which is a run: a 64th of the way is close enough
_COARSE_PARTS = 8  # an eighth is the smallest chunk while there are other large things to drop


@dataclass(frozen=True, slots=True)
class Decided:
    """What decides a run: draws that are not plain, and deviations from the default schedule."""

    decisions: tuple[Decision, ...]
    schedule: tuple[Switch, ...]


C = TypeVar("C", bound=Hashable)
D = TypeVar("D", bound=Decided)
P = TypeVar("P")


class Search(Generic[C]):
    """A search for a smaller candidate. `best` is the smallest so far, `tries` how many tests that took.

    still_fails returns the record that a candidate's run followed, None if it does not fail the same way any more.
    stop is asked before each try whether the caller has had enough; on_try is called after each with whether it was a
    step ahead.
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
        """Whether parts are dropped in large chunks only, as is wise while there are other large things to drop."""
        self._still_fails = still_fails
        self._tries_max = tries_max
        self._stop = stop
        self._on_try = on_try
        self._seen = {start}
        self._has_stopped = False

    @property
    def is_over(self) -> bool:
        """Return whether the budget is used up."""
        if not self._has_stopped:
            self._has_stopped = self.tries >= self._tries_max or self._stop()
        return self._has_stopped

    def attempt(self, candidate: C) -> bool:
        """Return whether a candidate still fails, and go on from it then. One that was tried before is not, again."""
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

    def try_otherwise(self, still_fails: Callable[[C], C | None], shrink_on: Callable[["Search[C]"], None]) -> None:
        """Go on from the best with another test, on the same budget: also with what failed the first test."""
        others = Search(self.best, still_fails, tries_max=self._tries_max, stop=self._stop, on_try=self._on_try)
        others.tries = self.tries
        shrink_on(others)
        self.best, self.tries = others.best, others.tries

    def drop_parts(self, parts: Callable[[C], Sequence[P]], keeping: Callable[[C, Sequence[P]], C]) -> None:
        """Drop as many parts of the best candidate as possible: in the end none of them can go alone.

        keeping(candidate, some) returns the candidate with some of its parts only.
        """
        left = list(parts(self.best))
        if left and self.attempt(keeping(self.best, ())):
            left = list(parts(self.best))
        chunk = (len(left) + 1) // 2
        least = max(1, len(left) // _COARSE_PARTS) if self.is_coarse else 1
        while left and chunk >= least and not self.is_over:
            has_dropped = False
            end = len(left)  # from the end: what comes last depends on the rest
            while end > 0 and not self.is_over:
                start = max(0, end - chunk)
                if self.attempt(keeping(self.best, left[:start] + left[end:])):
                    left = list(parts(self.best))
                    has_dropped = True
                end = min(start, len(left))
            if chunk == 1 and not has_dropped:
                return
            chunk = max(min(chunk // 2, len(left)), 0 if self.is_coarse else 1)

    def lower(self, value: int, least: int, with_value: Callable[[C, int], C], *, steps_max: int = 64) -> None:
        """Lower a number of the best candidate: to least if that goes, else as far as bisection finds."""
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


def shrink(search: Search[D]) -> D:
    """Shrink schedule and decisions until neither gets any smaller, or the budget is used up. Returns the best."""
    before = None
    while before != search.best and not search.is_over:
        before = search.best
        shrink_schedule(search)
        shrink_decisions(search)
    return search.best


def shrink_schedule(search: Search[D]) -> None:
    """Drop deviations from the default schedule: preemptions first, then any."""

    def keep_preemptions(candidate: D, kept: Sequence[Switch]) -> D:
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


def shrink_decisions(search: Search[D]) -> None:
    """Make draws plain, whole streams first, then one by one, then as small as they can be."""

    def streams(candidate: D) -> list[str]:
        return sorted({decision.stream for decision in candidate.decisions})

    def keep_streams(candidate: D, kept: Sequence[str]) -> D:
        decisions = tuple(decision for decision in candidate.decisions if decision.stream in kept)
        return replace(candidate, decisions=decisions)

    search.drop_parts(streams, keep_streams)
    search.drop_parts(
        lambda candidate: candidate.decisions,
        lambda candidate, kept: replace(candidate, decisions=tuple(kept)),
    )
    for decision in search.best.decisions:
        search.lower(decision.value, 0, _with_value(decision), steps_max=_VALUE_STEPS_MAX)


def _with_value(decision: Decision) -> Callable[[D, int], D]:
    """Return how a candidate becomes one in which a decision has another value; 0 leaves it out."""

    def edit(candidate: D, value: int) -> D:
        decisions = [
            other._replace(value=value) if other[:3] == decision[:3] else other for other in candidate.decisions
        ]
        return replace(candidate, decisions=tuple(other for other in decisions if other.value))

    return edit

"""Deviating: the default schedule but for a few deviations, each counted from the last one.

The default schedule lets each task run until it blocks; the next is then the one that has been runnable for longest.
A deviation (points, other) comes after so many points at which another task could have run, and lets one of the others
run there. So a list of them can be cut and its numbers be lowered, and it stays a schedule of whatever code there is:
the empty one is the plainest. Made for whoever draws and shrinks schedules as plain data.
"""

from collections.abc import Sequence

from ..task import SimTask
from .replay import ENDLESS, default_choice

Deviation = tuple[int, int]
"""Points passed since the last deviation at which several tasks could run; number of the other task that runs then."""


class Deviating:
    """Invariant: the first `_taken` deviations have happened, and `_wait` points are to be passed before the next."""

    name = "deviating"
    interrupts_on_wake = False

    def __init__(self, deviations: Sequence[Deviation] = ()) -> None:
        if any(points < 0 or other < 0 for points, other in deviations):
            raise ValueError(f"deviations: expected numbers from 0 on, found {list(deviations)}")
        self._deviations = tuple(deviations)
        self._taken = 0
        self._wait = deviations[0][0] if deviations else 0

    def __repr__(self) -> str:
        return f"Deviating({list(self._deviations)})"

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the default, or one of the others where a deviation is due."""
        default = default_choice(runnable, current, label)
        if self._taken == len(self._deviations):
            return default
        if self._wait:
            self._wait -= 1
            return default
        other = self._deviations[self._taken][1]
        self._taken += 1
        if self._taken < len(self._deviations):
            self._wait = self._deviations[self._taken][0]
        return (default + 1 + other % (len(runnable) - 1)) % len(runnable)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing, to be asked at every point; once nothing is left to happen, everything."""
        return 0 if self._taken < len(self._deviations) else ENDLESS

"""Replay: follow a labelled schedule as far as it fits, and keep what does not.

At every point it has no entry for, or one that names nobody who could run, it does what the default schedule does.
So it follows a record of other code as well, and a person's.
"""

from collections.abc import Sequence

from ..schedule import FORCED, Switch
from ..task import SimTask
from .points import PointCounter

ENDLESS = 1 << 40
"""More points than any run passes."""


class Replay:
    """Invariant: `_left` has the entries that have not happened, by place."""

    name = "replay"
    interrupts_on_wake = False

    def __init__(self, schedule: Sequence[Switch] = ()) -> None:
        self._left = {entry[:3]: entry for entry in schedule}
        self._points = PointCounter()
        self.followed: list[Switch] = []
        """The entries that have happened, in that order."""

    @property
    def unmet(self) -> list[Switch]:
        """Return the entries that have not happened: nobody came to stand there, or who was chosen could not run."""
        return list(self._left.values())

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return who the schedule says, or else who was there first: the one that runs, or has waited longest."""
        place = self._points.pass_point(current, label)
        entry = self._left.get(place)
        if entry is not None:
            for index, task in enumerate(runnable):
                if task.name == entry.chosen:
                    del self._left[place]
                    self.followed.append(entry)
                    return index
        return default_choice(runnable, current, label)

    def alone(self, current: SimTask, label: str) -> None:
        """Count a point at which there is nothing to choose."""
        self._points.pass_point(current, label)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing, to be asked at every point; once nothing is left to follow, everything."""
        return 0 if self._left else ENDLESS


def default_choice(runnable: Sequence[SimTask], current: SimTask | None, label: str) -> int:
    """Return who runs next under the default schedule: current if it can go on, else who has been runnable longest."""
    return 0 if current is None or label.startswith(FORCED) else runnable.index(current)

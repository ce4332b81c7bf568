"""Replay policies: the default schedule but for given deviations.

The default schedule lets each task run until it blocks; the next is then the one that has been runnable for longest.

    Replay      deviates where a labelled schedule says; keeps what does not fit, so it follows records of other code
    Labelling   follows the kernel's own record, which counts points, and says it in labels that outlive other code
    Deviating   deviates at plain numbers, each counted from the last one, for whoever draws and shrinks plain data
"""

from collections.abc import Sequence
from typing import Any

from ..errors import ReplayDivergedError
from ..machine import SimTask
from ..schedule import FORCED, Switch
from . import ENDLESS

_NOBODY = "outside"
Deviation = tuple[int, int]
"""Points passed since the last deviation at which several tasks could run; number of the other task that runs then."""


def default_choice(runnable: Sequence[SimTask], current: SimTask | None, label: str) -> int:
    """Return who runs next under the default schedule: current if it can go on, else who has been runnable longest."""
    return 0 if current is None or label.startswith(FORCED) else runnable.index(current)


class PointCounter:
    """Names the points of a run so that the names outlive other code: which task, before what, which occurrence."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], int] = {}

    def pass_point(self, current: SimTask | None, label: str) -> tuple[str, str, int]:
        """Count one point and return its name: task, label, and the number from 1."""
        key = (_NOBODY if current is None else current.name, label)
        nth = self._times[key] = self._times.get(key, 0) + 1
        return (*key, nth)


class Replay:
    """Follows a labelled schedule as far as it fits, and keeps what does not.

    Invariant: `_left` has the entries that have not happened, by place.
    """

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

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        """Count a point at which there is nothing to choose."""
        self._points.pass_point(current, label)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing, to be asked at every point; once nothing is left to follow, everything."""
        return 0 if self._left else ENDLESS


class Labelling:
    """Follows a record of `Kernel.schedule`. Is asked at every point, as the policy that made it need not have been.

    Invariant: `_followed` entries of the record have happened, the last of them at step `_last_step`.
    """

    name = "labelling"
    interrupts_on_wake = False

    def __init__(self, record: Sequence[Sequence[Any]]) -> None:
        self._record = record
        self._followed = 0
        self._last_step = 0
        self._points = PointCounter()
        self.labelled: list[Switch] = []
        """What has happened so far, in labels."""

    @property
    def left(self) -> int:
        """How many recorded switches have not happened yet: 0 once the run is over."""
        return len(self._record) - self._followed

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return who ran next; ReplayDivergedError if this is not the run that was recorded."""
        place = self._points.pass_point(current, label)
        default = default_choice(runnable, current, label)
        chosen = self._recorded(runnable, label, step)
        if chosen is None:
            return default
        if chosen != default:
            self.labelled.append(Switch(*place, runnable[chosen].name))
        return chosen

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        """Count a point at which there was nothing to choose."""
        self._points.pass_point(current, label)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing: be asked at every point, for a label counts each of its occurrences."""
        return 0

    def _recorded(self, runnable: Sequence[SimTask], label: str, step: int) -> int | None:
        """Return who the record says runs next, None if it says nothing of this point, as of most."""
        is_forced = label.startswith(FORCED)
        points = step - self._last_step
        assert points >= 0, (step, self._last_step)
        if not self.left:
            if is_forced:
                raise ReplayDivergedError("schedule", self._followed, "the end", (points, label))
            return None
        entry = self._record[self._followed]
        may_come_yet = points < entry[0] or (points == entry[0] and label != entry[1])
        if may_come_yet and not is_forced:  # a task that blocks has just passed a point, at the same step
            return None
        names = [task.name for task in runnable]
        if (points, label) != tuple(entry[:2]) or entry[2] not in names:
            raise ReplayDivergedError("schedule", self._followed, tuple(entry), (points, label, names))
        self._followed += 1
        self._last_step = step
        return names.index(entry[2])


class Deviating:
    """Takes deviations (points, other): after so many points at which another task could run, one of the others does.

    A list of them can be cut and its numbers be lowered, and it stays a schedule of whatever code there is: the empty
    one is the plainest.

    Invariant: the first `_taken` deviations have happened, and `_wait` points are to be passed before the next.
    """

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
        assert len(runnable) > 1, len(runnable)
        default = default_choice(runnable, current, label)
        if self._taken == len(self._deviations):
            return default
        if self._wait:
            self._wait -= 1
            return default
        # `other` counts the tasks without the default, because choosing the default would be no deviation.
        other = self._deviations[self._taken][1]
        self._taken += 1
        if self._taken < len(self._deviations):
            self._wait = self._deviations[self._taken][0]
        return (default + 1 + other % (len(runnable) - 1)) % len(runnable)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing, to be asked at every point; once nothing is left to happen, everything."""
        return 0 if self._taken < len(self._deviations) else ENDLESS

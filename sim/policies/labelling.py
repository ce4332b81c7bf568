"""Labelling: follow the kernel's own record of a schedule point by point, and tell it in labels.

The kernel's record counts points, which any change of the code shifts; `labelled` says the same as deviations from the
default schedule. This policy is asked at every point, the one that made the record need not have been.
"""

from collections.abc import Sequence
from typing import Any

from ..errors import ReplayDivergedError
from ..schedule import FORCED, Switch
from ..task import SimTask
from .points import PointCounter
from .replay import default_choice


class Labelling:
    """Invariant: `_followed` entries of the record have happened, the last of them at step `_last_step`."""

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

    def alone(self, current: SimTask, label: str) -> None:
        """Count a point at which there was nothing to choose."""
        self._points.pass_point(current, label)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing: be asked at every point."""
        return 0

    def _recorded(self, runnable: Sequence[SimTask], label: str, step: int) -> int | None:
        """Return who the record says runs next, None if it says nothing of this point, as of most."""
        is_forced = label.startswith(FORCED)
        points = step - self._last_step
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

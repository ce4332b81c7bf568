"""Replay: follow a recorded schedule switch by switch, and say which one no longer exists."""

from collections.abc import Sequence
from typing import Any

from ..errors import ReplayDivergedError
from ..task import SimTask

_FOR_GOOD = 1 << 60


class Replay:
    """Invariant: `_followed` entries of the schedule have happened, the last of them at step `_last_step`."""

    name = "replay"
    interrupts_on_wake = False

    def __init__(self, schedule: Sequence[Sequence[Any]]) -> None:
        self._schedule = schedule
        self._followed = 0
        self._last_step = 0

    @property
    def left(self) -> int:
        """How many recorded switches have not happened yet: 0 after a complete replay."""
        return len(self._schedule) - self._followed

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the recorded task; ReplayDivergedError if points or label differ, or it is not runnable."""
        found = (step - self._last_step, label)
        names = [task.name for task in runnable]
        if self.left == 0:
            raise ReplayDivergedError("schedule", self._followed, "the end", (*found, names))
        points, recorded_label, name = self._schedule[self._followed]
        if found != (points, recorded_label) or name not in names:
            raise ReplayDivergedError(
                "schedule", self._followed, (points, recorded_label, name), (*found, names)
            )
        self._followed += 1
        self._last_step = step
        return names.index(name)

    def stretch(self, chosen: SimTask, step: int) -> int:
        """Grant everything up to the next recorded switch."""
        if self.left == 0:
            return _FOR_GOOD
        points, label, _ = self._schedule[self._followed]
        to_go = self._last_step + int(points) - step
        # A forced switch comes by itself after the last point; a chosen one has to be asked for.
        return max(0, to_go if label.startswith("~") else to_go - 1)

"""Replay policies: follow the default schedule, with given deviations.

In the default schedule each task runs until it blocks, and the next task is the one that became runnable first.

    ReplayPolicy      deviates at the entries of a labelled schedule; reports entries that no longer fit the code
    LabellingPolicy   follows the kernel's record, which counts points; writes it in labels that survive changes of code
    DeviatingPolicy   deviates after given numbers of points, which are easy to draw and to shrink
"""

from collections.abc import Sequence
from typing import Any

from ..errors import ReplayDivergedError
from ..machine import SimTask
from ..schedule import FORCED, TaskSwitch
from . import ENDLESS

_NO_TASK = "outside"
Deviation = tuple[int, int]
"""(contested points since the last deviation, number of the other task to run).

Several tasks can run at a contested point.
"""


def default_choice(runnable: Sequence[SimTask], current: SimTask | None, label: str) -> int:
    return 0 if current is None or label.startswith(FORCED) else runnable.index(current)


class PointCounter:
    """Names each point by task, label and occurrence. These names survive changes of the code."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], int] = {}

    def count_point(self, current: SimTask | None, label: str) -> tuple[str, str, int]:
        key = (_NO_TASK if current is None else current.name, label)
        nth = self._times[key] = self._times.get(key, 0) + 1
        return (*key, nth)


class ReplayPolicy:
    """Follows a labelled schedule. Invariant: `_left` contains the entries that have not happened, by their point."""

    name = "replay"
    interrupts_on_wake = False

    def __init__(self, schedule: Sequence[TaskSwitch] = ()) -> None:
        self._left = {entry[:3]: entry for entry in schedule}
        self._points = PointCounter()
        self.followed: list[TaskSwitch] = []

    @property
    def unused_switches(self) -> list[TaskSwitch]:
        """Return entries that have not happened: the run missed the point, or the task was not runnable."""
        return list(self._left.values())

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        place = self._points.count_point(current, label)
        entry = self._left.get(place)
        if entry is not None:
            for index, task in enumerate(runnable):
                if task.name == entry.chosen:
                    del self._left[place]
                    self.followed.append(entry)
                    return index
        return default_choice(runnable, current, label)

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        self._points.count_point(current, label)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant 0 points while an entry is left, because `choose_task` must count every point."""
        return 0 if self._left else ENDLESS


class LabellingPolicy:
    """Follows a record of `Kernel.schedule`, and writes it again with labels.

    The kernel calls LabellingPolicy at every point, unlike the recorded policy. Invariant: the first `_followed`
    entries of the record have happened, the last of them at step `_last_step`.
    """

    name = "labelling"
    interrupts_on_wake = False

    def __init__(self, record: Sequence[Sequence[Any]]) -> None:
        self._record = record
        self._followed = 0
        self._last_step = 0
        self._points = PointCounter()
        self.labelled: list[TaskSwitch] = []

    @property
    def remaining_switches(self) -> int:
        return len(self._record) - self._followed

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Choose the recorded task. Raises ReplayDivergedError if this run differs from the record."""
        place = self._points.count_point(current, label)
        default = default_choice(runnable, current, label)
        chosen = self._recorded_choice(runnable, label, step)
        if chosen is None:
            return default
        if chosen != default:
            self.labelled.append(TaskSwitch(*place, runnable[chosen].name))
        return chosen

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        self._points.count_point(current, label)

    def quantum(self, chosen: SimTask, step: int) -> int:
        return 0

    def _recorded_choice(self, runnable: Sequence[SimTask], label: str, step: int) -> int | None:
        is_forced = label.startswith(FORCED)
        points = step - self._last_step
        assert points >= 0, (step, self._last_step)
        if not self.remaining_switches:
            if is_forced:
                raise ReplayDivergedError("schedule", self._followed, "the end", (points, label))
            return None
        entry = self._record[self._followed]
        may_come_yet = points < entry[0] or (points == entry[0] and label != entry[1])
        if may_come_yet and not is_forced:  # a task that blocks has already passed a point at this step
            return None
        names = [task.name for task in runnable]
        if (points, label) != tuple(entry[:2]) or entry[2] not in names:
            raise ReplayDivergedError("schedule", self._followed, tuple(entry), (points, label, names))
        self._followed += 1
        self._last_step = step
        return names.index(entry[2])


class DeviatingPolicy:
    """Follows deviations (points, other): after `points` contested points, one of the other tasks runs.

    Any part of a list of deviations, also with smaller numbers, is valid for any code. An empty list is the default
    schedule.

    Invariant: the first `_taken` deviations have happened, and `_wait` points remain before the next deviation.
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
        return f"DeviatingPolicy({list(self._deviations)})"

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        assert len(runnable) > 1, len(runnable)
        default = default_choice(runnable, current, label)
        if self._taken == len(self._deviations):
            return default
        if self._wait:
            self._wait -= 1
            return default
        # `other` counts the tasks without the default task, which would be no deviation.
        other = self._deviations[self._taken][1]
        self._taken += 1
        if self._taken < len(self._deviations):
            self._wait = self._deviations[self._taken][0]
        return (default + 1 + other % (len(runnable) - 1)) % len(runnable)

    def quantum(self, chosen: SimTask, step: int) -> int:
        return 0 if self._taken < len(self._deviations) else ENDLESS

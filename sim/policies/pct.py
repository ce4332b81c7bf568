"""PCT: finds a bug of a given depth with a known minimum probability.

Each task gets a random priority when it first becomes runnable. The runnable task with the highest priority runs. At
depth - 1 random steps within the horizon, the priority of the running task drops below all others. One run finds a bug
of this depth with a probability of at least 1 / (tasks * horizon ** (depth - 1)). A task that spins instead of waiting
starves the others until the step limit.

Source: Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010.
"""

from collections.abc import Sequence
from typing import Protocol

from ..choices import Stream
from . import ENDLESS


class Numbered(Protocol):
    """A simulated task, or a thread of a recorded program."""

    number: int


class PCTPolicy:
    """The PCT policy. Invariant: `_change_steps` contains the steps of later priority drops, in descending order."""

    name = "pct"
    interrupts_on_wake = True

    def __init__(self, stream: Stream, depth: int, horizon_steps: int) -> None:
        if depth < 1 or horizon_steps < 1:
            found = f"{depth} and {horizon_steps}"
            raise ValueError(f"depth and horizon_steps: expected at least 1, found {found}")
        self._draw = stream.raw_random
        steps = (1 + int(self._draw() * horizon_steps) for _ in range(depth - 1))
        self._change_steps = sorted(steps, reverse=True)
        self._priorities: dict[int, float] = {}  # by task number: at first from 1 to 2, negative after a drop

    def choose_task(self, runnable: Sequence[Numbered], current: Numbered | None, label: str, step: int) -> int:
        if current is not None:
            self._drop_priority_if_due(current, step)
        priorities = [self._task_priority(task) for task in runnable]
        return priorities.index(max(priorities))

    def quantum(self, chosen: Numbered, step: int) -> int:
        self._drop_priority_if_due(chosen, step)
        if not self._change_steps:
            return ENDLESS
        granted = self._change_steps[-1] - step - 1
        assert granted >= 0, (self._change_steps[-1], step)
        return granted

    def _task_priority(self, task: Numbered) -> float:
        priority = self._priorities.get(task.number)
        if priority is None:
            priority = self._priorities[task.number] = 1.0 + self._draw()
        return priority

    def _drop_priority_if_due(self, running: Numbered, step: int) -> None:
        while self._change_steps and self._change_steps[-1] <= step:
            self._change_steps.pop()
            # Each drop gives a lower priority than all earlier drops.
            fallen = sum(1 for priority in self._priorities.values() if priority < 0.0)
            self._priorities[running.number] = -1.0 - fallen

"""StarvingPolicy: wraps a policy, and sometimes does not run one task for a while.

Unfair schedulers starve tasks, and busy machines starve tasks of low priority. Draws are not recorded, because a replay
uses the recorded schedule instead of this policy.
"""

from collections import Counter
from collections.abc import Sequence

from ..choices import Stream
from ..machine import SimTask
from . import Policy

STARVED_TASK = "starved task"


class StarvingPolicy:
    """Starves one task at a time.

    Invariant: from step `_begin` to `_end`, `_victim` does not run while another task can run. The inner policy chooses
    among the other tasks; its argument `current` may be the victim.
    """

    def __init__(self, stream: Stream, policy: Policy, mean_gap_steps: int, steps_max: int) -> None:
        if mean_gap_steps < 1 or steps_max < 1:
            found = f"{mean_gap_steps} and {steps_max}"
            raise ValueError(f"mean_gap_steps and steps_max: expected at least 1, found {found}")
        self.name = f"starving {policy.name}"
        self.interrupts_on_wake = policy.interrupts_on_wake
        self.injected: Counter[str] = Counter()
        self._draw = stream.raw_random
        self._policy = policy
        self._mean_gap_steps = mean_gap_steps
        self._steps_max = steps_max
        self._victim: SimTask | None = None
        self._is_counted = False
        self._begin = self._end = 0
        self._draw_next_period(0)

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        self._draw_next_period(step)
        if step < self._begin:
            return self._policy.choose_task(runnable, current, label, step)
        if self._victim is None or self._victim.ended:
            # The victim is drawn now, because a task drawn earlier might not be runnable in this period.
            self._victim = runnable[int(self._draw() * len(runnable))]
            self._is_counted = False
        others = [index for index, task in enumerate(runnable) if task is not self._victim]
        if len(others) < len(runnable) and not self._is_counted:
            self._is_counted = True
            self.injected[STARVED_TASK] += 1
        if len(others) == 1:
            return others[0]  # `choose_task` requires two or more tasks
        return others[self._policy.choose_task([runnable[index] for index in others], current, label, step)]

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Return the inner policy's quantum, which ends before the next period. The victim gets 0."""
        granted = self._policy.quantum(chosen, step)
        self._draw_next_period(step)
        if step < self._begin:
            return min(granted, self._begin - step - 1)
        return 0 if chosen is self._victim else granted

    def _draw_next_period(self, step: int) -> None:
        if step < self._end:
            return
        self._victim = None
        self._begin = step + 1 + int(self._draw() * 2 * self._mean_gap_steps)
        self._end = self._begin + 1 + int(self._draw() * self._steps_max)
        assert step < self._begin < self._end, (step, self._begin, self._end)

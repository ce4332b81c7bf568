"""Starving: another policy's choices, but now and then one task gets to run only when no other can.

So does a scheduler that is unfair, or a task of low priority on a busy machine, for as long as that lasts. What is
chosen is part of the schedule's record, so a replay needs no starving; the draws are not recorded.
"""

from collections import Counter
from collections.abc import Sequence

from ..choices import Stream
from ..machine import SimTask
from . import Policy

STARVED_TASK = "starved task"


class Starving:
    """Invariant: between `_begin` and `_end`, counted in steps, `_victim` is passed over, once it has been drawn.

    The policy within is asked about the others; the task that ran last, which it is given, need not be among them.
    """

    def __init__(self, stream: Stream, policy: Policy, mean_gap_steps: int, steps_max: int) -> None:
        if mean_gap_steps < 1 or steps_max < 1:
            found = f"{mean_gap_steps} and {steps_max}"
            raise ValueError(f"mean_gap_steps and steps_max: expected at least 1, found {found}")
        self.name = f"starving {policy.name}"
        self.interrupts_on_wake = policy.interrupts_on_wake
        self.injected: Counter[str] = Counter()
        """How often a task that could have run was starved."""
        self._draw = stream.raw_random
        self._policy = policy
        self._mean_gap_steps = mean_gap_steps
        self._steps_max = steps_max
        self._victim: SimTask | None = None
        self._has_suffered = False
        self._begin = self._end = 0
        self._go_on(0)

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return what the policy chooses from all but the one that starves."""
        self._go_on(step)
        if step < self._begin:
            return self._policy.choose(runnable, current, label, step)
        if self._victim is None or self._victim.ended:
            # Drawn late, from those who can run now: one drawn ahead might never have come to a choice.
            self._victim = runnable[int(self._draw() * len(runnable))]
            self._has_suffered = False
        others = [index for index, task in enumerate(runnable) if task is not self._victim]
        if len(others) < len(runnable) and not self._has_suffered:
            self._has_suffered = True
            self.injected[STARVED_TASK] += 1
        if len(others) == 1:
            return others[0]  # a policy may only be asked if there is a choice
        return others[self._policy.choose([runnable[index] for index in others], current, label, step)]

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Return what the policy grants, up to the next change; the one that starves is granted nothing."""
        granted = self._policy.quantum(chosen, step)
        self._go_on(step)
        if step < self._begin:
            return min(granted, self._begin - step - 1)
        return 0 if chosen is self._victim else granted

    def _go_on(self, step: int) -> None:
        """Draw when the next task starves, and for how long, if the last one has had its time."""
        if step < self._end:
            return
        self._victim = None
        self._begin = step + 1 + int(self._draw() * 2 * self._mean_gap_steps)
        self._end = self._begin + 1 + int(self._draw() * self._steps_max)
        assert step < self._begin < self._end, (step, self._begin, self._end)

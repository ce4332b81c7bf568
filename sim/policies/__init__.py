"""Policies: choose the next task and the length of its quantum."""

from collections.abc import Sequence
from typing import Protocol

from ..machine import SimTask

ENDLESS = 1 << 40  # a quantum that never ends: more scheduling points than any run passes


class Policy(Protocol):
    """Decides which task runs. The decision may depend only on arguments and random draws."""

    name: str
    interrupts_on_wake: bool
    """Whether a quantum ends at the next scheduling point after a task became runnable."""

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the index in runnable of the next task.

        runnable contains two or more tasks, in the order in which they became runnable. current is the task that ran
        last, None at the start; it is in runnable if it can continue. label is its next operation, or ~ and the reason
        why it blocked. step counts scheduling points so far.
        """

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Return how many more points the task may pass before the next call of the policy.

        The kernel calls this method for every quantum, also if only one task can run.
        """


class WatchingPolicy(Policy, Protocol):
    """A policy that the kernel also calls at points where only one task can run."""

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        """Called at a scheduling point. Arguments: see `choose_task`. current may be the kernel's placeholder."""

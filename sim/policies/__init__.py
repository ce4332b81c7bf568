"""Policies: choose the next task and the length of its quantum."""

from collections.abc import Sequence
from typing import Protocol

from ..machine import SimTask

ENDLESS = 1 << 40  # a quantum that never ends: more points than any run passes


class Policy(Protocol):
    """Decides which task runs. A policy may depend only on its arguments and its draws."""

    name: str
    interrupts_on_wake: bool
    """Whether a quantum ends at the next point after a task became runnable."""

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the index in runnable of the next task.

        runnable has at least two tasks, in the order in which they became runnable. current is the task that ran last,
        in runnable if it can continue; None at the start. label is its next operation, or ~ and the reason for which it
        blocked. step counts scheduling points so far.
        """

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Return how many more points chosen may pass before the next call of the policy.

        The kernel calls `quantum` for every quantum, also if only one task can run.
        """


class WatchingPolicy(Policy, Protocol):
    """A policy that is also called where only one task can run."""

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        """Handle a point; arguments as in `choose_task`. current may be the placeholder of the kernel."""

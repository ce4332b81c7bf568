"""Policies: choose the next task and its quantum. One file per policy."""

from collections.abc import Sequence
from typing import Protocol

from ..machine import SimTask

ENDLESS = 1 << 40  # a quantum of more points than any run passes


class Policy(Protocol):
    """Decides at scheduling points. Its decisions depend only on its arguments and its own draws."""

    name: str
    interrupts_on_wake: bool
    """Whether the kernel asks again at the next point after a task became runnable, however long the quantum is."""

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the index in runnable of the next task.

        runnable has at least two tasks, in the order in which they became runnable. current is the task that ran last;
        it is in runnable if it can go on, and None at the start. label is the operation before which it stands, or ~
        and the reason for which it blocked. step counts scheduling points so far.
        """

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Return how many more points chosen may pass before the policy is asked again.

        The kernel asks at every grant, also when only one task could run.
        """


class WatchingPolicy(Policy, Protocol):
    """A policy that also sees the points at which only one task can run."""

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        """Note a point at which one task is runnable; arguments as in `choose`. current may be outside of machines."""

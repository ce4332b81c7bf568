"""Policies: who runs next, and for how long. One file each; this one says what the kernel asks of them."""

from collections.abc import Sequence
from typing import Protocol

from ..machine import SimTask

ENDLESS = 1 << 40  # a quantum of more points than any run passes


class Policy(Protocol):
    """Decides at scheduling points. It must depend on nothing but its arguments and its own draws."""

    name: str
    interrupts_on_wake: bool
    """Whether to be asked at the next point after a task became runnable, however long its quantum."""

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the index in runnable of who runs next.

        runnable has at least two tasks, in the order they became runnable. current ran last: it is among them
        if it was merely preempted; None at the start. label is the operation it stands before or, with a ~ in
        front, what it blocked on. step counts scheduling points so far.
        """

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Return how many further points chosen may pass before this policy is asked again.

        Asked at every grant, also when there was nobody else to choose.
        """


class WatchingPolicy(Policy, Protocol):
    """A policy that wants to know of every point, also of those at which nobody else could run."""

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        """Take note of a point, as in `choose`, at which one task is runnable. current may be outside of machines."""

"""POS (partial order sampling): the pending operation of highest random priority goes; what races with it is redrawn.

Orders of operations that do not race are not distinguished, so that those that do are sampled far more evenly than by a
walk. A task that is about to start, or has been woken, is known by what it waited for: its next operation shows only
when it gets there. Which operations race is judged by their labels, the only thing a policy knows of them:

    label                              object          changes it
    lock L, unlock L                   lock L          yes
    signal S, notify signal S          signal S        yes
    cell C.get                         cell C          no
    cell C.set, .add, .compare_and_set cell C          yes
    attribute C.name.get               attribute       no
    attribute C.name.set, .use         attribute       yes: a container that is used may be changed
    sleep, spawn, join T               none
    anything else: write, msync, …     the outside     yes

Two operations race if they are on one object and at least one changes it. Approximations: objects of one name count as
one, also in different machines, and so do objects of one class; everything outside of the kernel (files, say) is one
object, whose operations a crash counts in one order anyway; and plain memory that a task touches between two operations
counts for nothing but for attributes that are points.

POS is asked at every point while more than one task can run. Over whole runs of a store, where one task mostly runs
uncontested, that takes some 6 % more time than a walk of mean quantum 4.

Source: Yuan, Yang, Gu, Partial Order Aware Concurrency Sampling, CAV 2018, section 3.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..choices import Stream
from ..machine import SimTask
from . import ENDLESS

_LABELS_MAX = 4096
_MEETING_KINDS = ("lock", "signal")
_VALUE_KINDS = ("cell", "attribute")
_PRIVATE_KINDS = ("sleep", "spawn", "join", "start", "end", "kill")
_OUTSIDE = "outside"


class OperationTarget(NamedTuple):
    """What an operation is on."""

    target: str
    """The object it is on; empty if no other operation can race with it."""
    changes: bool

    def races_with(self, other: "OperationTarget") -> bool:
        """Return whether the order of the two may matter."""
        return self.target == other.target and (self.changes or other.changes) and self.target != ""


@lru_cache(maxsize=_LABELS_MAX)
def operation_of(label: str) -> OperationTarget:
    """Return what a label says; of a ~ in front, which marks what a task blocked on, nothing depends."""
    label = label.removeprefix("~").removeprefix("notify ")
    kind, _, name = label.removeprefix("un").partition(" ")
    if kind in _MEETING_KINDS:
        return OperationTarget(f"{kind} {name}", True)
    if kind in _VALUE_KINDS:
        value, _, verb = name.rpartition(".")
        return OperationTarget(f"{kind} {value}", verb != "get")
    if kind in _PRIVATE_KINDS:
        return OperationTarget("", False)
    return OperationTarget(_OUTSIDE, True)


_START = operation_of("start")


class POS:
    """Invariant: the task chosen last has no priority, and `_granted` is what it was about to do."""

    name = "pos"
    interrupts_on_wake = True

    def __init__(self, stream: Stream) -> None:
        self._draw = stream.raw_random
        self._pending: dict[int, OperationTarget] = {}  # task number -> what it stands before
        self._priorities: dict[int, float] = {}  # task number -> priority of that operation
        self._granted: OperationTarget = _START
        self._contested = False

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the task whose pending operation has the highest priority."""
        pending, priorities, draw = self._pending, self._priorities, self._draw
        if current is not None:
            pending[current.number] = operation_of(label)
        executed = self._granted
        best, best_priority = 0, -1.0
        for index, task in enumerate(runnable):
            number = task.number
            priority = priorities.get(number)
            if priority is None or executed.races_with(pending.get(number, _START)):
                priority = priorities[number] = draw()
            if priority > best_priority:
                best, best_priority = index, priority
        assert best_priority >= 0.0, best_priority
        number = runnable[best].number
        self._granted = pending.get(number, _START)
        del priorities[number]  # used up with the operation
        self._contested = True
        return best

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant nothing beyond the next operation, or everything to a task without rivals: until another is woken."""
        if self._contested:
            self._contested = False
            return 0
        self._granted = self._pending[chosen.number] = _START  # what it passes uncontested races with nothing
        self._priorities.pop(chosen.number, None)
        return ENDLESS

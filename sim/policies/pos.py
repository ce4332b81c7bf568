"""POS (partial order sampling): runs the operation with the highest priority.

After each operation, POS draws new priorities for the pending operations that race with it. So it samples the orders of
racing operations far more evenly than a random walk. The next operation of a started or woken task is unknown, so POS
uses the task's last wait. Two operations race if they use one object and at least one of them changes it. POS finds
object and change in the label:

    label                              object          changes it
    lock L, unlock L                   lock L          yes
    signal S, notify signal S          signal S        yes
    cell C.get                         cell C          no
    cell C.set, .add, .compare_and_set cell C          yes
    attribute C.name.get               attribute       no
    attribute C.name.set, .use         attribute       yes: the task may change the container
    sleep, spawn, join T               none
    any other: write, msync, …         the outside     yes

Approximations: objects with one name, also on different machines, count as one object, as do all objects of a class.
Files and everything else outside the kernel count as one object, because a crash can follow any operation. Plain memory
is ignored, except at attribute points.

The kernel calls POS at every point while more than one task can run. A store run, in which mostly one task can run,
takes about 6 % longer than with a random walk of mean quantum 4.

Source: Yuan, Yang, Gu, Partial Order Aware Concurrency Sampling, CAV 2018, section 3.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..choices import Stream
from ..machine import SimTask
from . import ENDLESS

_LABELS_MAX = 4096
_BLOCKING_KINDS = ("lock", "signal")
_VALUE_KINDS = ("cell", "attribute")
_PRIVATE_KINDS = ("sleep", "spawn", "join", "start", "end", "kill")
_OUTSIDE = "outside"


class OperationTarget(NamedTuple):
    """The object of an operation, and whether the operation changes it."""

    target: str
    """Name of the object; empty if the operation races with no other."""
    changes: bool

    def races_with(self, other: "OperationTarget") -> bool:
        return self.target == other.target and (self.changes or other.changes) and self.target != ""


@lru_cache(maxsize=_LABELS_MAX)
def parse_operation(label: str) -> OperationTarget:
    """Parse a label. Ignores a leading ~, which denotes a blocked task."""
    label = label.removeprefix("~").removeprefix("notify ")
    kind, _, name = label.removeprefix("un").partition(" ")
    if kind in _BLOCKING_KINDS:
        return OperationTarget(f"{kind} {name}", True)
    if kind in _VALUE_KINDS:
        value, _, verb = name.rpartition(".")
        return OperationTarget(f"{kind} {value}", verb != "get")
    if kind in _PRIVATE_KINDS:
        return OperationTarget("", False)
    return OperationTarget(_OUTSIDE, True)


_START = parse_operation("start")


class POSPolicy:
    """The POS policy. Invariant: `_granted` is the operation of the last chosen task, which has no priority."""

    name = "pos"
    interrupts_on_wake = True

    def __init__(self, stream: Stream) -> None:
        self._draw = stream.raw_random
        self._pending: dict[int, OperationTarget] = {}  # by task number
        self._priorities: dict[int, float] = {}  # priority of the next operation by task number
        self._granted: OperationTarget = _START
        self._contested = False

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        pending, priorities, draw = self._pending, self._priorities, self._draw
        if current is not None:
            pending[current.number] = parse_operation(label)
        executed, changes = self._granted
        best, best_priority = 0, -1.0
        for index, task in enumerate(runnable):
            number = task.number
            priority = priorities.get(number)
            if priority is None:
                priority = priorities[number] = draw()
            elif executed:  # `races_with`, inlined because the kernel calls this method at most points
                target, other_changes = pending.get(number, _START)
                if target == executed and (changes or other_changes):
                    priority = priorities[number] = draw()
            if priority > best_priority:
                best, best_priority = index, priority
        assert best_priority >= 0.0, best_priority
        number = runnable[best].number
        self._granted = pending.get(number, _START)
        del priorities[number]  # the task's next operation gets a new priority
        self._contested = True
        return best

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant 0 points after a choice. While only one task can run, it needs no choice until another task wakes."""
        if self._contested:
            self._contested = False
            return 0
        # no other operation races with a task that runs alone
        self._granted = self._pending[chosen.number] = _START
        self._priorities.pop(chosen.number, None)
        return ENDLESS

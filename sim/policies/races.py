"""Which pending operations race: judged by their labels, the only thing a policy knows of them.

    label                              object          changes it
    lock L, unlock L                   lock L          yes
    signal S, notify signal S          signal S        yes
    cell C.get                         cell C          no
    cell C.set, .add, .compare_and_set cell C          yes
    sleep, spawn, join T               none
    anything else: write, msync, …     the outside     yes

Two operations race if they are on one object and at least one changes it. Approximations: objects of one name count as
one, also in different machines; everything outside of the kernel (files, say) is one object, whose operations a crash
counts in one order anyway; and plain memory that a task touches between two operations counts for nothing.
"""

from functools import lru_cache
from typing import NamedTuple

_LABELS_MAX = 4096
_MEETING_KINDS = ("lock", "signal")
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
    if kind == "cell":
        cell, _, verb = name.rpartition(".")
        return OperationTarget(f"cell {cell}", verb != "get")
    if kind in _PRIVATE_KINDS:
        return OperationTarget("", False)
    return OperationTarget(_OUTSIDE, True)

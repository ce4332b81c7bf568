"""What is done to a run, beside recording it: a fault at one call, or an order of its threads' steps."""

from typing import NamedTuple

from ...kinds import FaultKind

CALL_FAULTS = (
    FaultKind.FAILED_WRITE,
    FaultKind.DISK_FULL,
    FaultKind.INTERRUPTED_CALL,
    FaultKind.FAILED_CREATION,
    FaultKind.FAILED_EXTEND,
    FaultKind.FAILED_SYNC,
    FaultKind.FAILED_DIRECTORY_SYNC,
    FaultKind.LYING_SYNC,
    FaultKind.SHORT_WRITE,
)
"""The kinds that calls can be made to meet."""
ERRORS = tuple(kind for kind in CALL_FAULTS if kind is not FaultKind.LYING_SYNC)
"""Faults that a program learns of by what its call returns. No program can know of a sync that lies."""


class CallFault(NamedTuple):
    """A fault at one call: the nth, from 1, of those that this kind can strike."""

    kind: FaultKind
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}"


class RunControl(NamedTuple):
    """At most one of both. seed: of the order in which threads take their recorded steps."""

    fault: CallFault | None = None
    seed: int | None = None

    def __str__(self) -> str:
        return str(self.fault) if self.fault is not None else "" if self.seed is None else f"seed {self.seed}"


AS_IT_IS = RunControl()

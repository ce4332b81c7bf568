"""Run control: a fault at one call, or a seeded order of the threads' steps."""

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
"""The kinds that can be injected at calls."""
ERRORS = tuple(kind for kind in CALL_FAULTS if kind is not FaultKind.LYING_SYNC)
"""Faults that the program can see in the result of a call. A lying sync is invisible."""


class CallFault(NamedTuple):
    """A fault at one call: the nth, from 1, to which this kind applies."""

    kind: FaultKind
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}"


class RunControl(NamedTuple):
    """At most one of the two. seed: of the order of the threads' recorded steps."""

    fault: CallFault | None = None
    seed: int | None = None

    def __str__(self) -> str:
        return str(self.fault) if self.fault is not None else "" if self.seed is None else f"seed {self.seed}"


AS_IT_IS = RunControl()

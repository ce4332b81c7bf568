"""Run control: selects a fault at one call, or a seeded order of the threads' steps."""

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
"""The kinds of fault that can be injected at calls."""
ERRORS = tuple(kind for kind in CALL_FAULTS if kind is not FaultKind.LYING_SYNC)
"""Faults that the program can notice by the result of a call. A lying sync is not noticeable."""


class CallFault(NamedTuple):
    """A fault at the nth call, counted from 1, to which its kind applies."""

    kind: FaultKind
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}"


class RunControl(NamedTuple):
    """A fault or an order, or neither. seed: determines the order of the threads' recorded steps."""

    fault: CallFault | None = None
    seed: int | None = None

    def __str__(self) -> str:
        return str(self.fault) if self.fault is not None else "" if self.seed is None else f"seed {self.seed}"


AS_IT_IS = RunControl()

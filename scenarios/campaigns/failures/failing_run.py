"""A run that broke a promise: the record that decides it, what it came to, and how much of it there is to read."""

from dataclasses import dataclass

from ....sim.shrink import Decided
from ...claims.plan import Plan
from ...oracle.evidence import Violation


@dataclass(frozen=True, slots=True)
class RunRecord(Decided):
    """What decides a run: beside draws and schedule, the plan it follows."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to read in a failure."""

    messages: int
    """That were put, or tried to be, until it broke."""
    preemptions: int
    """Switches away from a task that could have gone on."""
    switches: int
    """Preemptions, and blocked tasks that were not followed by the one that had waited longest."""
    sectors: int
    """Pages that a power cut left old, lost or torn."""
    faults: int
    """Whatever else went wrong with a disk."""
    lives: int
    """Of the store, until the last one that was meant to end."""


@dataclass(frozen=True, slots=True)
class FailingRun:
    """A run that broke a promise, its record, and what there is to say about it."""

    record: RunRecord
    digest: str
    violations: list[Violation]
    story: list[str]
    size: Size
    steps: int
    """Scheduling points until it broke."""

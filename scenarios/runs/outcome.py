"""What one run gave."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..claims.plan import Plan
from ..oracle.evidence import Violation


@dataclass(slots=True)
class RunOutcome:
    """What one run gave."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    tried: tuple[str, ...] = ()
    """The invariants that were checked on something that could have broken them."""
    crashes: int = 0
    messages: int = 0
    put_us: Counter[int] = field(default_factory=Counter)
    """How many puts that were answered OK took so many microseconds of virtual time."""
    steps: int = 0
    virtual_ns: int = 0
    digest: str = ""
    schedule: list[list[Any]] = field(default_factory=list)

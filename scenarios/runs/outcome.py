"""The outcome of one run."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..claims.plan import Plan
from ..oracle.evidence import Violation
from ..oracle.ledger import Ledger
from .counts import RunCounts


@dataclass(slots=True)
class RunOutcome(RunCounts):
    """What one run gave."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    tried: tuple[str, ...] = ()
    """The invariants that were checked on something that could have broken them."""
    put_us: Counter[int] = field(default_factory=Counter)
    """How many puts that were answered OK took so many microseconds of virtual time."""
    virtual_ns: int = 0
    digest: str = ""
    schedule: list[list[Any]] = field(default_factory=list)
    ledger: Ledger | None = field(default=None, compare=False, repr=False)
    """All that users asked for and were answered."""

    @property
    def signature(self) -> str:
        """Return what makes two failures the same: the kind of the first breach; empty: every promise held."""
        return self.violations[0].signature if self.violations else ""

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
    """The results of one run."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    tried: tuple[str, ...] = ()
    """The invariants that were checked at least once on data that could have broken them."""
    put_us: Counter[int] = field(default_factory=Counter)
    """Durations of puts answered OK: microseconds of virtual time -> count."""
    virtual_ns: int = 0
    digest: str = ""
    schedule: list[list[Any]] = field(default_factory=list)
    ledger: Ledger | None = field(default=None, compare=False, repr=False)
    """The requests of users and their answers."""

    @property
    def signature(self) -> str:
        """Return the kind of the first violation, by which failures are grouped. Empty if every promise held."""
        return self.violations[0].signature if self.violations else ""

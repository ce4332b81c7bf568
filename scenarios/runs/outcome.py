"""Run outcome: violations, faults, rare states and counts of one run."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ..claims.plan import Plan
from ..oracle.evidence import Violation
from ..oracle.ledger import Ledger


def counter_field(meaning: str, *, column: str = "", bits: int = 64) -> Any:
    """column: the column name in a sweep's table, if different. bits: the column's width."""
    return field(default=0, metadata={"meaning": meaning, "column": column, "bits": bits})


@dataclass(slots=True, kw_only=True)
class RunCounts:
    """Counts of one run, or sums over several runs."""

    crash_points: int = counter_field("crash points", column="crashes", bits=32)
    messages: int = counter_field("messages")
    steps: int = counter_field("steps")

    def add_counts(self, other: "RunCounts") -> None:
        for one in COUNTED:
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def counts(self) -> dict[str, int]:
        return {one.meaning: getattr(self, one.name) for one in COUNTED}


class CounterField(NamedTuple):
    """A field of `RunCounts`."""

    name: str
    meaning: str
    column: str
    bits: int


COUNTED = [
    CounterField(one.name, one.metadata["meaning"], one.metadata["column"] or one.name, one.metadata["bits"])
    for one in fields(RunCounts)
]


@dataclass(slots=True)
class RunOutcome(RunCounts):
    """The results of one run."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    tried: tuple[str, ...] = ()
    """The invariants that were checked at least once on data that could have violated them."""
    put_us: Counter[int] = field(default_factory=Counter)
    """Virtual time in microseconds -> number of puts answered OK after that time."""
    virtual_ns: int = 0
    digest: str = ""
    ledger: Ledger | None = field(default=None, compare=False, repr=False)

    @property
    def signature(self) -> str:
        """The signature of the first violation, by which reports group failures."""
        return self.violations[0].signature if self.violations else ""

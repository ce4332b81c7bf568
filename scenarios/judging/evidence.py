"""What a checker gets to see, and what it says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .ledger import Ledger
from .recovered import RecoveredStore


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: where, what should be there, what is."""

    invariant: str
    summary: str
    file: str = ""
    offset: int = -1
    field: str = ""
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        """Return one line."""
        place = f" ({self.file} @ {self.offset})" if self.file else ""
        facts = f": {self.field}: expected {self.expected}, found {self.found}" if self.field else ""
        return f"{self.invariant}: {self.summary}{place}{facts}"

    @property
    def signature(self) -> str:
        """Return what makes two violations the same bug to a reader: the promise and the kind of breach."""
        return f"{self.invariant}-{self.field or 'broken'}".lower().replace(" ", "-")

    def to_json(self) -> dict[str, Any]:
        """Return the violation as JSON takes it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Evidence:
    """A store after recovery, beside what its users were told."""

    ledger: Ledger
    store: RecoveredStore


class Invariant(Protocol):
    """A checker: a function that reads the evidence and yields every violation."""

    def __call__(self, evidence: Evidence) -> Iterator[Violation]:
        """Check."""

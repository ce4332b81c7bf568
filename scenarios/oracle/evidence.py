"""What a checker gets to see, and what it says."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
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
    detail: str = dataclasses.field(default="", compare=False)
    """Lines for who reads it: what services know of their trouble, where in the store an error arose."""

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


_collecting: list[set[str]] = []


def tried(invariant: str) -> None:
    """Note, for whoever collects, that an invariant was checked on something that could have broken it.

    It stands in the checker, where there is something to compare: a promise counts as held in such runs only.
    """
    if _collecting:
        _collecting[-1].add(invariant)


@contextmanager
def tries_collected() -> Iterator[set[str]]:
    """Collect the invariants that are tried inside a `with` block, into the innermost block's set."""
    names: set[str] = set()
    _collecting.append(names)
    try:
        yield names
    finally:
        _collecting.pop()


class Invariant(Protocol):
    """A checker: a function that reads the evidence and yields every violation."""

    def __call__(self, evidence: Evidence) -> Iterator[Violation]:
        """Check."""

"""Stores through a map that the system kept waiting: a page that is being written to disk cannot be written to.

Such a store waits for the disk inside one assignment, with the interpreter's lock held, so all tasks wait with it.
"""

from dataclasses import dataclass, field

STALL_NS_MIN = 1_000_000
"""What takes less is jitter, which is in what puts cost."""


@dataclass(slots=True)
class Stalls:
    """The stalls of one sequence of stores."""

    stores: int = 0
    """How many stores there have been."""
    took_ns: dict[int, int] = field(default_factory=dict)
    """How long those that stalled took, by their number."""

    def note(self, took_ns: int) -> None:
        """Count a store, and keep it if it was a stall."""
        if took_ns >= STALL_NS_MIN:
            self.took_ns[self.stores] = took_ns
        self.stores += 1

    def next_ns(self) -> int:
        """Count a store again; return how long it stalled, 0 if it did not."""
        number = self.stores
        self.stores += 1
        return self.took_ns.get(number, 0)


@dataclass(slots=True)
class FileStalls:
    """The stalls of a store's files: puts store to the log, dispatch to all others, each in an order of its own."""

    log: Stalls = field(default_factory=Stalls)
    others: Stalls = field(default_factory=Stalls)

    def of(self, path: str) -> Stalls:
        """Return the sequence that stores to a file are part of."""
        return self.log if "/commitlog/" in path else self.others

    def again(self) -> "FileStalls":
        """Return the same stalls, to be met from the first on."""
        return FileStalls(Stalls(0, self.log.took_ns), Stalls(0, self.others.took_ns))

"""Protocol of a world for your own code, real or simulated.

Your code takes a `PortableWorld` and uses no other access to the outside. `tornlog.store.real.world.this_computer`
implements it with clocks, threads and files of the operating system, `Simulation.live` with faults
(`tornlog.faults.simulation`). Calls block; paths are absolute and `/`-separated; failures are `OSError`s with their
errno. Clocks, tasks and most file operations are those of the store; descriptors are additional.
"""

from typing import Protocol

from .world import Clock, Tasks
from .world import Files as StoreFiles


class File(Protocol):
    """A file opened by its descriptor. It stays the same file after a rename."""

    path: str
    """The path at the time of opening."""

    @property
    def size_bytes(self) -> int:
        """Return the size as readers see it."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes from a position on; fewer only at the end of the file."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if needed. Return how much was written; it may be short."""

    def allocate(self, size_bytes: int) -> None:
        """Extend the file with zeros to at least that size."""

    def truncate(self, size_bytes: int) -> None:
        """Make the file exactly that long: cut it or extend it with zeros."""

    def sync(self) -> None:
        """Make everything written so far, and the size, durable. After an OSError none of it may be durable."""

    def close(self) -> None:
        """Close the descriptor. A second call has no effect; any other use is an OSError(EBADF)."""


class PortableFiles(StoreFiles, Protocol):
    """One file system, with descriptors and hard links in addition to the store's operations."""

    def open(self, path: str) -> File:
        """Open a file, created if missing, to read, write, truncate and sync it."""

    def link(self, path: str, new: str) -> None:
        """Add a name to a file. FileExistsError if the name exists."""


class PortableWorld(Protocol):
    """All access to the outside."""

    @property
    def clock(self) -> Clock:
        """Return the two clocks."""

    @property
    def tasks(self) -> Tasks:
        """Return the concurrency operations: tasks, locks, signals, cells."""

    @property
    def files(self) -> PortableFiles:
        """Return the files."""

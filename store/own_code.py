"""World for your own code: real or simulated clocks, tasks and files.

Your code gets a `PortableWorld` and uses no clock, task or file outside of this world.
`tornlog.store.real.world.this_computer` uses the operating system; `Simulation.live` (`tornlog.faults.simulation`)
injects faults. Calls block; paths are absolute and `/`-separated; failures are `OSError`s with their errno. Unlike the
store's world, this world has file descriptors.
"""

from typing import Protocol

from .world import Clock, Tasks
from .world import Files as StoreFiles


class File(Protocol):
    """An open file descriptor, which refers to the same file after a rename."""

    path: str
    """The path when the file was opened."""

    @property
    def size_bytes(self) -> int:
        """Return the size, including writes that are not durable yet."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return size_bytes from a position on, fewer at the end of the file."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, and extend the file if needed.

        Return how many bytes were written; a write may be short.
        """

    def allocate(self, size_bytes: int) -> None:
        """Extend the file with zeros if it is smaller."""

    def truncate(self, size_bytes: int) -> None:
        """Set the size of the file: truncate it or extend it with zeros."""

    def sync(self) -> None:
        """Make all earlier writes and the size durable.

        After an OSError any of these writes may be lost in a power cut.
        """

    def close(self) -> None:
        """Close the descriptor. Later calls of `close` have no effect; other operations raise OSError(EBADF)."""


class PortableFiles(StoreFiles, Protocol):
    """One file system: the store's operations, descriptors and hard links."""

    def open(self, path: str) -> File:
        """Open a file to read, write, truncate and sync; create a missing file."""

    def link(self, path: str, new: str) -> None:
        """Add a name to a file. Raises FileExistsError if the name exists."""


class PortableWorld(Protocol):
    """All clocks, tasks and files of your code."""

    @property
    def clock(self) -> Clock:
        """Return the two clocks."""

    @property
    def tasks(self) -> Tasks:
        """Return the concurrency operations: tasks, locks, signals, cells."""

    @property
    def files(self) -> PortableFiles:
        """Return the files."""

"""Protocol of a world for your own code, which runs on this computer and in a simulation alike.

Hand it a `PortableWorld`, and let it reach nothing else. `tornlog.store.real.world.this_computer` has one of the
operating system's clocks, threads and files, `Simulation.live` one that fails on purpose (`tornlog.faults.simulation`).
Calls block; paths are absolute and `/`-separated; failures are `OSError`s with their errno. Clocks, tasks and most of
what files can do are what the store itself is given; descriptors are beside that.
"""

from typing import Protocol

from .world import Clock, Tasks
from .world import Files as StoreFiles


class File(Protocol):
    """A file opened by its descriptor. It means the file, whatever its name is by now."""

    path: str
    """What it was opened under."""

    @property
    def size_bytes(self) -> int:
        """Return the size as readers see it."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return up to size_bytes from a position on; fewer only where the file ends first."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if need be, and return how much was written; it may be short."""

    def allocate(self, size_bytes: int) -> None:
        """Let the file be at least that long, with zeros."""

    def truncate(self, size_bytes: int) -> None:
        """Let the file be exactly that long: cut, or with zeros behind its old end."""

    def sync(self) -> None:
        """Make everything written so far, and the size, durable. After an OSError nothing may be assumed to be."""

    def close(self) -> None:
        """Give the descriptor back. A second call does nothing; any other use is an OSError(EBADF)."""


class PortableFiles(StoreFiles, Protocol):
    """One file system, with descriptors and further names beside what the store needs."""

    def open(self, path: str) -> File:
        """Open a file, created if there is none, to read and write anywhere in it, to cut and to sync it."""

    def link(self, path: str, new: str) -> None:
        """Give a file one more name, which nothing has yet: FileExistsError."""


class PortableWorld(Protocol):
    """All that comes from outside."""

    @property
    def clock(self) -> Clock:
        """Return the two clocks."""

    @property
    def tasks(self) -> Tasks:
        """Return what runs beside something else, and what it meets at: locks, signals, cells."""

    @property
    def files(self) -> PortableFiles:
        """Return the files."""

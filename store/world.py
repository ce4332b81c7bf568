"""World: the store's only interface to clocks, tasks, files and connections.

The same store runs on threads, mmap and sockets (`store.real`) and on a simulated machine. Calls block, offsets count
from the first byte of the file, paths are absolute and `/`-separated, and failures are `OSError`s with an errno.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .formats.columns import NativeCore
from .network import Network


class Clock(Protocol):
    """Two clocks: one for timestamps, one for durations."""

    def now_ms(self) -> int:
        """Return the wall-clock time in ms since 1970. The wall clock may step back."""

    def monotonic_ns(self) -> int:
        """Return ns since a fixed time. This clock never steps back."""

    def utc_offset_ms(self) -> int:
        """Return local time minus UTC. The hours of `deleteWhen` and index file names are in local time."""


class Cell(Protocol):
    """An integer shared by tasks, such as the flushed offset."""

    def get(self) -> int:
        """Return the value."""

    def set(self, value: int) -> None:
        """Replace the value."""

    def add(self, delta: int) -> int:
        """Add delta atomically and return the new value."""

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Atomically replace expected by value. Returns False, without a change, if the cell has another value."""


class Signal(Protocol):
    """A wake-up for one task. A `notify` before the wait is not lost: the wait returns at once."""

    def notify(self) -> None:
        """Wake the waiter, or let the next wait return at once."""

    def wait(self, timeout_ms: int | None) -> bool:
        """Wait for `notify` (True; clears the signal) or for timeout_ms (False); None: no timeout."""


class Task(Protocol):
    """A started task."""

    name: str

    def join(self, timeout_ms: int | None) -> bool:
        """Wait until the task ends (True) or for timeout_ms (False)."""


class Tasks(Protocol):
    """Concurrency: tasks and their synchronisation."""

    def spawn(self, name: str, body: Callable[[], None]) -> Task:
        """Start body as a task. Each task of the store has a unique name."""

    def sleep(self, ms: int) -> None:
        """Sleep for at least ms."""

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Make a mutex, used with `with`. Not re-entrant, not fair."""

    def signal(self, name: str) -> Signal:
        """Make a signal."""

    def cell(self, name: str, value: int = 0) -> Cell:
        """Make a cell."""


@runtime_checkable
class TasksInTurn(Protocol):
    """Tasks that can wake one after another. Simulated tasks lack this method, because their wake-ups are free."""

    def notify_in_turn(self, signals: Sequence[Any]) -> None:
        """Notify all signals, of which some may be notified when an earlier waiter has woken up."""


class MappedFile(Protocol):
    """The first size_bytes of a file, mapped into memory and shared with the page cache."""

    path: str
    size_bytes: int

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes of [start, end) as a read-only view that shows later writes.

        Raises OSError(EIO) for an unreadable page. If the operating system sends SIGBUS instead, the process ends.
        """

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write to the page cache through the map."""

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        """Write through the descriptor. Returns the number of written bytes; a write may be short."""

    def msync(self, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable.

        After an OSError any of these pages may be lost in a power cut.
        """

    def fdatasync(self) -> None:
        """Make all earlier writes and the size durable. OSError: see `msync`."""

    def mlock(self) -> None:
        """Lock the map's pages in memory. Raises OSError (ENOMEM, EPERM) if the operating system refuses."""

    def munlock(self) -> None:
        """Undo mlock."""

    def advise_will_need(self) -> None:
        """Advise the system that the whole map will be read soon (MADV_WILLNEED)."""

    def advise_dont_need(self, start: int, end: int) -> None:
        """Advise the system that [start, end) will not be read soon (MADV_DONTNEED). The bytes do not change."""

    def close(self) -> None:
        """Release the map and the descriptor. Existing views stay readable."""


class FileStatus(Protocol):
    """The status of a path."""

    @property
    def size_bytes(self) -> int:
        """Return the file's size."""

    @property
    def mtime_ms(self) -> int:
        """Return the time of the last change of the content, in ms since 1970."""

    @property
    def is_directory(self) -> bool: ...


class DiskSpace(Protocol):
    """The usage of a file system."""

    @property
    def used_bytes(self) -> int:
        """Return the used bytes."""

    @property
    def usable_bytes(self) -> int:
        """Return the free bytes, without space reserved for root."""


class FileLock(Protocol):
    """An exclusive lock on a file. The end of the process releases the lock."""

    def release(self) -> None:
        """Release the lock."""


class Files(Protocol):
    """One file system. Content is durable only after a sync, a name only after a sync of its directory."""

    def status(self, path: str) -> FileStatus | None:
        """Return the status of path; None if path does not exist."""

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def make_directories(self, path: str) -> None:
        """Create a directory and its missing parents. No effect if the directory exists."""

    def map(self, path: str, size_bytes: int) -> MappedFile:
        """Map a file: open or create it, then extend it with zeros to size_bytes if it is shorter."""

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of the last change, in ms since 1970."""

    def space(self, path: str) -> DiskSpace:
        """Return the usage of the file system of an existing path."""

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed, writable memory of this process, locked if the operating system allows it."""

    def read(self, path: str) -> bytes:
        """Return the content of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Write data to a small file; create or empty the file first."""

    def sync(self, path: str) -> None:
        """Make the content and the size of a file durable, but not the file's name."""

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory (not below it) durable: creations, renames, removals."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing a file of the new name."""

    def unlink(self, path: str) -> None:
        """Remove a name. Existing maps of the file stay usable."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def lock(self, path: str) -> FileLock:
        """Create path if it is missing, and lock the file.

        Raises BlockingIOError if another process or instance has the lock.
        """


@dataclass(frozen=True, slots=True)
class World:
    """The environment of a store."""

    clock: Clock
    tasks: Tasks
    files: Files
    network: Network | None = None
    """Connections; None for a store without a broker and replication."""
    core: NativeCore | None = None
    """The core, which reads many records at once; None, as in most simulations, to read each record alone."""

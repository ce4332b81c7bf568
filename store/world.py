"""The one door between the store and everything outside it.

The store asks for time, tasks, files and connections (`store.network`) here and nowhere else, so the same code runs
over threads, mmap and sockets (`store.real`) or over a simulated machine that dies on purpose. Calls block; offsets
count from the file's first byte; paths are absolute and `/`-separated; failures are `OSError`s with their errno.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from .formats.columns import Core
from .network import Network


class Clock(Protocol):
    """Two clocks: one to stamp messages with, one to measure with."""

    def now_ms(self) -> int:
        """Return the wall clock in ms since 1970. It may step back."""

    def monotonic_ns(self) -> int:
        """Return ns since some fixed moment. It never steps back."""

    def utc_offset_ms(self) -> int:
        """Return how far local time, in which deletion hours and index files are named, is ahead of UTC."""


class Cell(Protocol):
    """An integer several tasks share: wrote, committed, flushed, dispatched."""

    def get(self) -> int:
        """Return the value."""

    def set(self, value: int) -> None:
        """Replace the value."""

    def add(self, delta: int) -> int:
        """Add delta in one step and return the new value."""

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Replace expected by value in one step; False, and no change, if something else is there."""


class Signal(Protocol):
    """One wake-up call. Notified before a wait, it is remembered, once, and not lost."""

    def notify(self) -> None:
        """Wake the waiter, or let the next wait return at once."""

    def wait(self, timeout_ms: int | None) -> bool:
        """Wait until notified (True, and the notice is used up) or for timeout_ms (False). None: for ever."""


class Task(Protocol):
    """A running service."""

    name: str

    def join(self, timeout_ms: int | None) -> bool:
        """Wait for the task to end; False if it still runs after timeout_ms."""


class Tasks(Protocol):
    """Everything that runs at the same time as something else."""

    def spawn(self, name: str, body: Callable[[], None]) -> Task:
        """Start body as a task. The store names each of its tasks once."""

    def sleep(self, ms: int) -> None:
        """Let at least ms pass."""

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Make a mutex, to be used with `with`. Not re-entrant, not fair."""

    def signal(self, name: str) -> Signal:
        """Make a signal."""

    def cell(self, name: str, value: int = 0) -> Cell:
        """Make a cell."""


class MappedFile(Protocol):
    """The first size_bytes of a file, mapped and shared with the page cache."""

    path: str
    size_bytes: int

    def view(self, start: int, end: int) -> memoryview:
        """Return the bytes [start, end) as readers see them now: read-only, not copied.

        OSError(EIO): a page of them cannot be read just now. Where the system says so by a SIGBUS, the process ends.
        """

    def store(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write through the map: in the page cache at once, on the disk some day."""

    def pwrite(self, at: int, data: bytes | bytearray | memoryview) -> int:
        """Write through the descriptor and return how much was written; it may be short."""

    def msync(self, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable. After an OSError nothing may be assumed to be."""

    def fdatasync(self) -> None:
        """Make everything written so far, and the size, durable. After an OSError: as for msync."""

    def mlock(self) -> None:
        """Keep the map's pages in memory. OSError(ENOMEM, EPERM) if the system will not."""

    def munlock(self) -> None:
        """Let them be reclaimed again."""

    def advise_will_need(self) -> None:
        """Advise the system that the whole map will be read soon (MADV_WILLNEED)."""

    def advise_dont_need(self, start: int, end: int) -> None:
        """Advise the system that no byte of [start, end) will be read soon (MADV_DONTNEED); each stays what it is."""

    def close(self) -> None:
        """Give the map and the descriptor back. Views taken earlier stay readable."""


class FileStatus(Protocol):
    """What a directory knows of a name."""

    @property
    def size_bytes(self) -> int:
        """Return the file's size."""

    @property
    def mtime_ms(self) -> int:
        """Return when it was last changed, in ms since 1970."""

    @property
    def is_directory(self) -> bool:
        """Return whether it is a directory."""


class DiskSpace(Protocol):
    """How full a file system is."""

    @property
    def used_bytes(self) -> int:
        """Return what is taken."""

    @property
    def usable_bytes(self) -> int:
        """Return what an ordinary user can still write; less than what is free where some is reserved."""


class FileLock(Protocol):
    """An exclusive lock on a file, gone with its process."""

    def release(self) -> None:
        """Let the next one in."""


class Files(Protocol):
    """One file system. Nothing is durable until synced, and a name only once its directory is."""

    def status(self, path: str) -> FileStatus | None:
        """Return what is at path, None if nothing is."""

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def make_directories(self, path: str) -> None:
        """Create a directory and those above it; nothing happens if it exists."""

    def map(self, path: str, size_bytes: int) -> MappedFile:
        """Map a file: open or create it, then extend it with zeros to size_bytes if it is shorter."""

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Say when a file was last changed, in ms since 1970."""

    def space(self, path: str) -> DiskSpace:
        """Return how full the file system is that holds an existing path."""

    def buffer(self, size_bytes: int) -> memoryview:
        """Return zeroed memory of this process, writable and kept in memory where the system allows it."""

    def read(self, path: str) -> bytes:
        """Return a small file's whole content."""

    def write(self, path: str, data: bytes) -> None:
        """Create or empty a small file and write data to it."""

    def sync(self, path: str) -> None:
        """Make a file's content and size durable, but not its name."""

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory (not below it) durable: creations, renames, removals."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""

    def unlink(self, path: str) -> None:
        """Remove a name; maps of the file stay usable."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def lock(self, path: str) -> FileLock:
        """Create path if needed and lock it; BlockingIOError if another holder is alive."""


@dataclass(frozen=True, slots=True)
class World:
    """What a store is given to live in."""

    clock: Clock
    tasks: Tasks
    files: Files
    network: Network | None = None
    """None where nothing is to be reached: a store alone needs no network."""
    core: Core | None = None
    """What reads many records at once; None without one, and in simulations, where each record is to be seen."""

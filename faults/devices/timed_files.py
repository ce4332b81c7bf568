"""A simulated machine's files on a storage that takes its time: writes dirty pages, and syncs wait for the device.

Reads are not charged by themselves: a view of a map does not say which of its bytes are looked at. Who reads says so
(`StorageSystem.read`).
"""

from collections.abc import Callable

from ..disk.files import SimDescriptor, SimFiles
from ..disk.mapped_file import Buffer, SimMappedFile
from .file_pages import FilePages
from .storage import BLOCK_BYTES
from .system import StorageSystem

_WHOLE_FILE = 1 << 60


def _as_it_is(path: str, size_bytes: int) -> int | None:
    return size_bytes


class TimedFiles:
    """The files of one machine; what it does not name is theirs."""

    def __init__(
        self,
        files: SimFiles,
        system: StorageSystem,
        room: Callable[[str, int], int | None] = _as_it_is,
    ) -> None:
        """room: how many bytes a mapped file of some path and size is allocated ahead; None: as it is written back."""
        self._files = files
        self._system = system
        self._room = room
        self.is_timed = True
        """While it is not, pages become dirty and nobody waits for anything."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "TimedMappedFile":
        """Map a file, as the machine does."""
        mapped = self._files.map(path, size_bytes)
        room_bytes = self._room(path, size_bytes)
        if room_bytes is not None:
            self._system.allocate_ahead(path, room_bytes)
        return TimedMappedFile(mapped, self.pages(path))

    def open(self, path: str) -> "TimedDescriptor":
        """Open a file to write anywhere in it, as the machine does."""
        return TimedDescriptor(self._files.open(path), self.pages(path))

    def write(self, path: str, data: bytes) -> None:
        """Write a small file."""
        self._files.write(path, data)
        self.pages(path).dirtied(0, len(data))

    def sync(self, path: str) -> None:
        """Make a file's content and size durable."""
        self._files.sync(path)
        self.pages(path).synced(0, _WHOLE_FILE)

    def sync_directory(self, path: str) -> None:
        """Make the names in one directory durable."""
        self._files.sync_directory(path)
        if self.is_timed:
            self._system.write_back.sync_names()

    def pages(self, path: str) -> "TimedPages":
        """Return the pages of a file, for those who write to it and sync it."""
        return TimedPages(self, self._system, self._system.file(path))


class TimedPages:
    """One file's pages, written and synced in bytes."""

    __slots__ = ("_file", "_files", "_write_back")

    def __init__(self, files: TimedFiles, system: StorageSystem, file: FilePages) -> None:
        self._files = files
        self._write_back = system.write_back
        self._file = file

    def dirtied(self, at: int, size_bytes: int) -> None:
        """Note that bytes were written; wait if too much is dirty."""
        if size_bytes:
            note = self._write_back.dirtied if self._files.is_timed else self._write_back.prepare
            note(self._file, at // BLOCK_BYTES, (at + size_bytes - 1) // BLOCK_BYTES)

    def synced(self, start: int, end: int) -> None:
        """Let the current task wait as long as a sync of bytes [start, end) takes."""
        if self._files.is_timed and end > start:
            self._write_back.sync(self._file, start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES)


class TimedMappedFile:
    """A mapped file; what it does not name is the map's."""

    def __init__(self, mapped: SimMappedFile, pages: TimedPages) -> None:
        self._mapped = mapped
        self._pages = pages
        self.path = mapped.path
        self.size_bytes = mapped.size_bytes
        self.view = mapped.view

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        """Write through the map."""
        self._mapped.store(at, data)
        self._pages.dirtied(at, len(data))

    def pwrite(self, at: int, data: Buffer) -> int:
        """Write through the descriptor; return how much."""
        written = self._mapped.pwrite(at, data)
        self._pages.dirtied(at, written)
        return written

    def msync(self, start: int, end: int) -> None:
        """Make the pages of [start, end) and the size durable."""
        self._mapped.msync(start, end)
        self._pages.synced(start, end)

    def fdatasync(self) -> None:
        """Make everything written so far, and the size, durable."""
        self._mapped.fdatasync()
        self._pages.synced(0, _WHOLE_FILE)


class TimedDescriptor:
    """An opened file, to be written and synced."""

    def __init__(self, descriptor: SimDescriptor, pages: TimedPages) -> None:
        self._descriptor = descriptor
        self._pages = pages

    @property
    def size_bytes(self) -> int:
        """Return the file's size."""
        return self._descriptor.size_bytes

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, growing the file if need be; return how much."""
        written = self._descriptor.write(at, data)
        self._pages.dirtied(at, written)
        return written

    def sync(self) -> None:
        """Make everything written so far, and the size, durable."""
        self._descriptor.sync()
        self._pages.synced(0, _WHOLE_FILE)

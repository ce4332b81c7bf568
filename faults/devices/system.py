"""Storage system of one machine: page cache, file system and elevator on one device.

The storage system models only time: dirty pages and their block numbers. The simulated disk (`faults.disk`) models
bytes and crashes; here its own syncs take no time. A view of a map does not reveal which bytes are read, so readers
must report their reads (`StorageSystem.read`).
"""

from collections.abc import Callable

from ...sim.machine import Machine, WaitGate
from ..disk.files import SimDescriptor, SimFiles
from ..disk.mapped_file import Buffer, SimMappedFile
from .cached_reads import CachedReads, ReadAhead
from .elevator import Elevator
from .pages import FilePages, PageCacheLimits, Placement
from .storage import BLOCK_BYTES, BlockDevice, JournalRing
from .write_back import Journal, WriteBack

_WHOLE_FILE = 1 << 60  # longer than any file


class StorageSystem:
    """The storage of one machine, which runs the elevator and the flusher as tasks."""

    def __init__(
        self,
        machine: Machine,
        device: BlockDevice,
        memory: PageCacheLimits,
        *,
        room_blocks: int = 0,
        read_ahead: Callable[[str], ReadAhead] | None = None,
    ) -> None:
        """room_blocks: blocks that a growing file reserves at a time; 0: none. read_ahead: returns the read-ahead for a
        path; None: as in Linux."""
        self._kernel = machine.kernel
        self._placement = Placement(device.blocks, room_blocks=room_blocks)
        self.elevator = Elevator(machine, device)
        self.journal = Journal(self._kernel, self.elevator, JournalRing(self._placement))
        self.write_back = WriteBack(machine, self.elevator, self.journal, self._placement, memory)
        self.reads = CachedReads(self.elevator, memory, read_ahead)
        self._files: dict[str, FilePages] = {}

    def file(self, path: str) -> FilePages:
        found = self._files.get(path)
        if found is None:
            found = self._files[path] = FilePages(path, WaitGate(self._kernel, f"write-back of {path}"))
        return found

    def allocate_ahead(self, path: str, size_bytes: int) -> None:
        """Reserve adjacent blocks for a file of this size, unless the file already has blocks."""
        blocks = self.file(path).blocks
        if blocks.ahead is None and not blocks.placed:
            blocks.ahead = self._placement.reserve(-(-size_bytes // BLOCK_BYTES))

    def read(self, reader: str, path: str, start: int, end: int) -> None:
        """Wait until bytes [start, end) are in the page cache."""
        if end > start:
            self.reads.read(reader, self.file(path), start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES)


class TimedFiles:
    """The files of a machine with modelled latency. All other attributes are those of SimFiles."""

    def __init__(
        self,
        files: SimFiles,
        system: StorageSystem,
        room: Callable[[str, int], int | None] = lambda path, size_bytes: size_bytes,
    ) -> None:
        """room: returns the bytes to preallocate for a mapped file, by path and size; None: allocation at
        write-back.
        """
        self._files = files
        self._system = system
        self._room = room
        self.is_timed = True
        """If False, written pages become dirty, but no task waits."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def map(self, path: str, size_bytes: int) -> "TimedMappedFile":
        mapped = self._files.map(path, size_bytes)
        room_bytes = self._room(path, size_bytes)
        if room_bytes is not None:
            self._system.allocate_ahead(path, room_bytes)
        return TimedMappedFile(mapped, self.pages(path))

    def open(self, path: str) -> "TimedDescriptor":
        return TimedDescriptor(self._files.open(path), self.pages(path))

    def write(self, path: str, data: bytes) -> None:
        self._files.write(path, data)
        self.pages(path).record_write(0, len(data))

    def sync(self, path: str) -> None:
        self._files.sync(path)
        self.pages(path).wait_for_sync(0, _WHOLE_FILE)

    def sync_directory(self, path: str) -> None:
        self._files.sync_directory(path)
        if self.is_timed:
            self._system.write_back.sync_names()

    def pages(self, path: str) -> "TimedPages":
        return TimedPages(self, self._system, self._system.file(path))


class TimedPages:
    """The pages of one file, addressed by byte offsets."""

    __slots__ = ("_file", "_files", "_write_back")

    def __init__(self, files: TimedFiles, system: StorageSystem, file: FilePages) -> None:
        self._files = files
        self._write_back = system.write_back
        self._file = file

    def record_write(self, at: int, size_bytes: int) -> None:
        """Record a write. Wait if too much of the page cache is dirty."""
        if size_bytes:
            note = self._write_back.record_write if self._files.is_timed else self._write_back.prepare
            note(self._file, at // BLOCK_BYTES, (at + size_bytes - 1) // BLOCK_BYTES)

    def wait_for_sync(self, start: int, end: int) -> None:
        if self._files.is_timed and end > start:
            self._write_back.sync(self._file, start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES)


class TimedMappedFile:
    """A map with modelled latency. All other attributes are those of the wrapped map."""

    def __init__(self, mapped: SimMappedFile, pages: TimedPages) -> None:
        self._mapped = mapped
        self._pages = pages
        self.size_bytes = mapped.size_bytes
        self.view = mapped.view  # `__getattr__` would slow down every view

    def __getattr__(self, name: str) -> object:
        return getattr(self._mapped, name)

    def store(self, at: int, data: Buffer) -> None:
        self._mapped.store(at, data)
        self._pages.record_write(at, len(data))

    def pwrite(self, at: int, data: Buffer) -> int:
        written = self._mapped.pwrite(at, data)
        self._pages.record_write(at, written)
        return written

    def msync(self, start: int, end: int) -> None:
        self._mapped.msync(start, end)
        self._pages.wait_for_sync(start, end)

    def fdatasync(self) -> None:
        self._mapped.fdatasync()
        self._pages.wait_for_sync(0, _WHOLE_FILE)


class TimedDescriptor:
    """An open file with modelled latency."""

    def __init__(self, descriptor: SimDescriptor, pages: TimedPages) -> None:
        self._descriptor = descriptor
        self._pages = pages

    @property
    def size_bytes(self) -> int:
        return self._descriptor.size_bytes

    def write(self, at: int, data: bytes) -> int:
        """Write, and extend the file if needed. Return the number of written bytes."""
        written = self._descriptor.write(at, data)
        self._pages.record_write(at, written)
        return written

    def sync(self) -> None:
        """Make earlier writes and the size durable."""
        self._descriptor.sync()
        self._pages.wait_for_sync(0, _WHOLE_FILE)

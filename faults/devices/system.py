"""Storage system of one machine: page cache, file system and elevator on one device.

The storage system models only time: dirty pages and their block numbers. The simulated disk (`faults.disk`) models
bytes and crashes; here its own syncs take no time. A view of a map does not reveal which bytes are read, so readers
must report their reads (`StorageSystem.read`).
"""

from collections.abc import Callable

from ...sim.machine import Machine
from ..disk.files import SimDescriptor, SimFiles
from ..disk.mapped_file import Buffer, SimMappedFile
from .cached_reads import CachedReads, ReadAhead
from .elevator import Elevator
from .journal import Journal
from .memory import Memory
from .page_writes import PageWrites
from .pages import INODES_PER_BLOCK, FilePages, PageCacheLimits, Placement
from .storage import BLOCK_BYTES, BlockDevice, JournalRing
from .unjournaled import Metadata, MetadataWrites, Unjournaled
from .write_back import WriteBack

_WHOLE_FILE = 1 << 60  # longer than any file


class StorageSystem:
    """The storage of one machine, which runs the elevator, the flusher and the journal as tasks."""

    def __init__(
        self,
        machine: Machine,
        device: BlockDevice,
        limits: PageCacheLimits,
        *,
        room_blocks: int = 0,
        read_ahead: Callable[[str], ReadAhead] | None = None,
        stable_pages: bool = False,
        orders_data: bool = True,
        unjournaled: MetadataWrites | None = None,
        sorts_requests: bool = True,
    ) -> None:
        """room_blocks: blocks that a growing file reserves at a time; 0: none. read_ahead: returns the read-ahead for a
        path; None: as in Linux. stable_pages: whether the device needs pages that do not change during their
        write-back. orders_data: whether commits wait for data, as before Linux 5.6. unjournaled: the writes of
        syncs on a file system without a journal; None: it has one. sorts_requests: whether the device's queue is
        sorted (mq-deadline), not in order of arrival (none).
        """
        kernel = machine.kernel
        self._placement = Placement(device.blocks, room_blocks=room_blocks)
        self.elevator = Elevator(machine, device, is_sorted=sorts_requests)
        self.metadata: Metadata = (
            Journal(machine, self.elevator, JournalRing(self._placement), orders_data=orders_data)
            if unjournaled is None
            else Unjournaled(self.elevator, self._placement, unjournaled)
        )
        self.write_back = WriteBack(machine, self.elevator, self.metadata, self._placement, limits)
        self.memory = memory = Memory(kernel, limits, self.write_back.wake_flusher)
        self.write_back.dirtyable = lambda: memory.dirtyable
        self.write_back.on_written = memory.cleaned.open
        self.reads = CachedReads(self.elevator, memory, read_ahead)
        self.writes = PageWrites(kernel, memory, self.reads, self.metadata, self.write_back, stable_pages=stable_pages)
        self._files: dict[str, FilePages] = {}
        self._files_in: dict[str, int] = {}

    def file(self, path: str) -> FilePages:
        found = self._files.get(path)
        if found is None:
            directory = path.rpartition("/")[0]
            number = self._files_in[directory] = self._files_in.get(directory, 0) + 1
            # ext4 places the inodes of a directory's files next to each other, in the directory's block group.
            found = self._files[path] = FilePages(path, (directory, number // INODES_PER_BLOCK))
        return found

    def allocate_ahead(self, path: str, size_bytes: int, *, is_written: bool = False) -> None:
        """Reserve adjacent blocks for a file of this size, unless the file already has blocks.

        is_written: the file has data, as old segments have.
        """
        blocks, pages = self.file(path).blocks, -(-size_bytes // BLOCK_BYTES)
        if blocks.ahead is None and not blocks.placed:
            blocks.ahead = self._placement.reserve(pages)
            if is_written:
                blocks.converted.update(range(pages))

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
        room_bytes, file = self._room(path, size_bytes), self._system.file(path)
        if room_bytes is not None:
            self._system.allocate_ahead(path, room_bytes)
        if self.is_timed and not file.commit_number:  # a new file with a size
            self._system.metadata.record_blocks(file)
        return TimedMappedFile(mapped, self.pages(path))

    def open(self, path: str) -> "TimedDescriptor":
        return TimedDescriptor(self._files.open(path), self.pages(path))

    def write(self, path: str, data: bytes) -> None:
        self._files.write(path, data)
        self.pages(path).write(0, len(data))

    def sync(self, path: str) -> None:
        self._files.sync(path)
        self.pages(path).sync(0, _WHOLE_FILE, data_only=False)

    def sync_directory(self, path: str) -> None:
        self._files.sync_directory(path)
        if self.is_timed:
            self._system.metadata.sync_names()

    def buffer(self, size_bytes: int) -> memoryview:
        """Return memory of the machine, locked as RocketMQ locks its pool's buffers."""
        self._system.memory.hold_anonymous(size_bytes)
        return self._files.buffer(size_bytes)

    def pages(self, path: str) -> "TimedPages":
        return TimedPages(self, self._system, self._system.file(path))


class TimedPages:
    """The pages of one file, addressed by byte offsets."""

    __slots__ = ("_file", "_files", "_system", "_writes")

    def __init__(self, files: TimedFiles, system: StorageSystem, file: FilePages) -> None:
        self._files = files
        self._system = system
        self._writes = system.writes
        self._file = file

    def store(self, at: int, size_bytes: int) -> None:
        """Wait until a map is writable, and record the store."""
        if not size_bytes:
            return
        if self._files.is_timed:
            self._writes.store(self._file, at, size_bytes)
        else:
            self._prepare(at, size_bytes)

    def write(self, at: int, size_bytes: int) -> None:
        """Record a write through a descriptor, and wait as it does."""
        if not size_bytes:
            return
        if self._files.is_timed:
            self._writes.write(self._file, at, size_bytes)
        else:
            self._prepare(at, size_bytes)

    def sync(self, start: int, end: int, *, data_only: bool = True) -> None:
        if self._files.is_timed and end > start:
            first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
            self._system.write_back.sync(self._file, first, last, data_only=data_only)

    def lock(self, size_bytes: int) -> None:
        """Bring all pages into memory, and keep them there."""
        memory, file = self._system.memory, self._file
        self._system.read("mlock", file.path, 0, size_bytes)
        memory.lock(file)
        for page in range(-(-size_bytes // BLOCK_BYTES)):
            if not memory.is_resident((file, page)):
                memory.add((file, page), None)

    def unlock(self) -> None:
        self._system.memory.unlock(self._file)

    def _prepare(self, at: int, size_bytes: int) -> None:
        pages = range(at // BLOCK_BYTES, (at + size_bytes - 1) // BLOCK_BYTES + 1)
        self._system.write_back.prepare(self._file, pages)


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
        self._pages.store(at, len(data))  # first, because the page must be writable before its bytes change
        self._mapped.store(at, data)

    def pwrite(self, at: int, data: Buffer) -> int:
        self._pages.write(at, len(data))
        return self._mapped.pwrite(at, data)

    def msync(self, start: int, end: int) -> None:
        self._mapped.msync(start, end)
        self._pages.sync(start, end)

    def fdatasync(self) -> None:
        self._mapped.fdatasync()
        self._pages.sync(0, _WHOLE_FILE)

    def mlock(self) -> None:
        self._mapped.mlock()
        self._pages.lock(self.size_bytes)

    def munlock(self) -> None:
        self._mapped.munlock()
        self._pages.unlock()

    def close(self) -> None:
        self._mapped.close()
        self._pages.unlock()


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
        self._pages.write(at, len(data))
        return self._descriptor.write(at, data)

    def sync(self) -> None:
        """Make earlier writes and the size durable."""
        self._descriptor.sync()
        self._pages.sync(0, _WHOLE_FILE, data_only=False)

"""Write-back: dirty pages, the flusher that writes them, and syncs.

The flusher runs every few seconds and writes files whose oldest dirty page is too old. While dirty data exceeds the
background limit, the flusher writes the files that have been dirty longest. It writes chunks of a file, each within
one journal handle if pages need new blocks, and waits within the handle while too many of its requests are in the
queue. Then a commit, and every task that starts a handle, waits for the flusher.

A sync writes the dirty pages of its range, waits for earlier writes of these pages, and then for the commit of the
last change of the file's blocks. Data that was written in place needs no commit, only a flush of the device
(fdatasync, and msync, which calls it).

Sources: Linux, Documentation/admin-guide/sysctl/vm.rst; fs/fs-writeback.c (wb_writeback, writeback_chunk_size);
fs/ext4/inode.c (ext4_do_writepages, MAX_WRITEPAGES_EXTENT_LEN); fs/ext4/fsync.c (ext4_fsync_journal); block/blk-wbt.c
(limit of background requests); block/blk-settings.c (max_sectors_kb).
"""

from collections import deque
from collections.abc import Callable, Iterable

from ...sim.machine import Machine
from .elevator import Elevator
from .pages import FilePages, PageCacheLimits, PageWrite, Placement
from .storage import BLOCK_BYTES
from .unjournaled import Metadata

_REQUESTS_MAX = 256  # nr_requests
_PAGES_OF_HANDLE = 2_048  # MAX_WRITEPAGES_EXTENT_LEN
_PAGES_OF_REQUEST = 256  # 1 MiB, about Linux's limit for one request (max_sectors_kb)
_PAGES_AT_ONCE = 4_096  # 16 MiB, after which the flusher checks the limits again
_UnderWay = deque[tuple[FilePages, PageWrite]]


class WriteBack:
    """The dirty pages of a machine. Invariant: `_files` has the files with dirty pages, longest dirty first."""

    def __init__(
        self, machine: Machine, elevator: Elevator, metadata: Metadata, placement: Placement, limits: PageCacheLimits
    ) -> None:
        self._kernel = machine.kernel
        self._elevator = elevator
        self._metadata = metadata
        self._placement = placement
        self._limits = limits
        self.dirtyable: Callable[[], int] = lambda: limits.pages_max
        """Returns the number of pages of which the limits are ratios."""
        self.on_written: Callable[[], None] = lambda: None
        self.requests_max = _REQUESTS_MAX
        """Requests of the flusher in the queue at once; fewer if blk-wbt limits them."""
        self._files: dict[str, FilePages] = {}
        self._dirty = 0
        self._in_flight = 0
        self.written_pages = 0
        self.syncs = 0
        self._signal = machine.tasks.signal("flusher")
        self._is_writing = False
        machine.tasks.spawn("flusher", self._run_write_back)

    @property
    def dirty_pages(self) -> int:
        return self._dirty + self._in_flight

    @property
    def dirty_bytes(self) -> int:
        """Bytes that are not on the device yet, including queued writes."""
        return self.dirty_pages * BLOCK_BYTES

    @property
    def limits(self) -> tuple[int, int]:
        """Numbers of dirty pages above which background write-back begins, and above which writers stop."""
        return self._limits.dirty_pages_max(self.dirtyable())

    @property
    def background_bytes(self) -> int:
        return self.limits[0] * BLOCK_BYTES

    def record_dirty(self, file: FilePages, pages: Iterable[int]) -> int:
        """Mark pages as dirty. Return the number of pages that were clean."""
        dirty = file.dirty
        before = len(dirty)
        dirty.update(pages)
        new = len(dirty) - before
        if not new:
            return 0
        if not before:
            file.dirty_since_ns = self._kernel.now_ns
            # `_next_files` relies on the dict's insertion order: the first file became dirty first.
            assert file.path not in self._files, file.path
            self._files[file.path] = file
        self._dirty += new
        if not self._is_writing and self._dirty > self.limits[0]:  # a busy flusher checks the limit itself
            self._signal.notify()
        return new

    def wake_flusher(self) -> None:
        self._signal.notify()

    def sync(self, file: FilePages, first: int, last: int, *, data_only: bool = True) -> None:
        """Wait until the current content of pages [first, last] is durable. data_only: as fdatasync."""
        self.syncs += 1
        self._submit(file, sorted(page for page in file.dirty if first <= page <= last), _REQUESTS_MAX)
        for write in dict.fromkeys(write for page, write in file.writing.items() if first <= page <= last):
            self.end_write(file, write)  # including those that the flusher has begun
        self._metadata.make_durable(file, data_only=data_only)

    def write_direct(self, file: FilePages, pages: range) -> None:
        """Write pages past the page cache (O_DIRECT), and wait for the device."""
        if any(map(file.blocks.needs_mapping, pages)):
            self._metadata.record_blocks(file)
        self._elevator.wait(self._elevator.write(self._placement.place(file.blocks, pages)))

    def prepare(self, file: FilePages, pages: Iterable[int]) -> None:
        """Record writes without a wait, before `forget` and a measurement."""
        file.dirty.update(pages)
        self._files[file.path] = file

    def forget(self) -> None:
        """Before a measurement, assign blocks to all dirty pages and mark the pages clean."""
        for file in self._files.values():
            self._placement.place(file.blocks, sorted(file.dirty))
            file.dirty.clear()
        self._files.clear()
        self._dirty = 0

    def _run_write_back(self) -> None:
        while True:
            self._signal.wait(self._limits.wake_ms)
            self._is_writing = True
            while files := self._next_files():
                under_way: _UnderWay = deque()
                for file, pages in files:
                    self._submit(file, pages, self.requests_max, under_way)
                for file, write in under_way:
                    self.end_write(file, write)
            self._is_writing = False

    def _next_files(self) -> list[tuple[FilePages, list[int]]]:
        """Return the files to write back now with their pages, longest dirty first."""
        expired_ns = self._kernel.now_ns - self._limits.expire_ns
        background, count = self.limits[0], 0
        found: list[tuple[FilePages, list[int]]] = []
        for file in self._files.values():
            is_wanted = self._dirty - count > background or file.dirty_since_ns <= expired_ns
            if not is_wanted or count >= _PAGES_AT_ONCE or len(found) >= _REQUESTS_MAX:
                break  # later files became dirty later
            pages = sorted(file.dirty)[: _PAGES_AT_ONCE - count]
            found.append((file, pages))
            count += len(pages)
        return found

    def _submit(self, file: FilePages, pages: list[int], requests_max: int, under_way: _UnderWay | None = None) -> None:
        """Queue writes of ascending pages, within handles. Wait while requests_max are in the queue."""
        under_way = deque() if under_way is None else under_way
        for at in range(0, len(pages), _PAGES_OF_HANDLE):
            chunk = pages[at : at + _PAGES_OF_HANDLE]
            needs_handle = any(map(file.blocks.needs_mapping, chunk))
            if needs_handle:
                self._metadata.start_handle(file)
                if file.blocks.ahead is None:
                    self._metadata.order_data(file)
            for first in range(0, len(chunk), _PAGES_OF_REQUEST):
                while len(under_way) >= requests_max:
                    self.end_write(*under_way.popleft())
                # Another task may have written some of the pages during a wait.
                piece = [page for page in chunk[first : first + _PAGES_OF_REQUEST] if page in file.dirty]
                if piece:
                    under_way.append((file, self._queue_write(file, piece)))
            if needs_handle:
                self._metadata.stop_handle()

    def _queue_write(self, file: FilePages, pages: list[int]) -> PageWrite:
        """Queue a write of one file's pages, which then count as clean."""
        needs_mapping = any(map(file.blocks.needs_mapping, pages))
        is_unwritten = file.blocks.ahead is not None or not self._metadata.orders_data
        request = self._elevator.write(self._placement.place(file.blocks, pages))
        write = PageWrite(pages, request, needs_mapping and is_unwritten)
        file.writing.update(dict.fromkeys(pages, write))
        file.dirty.difference_update(pages)
        if not file.dirty:
            del self._files[file.path]
        self._dirty -= len(pages)
        self._in_flight += len(pages)
        return write

    def end_write(self, file: FilePages, write: PageWrite) -> None:
        """Wait for the end of a write, and record it unless another task has done so."""
        self._elevator.wait(write.request)
        if write.is_ended:
            return
        write.is_ended = True
        if write.converts:
            self._metadata.record_blocks(file)
        for page in write.pages:
            if file.writing.get(page) is write:  # otherwise a later write of the page is under way
                del file.writing[page]
        self._in_flight -= len(write.pages)
        self.written_pages += len(write.pages)
        assert self._in_flight >= 0, self._in_flight
        self.on_written()

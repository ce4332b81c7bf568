"""Transient store pool: puts write to memory buffers, which a commit task writes to files.

RocketMQ's TransientStorePool, MappedFile with a write buffer, and CommitRealTimeService. Readers use only committed
bytes; the rest of the file contains zeros. If the process dies, uncommitted bytes are lost. Commits follow log order,
so the readable bytes end in the first segment that is not completely committed.
"""

import errno
from collections.abc import Callable

from ..config import StoreConfig
from ..errors import is_disk_full
from ..marks import count_mark, is_forced
from ..running_flags import RefusalReason, RunningFlags
from ..service import Service, do_nothing
from ..world import MappedFile, Tasks, World
from .segment import PAGE_BYTES, Segment
from .segment_queue import SegmentQueue, segment_index

_NOTHING = memoryview(b"")


class TransientStorePool:
    """Buffers of one size. The pool does not clear them, because a commit writes only appended bytes.

    Invariant: each buffer belongs to one segment or is free; the pool never has more buffers than it created.
    """

    def __init__(self, world: World, buffer_bytes: int, count: int) -> None:
        self._world = world
        self._buffer_bytes = buffer_bytes
        self._count = count
        self._lock = world.tasks.lock("transient pool")
        self.lent_count = 0
        """Number of buffers that segments hold."""
        self._buffers: list[memoryview] = []
        """A stack: the most recently returned buffer is reused first, because it may still be in the CPU cache."""

    def fill(self) -> None:
        """Create the buffers. Raises MemoryError or OSError(ENOMEM) if memory is short."""
        buffers = [self._world.files.buffer(self._buffer_bytes) for _ in range(self._count)]
        with self._lock:
            self._buffers = buffers

    @property
    def available(self) -> int:
        return len(self._buffers)

    def borrow_buffer(self) -> memoryview | None:
        with self._lock:
            if not self._buffers:
                return None
            self.lent_count += 1
            return self._buffers.pop()

    def give_back(self, buffer: memoryview) -> None:
        """Take back a buffer, to which the caller must not write any more."""
        assert len(buffer) == self._buffer_bytes, (len(buffer), self._buffer_bytes)
        with self._lock:
            assert self.lent_count > 0, "a buffer was returned twice"
            self.lent_count -= 1
            self._buffers.append(buffer)

    def drain(self) -> None:
        """Free the unused buffers. Each segment frees its own buffer."""
        with self._lock:
            self._buffers = []


class BufferedSegment(Segment):
    """A segment that returns its buffer to the pool after all bytes are committed.

    Invariant: 0 <= flushed <= committed <= wrote <= size_bytes, and the file equals the buffer up to `committed`.
    """

    __slots__ = ("_buffer", "_pool", "_readable_store_timestamp_ms", "_used_bytes", "committed")

    def __init__(
        self,
        tasks: Tasks,
        file: MappedFile,
        base_offset: int,
        label: str,
        *,
        pool: TransientStorePool,
        buffer: memoryview,
    ) -> None:
        super().__init__(tasks, file, base_offset, label)
        assert len(buffer) == self.size_bytes, (len(buffer), self.size_bytes)
        self.pages = None
        self.committed = self.readable = tasks.cell(f"{label}.committed")
        self._pool = pool
        self._buffer = buffer
        self._used_bytes = self.size_bytes
        """End of the used bytes of a full segment, after which the file contains zeros."""
        self._readable_store_timestamp_ms = 0

    @property
    def readable_store_timestamp_ms(self) -> int:
        return self._readable_store_timestamp_ms

    def append(self, position: int, data: bytes | bytearray | memoryview) -> None:
        end = position + len(data)
        assert 0 <= position <= end <= len(self._buffer), (position, end, len(self._buffer))
        self._buffer[position:end] = data
        self.wrote.set(end)

    def close_with_blank(self, position: int, blank: bytes) -> None:
        self._used_bytes = position + len(blank)
        assert 0 <= position <= self._used_bytes <= len(self._buffer), (position, self._used_bytes)
        self._buffer[position : self._used_bytes] = blank
        self.blank_from = position
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Write appended bytes to the file if they fill least_pages pages, or the segment is full.

        Returns `committed`. With least_pages 0, one byte is enough. Only one task may call `commit`. After an OSError,
        the next call writes the same bytes again.
        """
        store_timestamp_ms = self.store_timestamp_ms
        wrote = self.wrote.get()
        committed = self.committed.get()
        assert 0 <= committed <= wrote <= self.size_bytes, (committed, wrote, self.size_bytes)
        full = wrote == self.size_bytes
        if wrote == committed:
            self._readable_store_timestamp_ms = store_timestamp_ms
            return committed
        if least_pages and not full and wrote // PAGE_BYTES - committed // PAGE_BYTES < least_pages:
            return committed
        if full:  # no append follows, and the time read above may be that of the record before the last one
            store_timestamp_ms = self.store_timestamp_ms
        self._write(committed, self._used_bytes if full else wrote)
        self.committed.set(wrote)
        self._readable_store_timestamp_ms = store_timestamp_ms
        if full:
            self.give_buffer_back()
        return wrote

    @property
    def holds_buffer(self) -> bool:
        return self._buffer is not _NOTHING

    def give_buffer_back(self) -> None:
        """Return the buffer to the pool. No append or commit may follow."""
        buffer, self._buffer = self._buffer, _NOTHING
        self._pool.give_back(buffer)

    def _write(self, at: int, end: int) -> None:
        assert 0 <= at <= end <= len(self._buffer), (at, end, len(self._buffer))
        while at < end:
            # If the simulation forces this branch, only the first half is written.
            stop = (at + end) // 2 if end - at > 1 and is_forced("short write continued") else end
            written = self.file.pwrite(at, self._buffer[at:stop])
            if written <= 0:
                raise OSError(errno.EIO, "a write returned 0 bytes", self.file.path)
            at += written
            if at < end:
                count_mark("short write continued")

    def _sync(self, start: int, end: int) -> None:
        """Sync with fdatasync, which is enough because commits write through the file descriptor."""
        self.file.fdatasync()


class BufferedSegmentQueue(SegmentQueue):
    """A queue of segments with and without write buffers. Only one task may commit."""

    _open_base = 0
    """Base offset of the first segment that may contain uncommitted bytes."""

    @property
    def committed_where(self) -> int:
        open_base = self._open_base  # read first: another task may advance to a segment that is not in `segments`
        segments = self.segments
        if not segments:
            return 0
        index, last = segment_index(segments, open_base, self.segment_bytes), len(segments) - 1
        while index < last and segments[index].readable.get() == self.segment_bytes:
            index += 1
        segment = segments[index]
        self._open_base = segment.base_offset
        return segment.base_offset + segment.readable.get()

    @property
    def max_offset(self) -> int:
        return self.committed_where

    def commit(self, least_pages: int = 0) -> int:
        """Commit, and return `committed_where`. A segment is committed after all earlier segments.

        Raises OSError like `BufferedSegment.commit`.
        """
        where = self.committed_where
        while (segment := self.find(where)) is not None:
            committed = segment.base_offset + segment.commit(least_pages)
            if committed == where:
                break
            assert committed > where, (committed, where)
            where = committed
        return where


class CommitRealTimeService(Service):
    """Commits whole pages after each put, and all bytes at longer intervals."""

    name = "commit-real-time"

    def __init__(self, world: World, config: StoreConfig, queue: BufferedSegmentQueue, flags: RunningFlags) -> None:
        super().__init__(world)
        self.on_committed: Callable[[], None] = do_nothing
        self.last_error: OSError | None = None
        self._config = config
        self._queue = queue
        self._flags = flags
        self._committed_where = 0
        self._thorough_ns = 0
        """Monotonic time of the last progress, or of the last commit of all bytes."""

    def start(self) -> None:
        self._committed_where = self._queue.committed_where
        self._thorough_ns = self.world.clock.monotonic_ns()
        super().start()

    def run_once(self) -> None:
        self.signal.wait(self._config.commit_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = self._config.commit_commit_log_least_pages
        if now_ns - self._thorough_ns >= self._config.commit_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        if self.commit(least_pages):
            self._thorough_ns = self.world.clock.monotonic_ns()

    def commit(self, least_pages: int) -> bool:
        """Commit. If the readable bytes grew, call on_committed and return True."""
        try:
            self._queue.commit(least_pages)
        except OSError as error:
            count_mark("commit failed")
            self.last_error = error
            if is_disk_full(error):
                self._flags.add_refusal(RefusalReason.DISK_FULL)  # retention clears DISK_FULL later
            else:
                self._flags.refuse_until_restart(RefusalReason.NOT_WRITEABLE, f"a write to the log failed: {error}")
        where = self._queue.committed_where
        if where == self._committed_where:
            return False
        assert where > self._committed_where, (where, self._committed_where)
        self._committed_where = where
        self.on_committed()
        return True

    def finish_remaining_work(self) -> None:
        """Commit all bytes. No put may follow."""
        self.commit(0)

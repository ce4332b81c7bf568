"""Transient store pool: puts go to process memory, and a commit task writes them.

    0 <= flushed <= committed <= wrote <= size_bytes, in each segment

RocketMQ's TransientStorePool, MappedFile with a write buffer, and CommitRealTimeService. Readers see only committed
bytes; the rest of the file is zero. Uncommitted bytes are lost with the process. Commits follow log order, so readable
bytes end in the first segment that is not completely written.
"""

import errno
from collections.abc import Callable

from ..config import StoreConfig
from ..errors import is_disk_full
from ..marks import forces, hit
from ..running_flags import Refusal, RunningFlags
from ..service import Service, do_nothing
from ..world import MappedFile, Tasks, World
from .segment import PAGE_BYTES, Segment
from .segment_queue import SegmentQueue

_NOTHING = memoryview(b"")


class TransientStorePool:
    """Buffers of one size that are lent to segments. They are not cleared, because a commit copies only appended bytes.

    Invariant: the pool never holds more buffers than it created; each is lent to one segment and returned once.
    """

    def __init__(self, world: World, buffer_bytes: int, count: int) -> None:
        self._world = world
        self._buffer_bytes = buffer_bytes
        self._count = count
        self._lock = world.tasks.lock("transient pool")
        self._buffers: list[memoryview] = []
        """A stack: the most recently returned buffer is warm and is reused first."""

    def fill(self) -> None:
        """Allocate the buffers. Raises MemoryError or OSError(ENOMEM) if memory is short."""
        buffers = [self._world.files.buffer(self._buffer_bytes) for _ in range(self._count)]
        with self._lock:
            self._buffers = buffers

    @property
    def available(self) -> int:
        """Return the number of free buffers."""
        return len(self._buffers)

    def borrow(self) -> memoryview | None:
        """Take a buffer, or return None if all are lent."""
        with self._lock:
            return self._buffers.pop() if self._buffers else None

    def give_back(self, buffer: memoryview) -> None:
        """Return a buffer that is no longer written to."""
        assert len(buffer) == self._buffer_bytes, (len(buffer), self._buffer_bytes)
        with self._lock:
            assert len(self._buffers) < self._count, "a buffer came back twice"
            self._buffers.append(buffer)

    def drain(self) -> None:
        """Release the free buffers. Lent ones are freed with their segment."""
        with self._lock:
            self._buffers = []


class BufferedSegment(Segment):
    """A new segment with a buffer, which it returns once it is full and completely committed.

    Invariant: 0 <= flushed <= committed <= wrote <= size_bytes, and the file equals the buffer up to committed.
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
        self.committed = self.readable = tasks.cell(f"{label}.committed")
        self._pool = pool
        self._buffer = buffer
        self._used_bytes = self.size_bytes
        """End of the used bytes of a full segment. The file stays zero after the header of its blank record."""
        self._readable_store_timestamp_ms = 0

    @property
    def readable_store_timestamp_ms(self) -> int:
        return self._readable_store_timestamp_ms

    def append(self, position: int, data: bytes | bytearray | memoryview) -> None:
        end = position + len(data)
        assert 0 <= position <= end <= len(self._buffer), (position, end, len(self._buffer))
        self._buffer[position:end] = data
        self.wrote.set(end)

    def close_with(self, position: int, blank: bytes) -> None:
        self._used_bytes = position + len(blank)
        assert 0 <= position <= self._used_bytes <= len(self._buffer), (position, self._used_bytes)
        self._buffer[position : self._used_bytes] = blank
        self.blank_from = position
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Write appended bytes to the file if they are least_pages or more, or fill the segment. Returns `committed`.

        With least_pages 0 any byte counts. Only one task commits. If the write raises OSError, `committed` stays, and
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
        self._write(committed, self._used_bytes if full else wrote)
        self.committed.set(wrote)
        self._readable_store_timestamp_ms = store_timestamp_ms
        if full:
            buffer, self._buffer = self._buffer, _NOTHING
            self._pool.give_back(buffer)
        return wrote

    def _write(self, at: int, end: int) -> None:
        """Write the buffer's bytes [at, end) to the file, continuing after short writes."""
        assert 0 <= at <= end <= len(self._buffer), (at, end, len(self._buffer))
        while at < end:
            # A forced branch writes only the first half. A single byte cannot be halved.
            stop = (at + end) // 2 if end - at > 1 and forces("short write continued") else end
            written = self.file.pwrite(at, self._buffer[at:stop])
            if written <= 0:
                raise OSError(errno.EIO, "a write wrote nothing", self.file.path)
            at += written
            if at < end:
                hit("short write continued")

    def _sync(self, start: int, end: int) -> None:
        """Sync the bytes that were written through the descriptor."""
        self.file.fdatasync()


class BufferedSegmentQueue(SegmentQueue):
    """A queue of segments with and without a write buffer. Only one task commits."""

    _open_base = 0
    """Base of the first segment that may not be completely written. All earlier ones are."""

    @property
    def committed_where(self) -> int:
        """Return the offset up to which the files are written, 0 without segments."""
        segments = self.segments
        if not segments:
            return 0
        index, last = self.number_of(self._open_base), len(segments) - 1
        while index < last and segments[index].readable.get() == self.segment_bytes:
            index += 1
        segment = segments[index]
        self._open_base = segment.base_offset
        return segment.base_offset + segment.readable.get()

    @property
    def max_offset(self) -> int:
        """Return the end of the readable bytes, 0 if there are none."""
        return self.committed_where

    def commit(self, least_pages: int = 0) -> int:
        """Commit segment after segment. Returns `committed_where`.

        It moves to the next segment only when one is completely written. Raises OSError like `BufferedSegment.commit`.
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
    """Commits whole pages when puts wake it, and everything at longer intervals."""

    name = "commit-real-time"

    def __init__(self, world: World, config: StoreConfig, queue: BufferedSegmentQueue, flags: RunningFlags) -> None:
        super().__init__(world)
        self.on_committed: Callable[[], None] = do_nothing
        self.last_error: OSError | None = None
        self._config = config
        self._queue = queue
        self._flags = flags
        self._committed_where = 0
        """The last announced offset."""
        self._thorough_ns = 0
        """Time of the last progress or full commit."""

    def start(self) -> None:
        """Start the task. The first full commit is one interval away."""
        self._committed_where = self._queue.committed_where
        self._thorough_ns = self.world.clock.monotonic_ns()
        super().start()

    def step(self) -> None:
        """Wait for a put or one interval. Commit whole pages, or everything if the last full commit was long ago."""
        self.signal.wait(self._config.commit_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = self._config.commit_commit_log_least_pages
        if now_ns - self._thorough_ns >= self._config.commit_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        if self.commit(least_pages):
            self._thorough_ns = self.world.clock.monotonic_ns()

    def commit(self, least_pages: int) -> bool:
        """Commit as much as possible. If the readable part grew, announce it and return True."""
        try:
            self._queue.commit(least_pages)
        except OSError as error:
            hit("commit failed")
            self.last_error = error
            if is_disk_full(error):
                self._flags.refuse(Refusal.DISK_FULL)  # retention clears it when there is room again
            else:
                self._flags.refuse_for_good(Refusal.NOT_WRITEABLE)
        where = self._queue.committed_where
        if where == self._committed_where:
            return False
        assert where > self._committed_where, (where, self._committed_where)
        self._committed_where = where
        self.on_committed()
        return True

    def finish(self) -> None:
        """Commit everything. Puts have ended before this call."""
        self.commit(0)

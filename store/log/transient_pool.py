"""Transient store pool: puts go to memory of this process first, and a commit task moves them to the files.

    0 <= flushed <= committed <= wrote <= size_bytes, in each segment

RocketMQ's TransientStorePool, MappedFile with a write buffer, and CommitRealTimeService. Readers see only what is
committed: behind it the file has zeros. What was not committed dies with the process. Commits go from the front of the
log to the back, so what readers may see ends in the first segment that is not wholly in its file.
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
    """Buffers of one size, lent to segments. They come back uncleared: a commit moves only what was put.

    Invariant: no more buffers are here than were made, for each is lent to one segment and comes back once.
    """

    def __init__(self, world: World, buffer_bytes: int, count: int) -> None:
        self._world = world
        self._buffer_bytes = buffer_bytes
        self._count = count
        self._lock = world.tasks.lock("transient pool")
        self._buffers: list[memoryview] = []
        """The front is the end: the buffer that came back last is warm, and goes first."""

    def fill(self) -> None:
        """Make the buffers. MemoryError or OSError(ENOMEM) if the system has not that much."""
        buffers = [self._world.files.buffer(self._buffer_bytes) for _ in range(self._count)]
        with self._lock:
            self._buffers = buffers

    @property
    def available(self) -> int:
        """Return how many buffers could be borrowed now."""
        return len(self._buffers)

    def borrow(self) -> memoryview | None:
        """Take a buffer, None if all are out."""
        with self._lock:
            return self._buffers.pop() if self._buffers else None

    def give_back(self, buffer: memoryview) -> None:
        """Return a buffer that nobody writes to any more."""
        assert len(buffer) == self._buffer_bytes, (len(buffer), self._buffer_bytes)
        with self._lock:
            assert len(self._buffers) < self._count, "a buffer came back twice"
            self._buffers.append(buffer)

    def drain(self) -> None:
        """Let the memory go: what is out goes with its segment."""
        with self._lock:
            self._buffers = []


class BufferedSegment(Segment):
    """A new segment with a buffer of the pool, which it gives back once it is full and all of it is in the file.

    Invariant: 0 <= flushed <= committed <= wrote <= size_bytes, and the file has the buffer's bytes up to committed.
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
        """Where the bytes of a full segment end: behind its blank record's few, the file keeps its zeros."""
        self._readable_store_timestamp_ms = 0

    @property
    def readable_store_timestamp_ms(self) -> int:
        """Return a store time that is never newer than what `committed` covers."""
        return self._readable_store_timestamp_ms

    def append(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Put data behind what is there, in memory. The caller is the only writer and has seen that data fits."""
        end = position + len(data)
        assert 0 <= position <= end <= len(self._buffer), (position, end, len(self._buffer))
        self._buffer[position:end] = data
        self.wrote.set(end)

    def close_with(self, position: int, blank: bytes) -> None:
        """Put the blank record behind what is there, in memory, and declare the segment full."""
        self._used_bytes = position + len(blank)
        assert 0 <= position <= self._used_bytes <= len(self._buffer), (position, self._used_bytes)
        self._buffer[position : self._used_bytes] = blank
        self.blank_from = position
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Move what was put to the file if it is least_pages or more, or fills the segment; return `committed`.

        least_pages 0 means any byte. One task commits. An OSError leaves `committed` where it was; the bytes are still
        in the buffer, and another call writes them again.
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
        """Write the buffer's bytes [at, end) to the file, however short each write falls."""
        assert 0 <= at <= end <= len(self._buffer), (at, end, len(self._buffer))
        while at < end:
            # A forced branch writes the first half alone. A single byte cannot be halved.
            stop = (at + end) // 2 if end - at > 1 and forces("short write continued") else end
            written = self.file.pwrite(at, self._buffer[at:stop])
            if written <= 0:
                raise OSError(errno.EIO, "a write wrote nothing", self.file.path)
            at += written
            if at < end:
                hit("short write continued")

    def _sync(self, start: int, end: int) -> None:
        """Make what was written through the descriptor durable."""
        self.file.fdatasync()


class BufferedSegmentQueue(SegmentQueue):
    """Segments with and without a write buffer in a row. One task commits."""

    _open_base = 0
    """Where the first segment begins that may not be whole in its file; every one in front of it is."""

    @property
    def committed_where(self) -> int:
        """Return the offset up to which everything is in the files, 0 if there is no segment."""
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
        """Return the offset behind the last byte readers may see, 0 if there is none."""
        return self.committed_where

    def commit(self, least_pages: int = 0) -> int:
        """Move what was put to the files, segment after segment; return `committed_where`.

        A segment is left behind only when it is whole in its file. Raises OSError as `BufferedSegment.commit` does.
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
    """Commit what has gathered whenever puts wake it, everything every so often."""

    name = "commit-real-time"

    def __init__(self, world: World, config: StoreConfig, queue: BufferedSegmentQueue, flags: RunningFlags) -> None:
        super().__init__(world)
        self.on_committed: Callable[[], None] = do_nothing
        """Called after there was more to see in the log."""
        self.last_error: OSError | None = None
        self._config = config
        self._queue = queue
        self._flags = flags
        self._committed_where = 0
        """What was announced last."""
        self._thorough_ns = 0
        """When there was something to commit, or everything was, the last time."""

    def start(self) -> None:
        """Begin to commit what is put from now on; everything for the first time in one interval."""
        self._committed_where = self._queue.committed_where
        self._thorough_ns = self.world.clock.monotonic_ns()
        super().start()

    def step(self) -> None:
        """Wait for a put, or one interval; commit whole pages, or everything if that was long ago."""
        self.signal.wait(self._config.commit_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = self._config.commit_commit_log_least_pages
        if now_ns - self._thorough_ns >= self._config.commit_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        if self.commit(least_pages):
            self._thorough_ns = self.world.clock.monotonic_ns()

    def commit(self, least_pages: int) -> bool:
        """Commit what is able to be; return whether there is more to see than before, and say so if there is."""
        try:
            self._queue.commit(least_pages)
        except OSError as error:
            hit("commit failed")
            self.last_error = error
            if is_disk_full(error):
                self._flags.refuse(Refusal.DISK_FULL)  # retention takes it back once it has seen room
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
        """Commit everything. Puts have ended by now: nothing can come behind it."""
        self.commit(0)

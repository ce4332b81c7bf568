"""A segment that is written to in memory first: RocketMQ's MappedFile with a write buffer.

    0 <= flushed <= committed <= wrote <= size_bytes

A put touches nothing but memory of this process. `commit` moves bytes to the file through the descriptor, and readers
see what is committed only, for behind that the file has zeros. What was not committed dies with the process.
"""

import errno

from ..marks import hit
from ..world import MappedFile, Tasks
from .segment import PAGE_BYTES, Segment
from .transient_pool import TransientStorePool


class BufferedSegment(Segment):
    """A new segment with a buffer of the pool, which it gives back once it is full and all of it is in the file."""

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
        self._buffer[position : position + len(data)] = data
        self.wrote.set(position + len(data))

    def close_with(self, position: int, blank: bytes) -> None:
        """Put the blank record behind what is there, in memory, and declare the segment full."""
        self._used_bytes = position + len(blank)
        self._buffer[position : self._used_bytes] = blank
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Move what was put to the file if it is least_pages or more, or fills the segment; return `committed`.

        least_pages 0 means any byte. One task commits. An OSError leaves `committed` where it was; the bytes are still
        in the buffer, and another call writes them again.
        """
        store_timestamp_ms = self.store_timestamp_ms
        wrote = self.wrote.get()
        committed = self.committed.get()
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
        while at < end:
            written = self.file.pwrite(at, self._buffer[at:end])
            if written <= 0:
                raise OSError(errno.EIO, "a write wrote nothing", self.file.path)
            at += written
            if at < end:
                hit("short write continued")

    def _sync(self, start: int, end: int) -> None:
        """Make what was written through the descriptor durable."""
        self.file.fdatasync()


_NOTHING = memoryview(b"")

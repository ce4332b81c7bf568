"""Segment: one file of a log or queue, and the positions that validate its bytes.

    0 <= flushed <= readable <= wrote <= size_bytes

RocketMQ's MappedFile. `wrote` is the end of the appended bytes, `readable` of the bytes that readers may see, `flushed`
of those that survive a power cut. Each advances only after its step is done. Without a write buffer, readable is wrote.
"""

from ..world import MappedFile, Tasks

PAGE_BYTES = 4096  # RocketMQ MappedFile.OS_PAGE_SIZE, which settings in pages are counted in
_BASE_OFFSET_MAX = (1 << 63) - (1 << 31)
"""Offsets are signed 64-bit integers, and a segment is shorter than 2^31 bytes."""


def segment_name(base_offset: int) -> str:
    """Return a segment's file name: its base offset in 20 digits (RocketMQ's UtilAll.offset2FileName)."""
    return f"{base_offset:020d}"


def is_segment_name(name: str) -> bool:
    """Return whether a file name can be a segment's. All of its offsets must fit a record's field."""
    return len(name) == 20 and name.isascii() and name.isdecimal() and int(name) <= _BASE_OFFSET_MAX


class Segment:
    """A mapped file whose first byte has the offset base_offset.

    Invariant: 0 <= flushed <= readable <= wrote <= size_bytes; while the store runs, no position moves back.
    """

    __slots__ = (
        *("base_offset", "blank_from", "file", "flushed", "readable", "size_bytes", "store_timestamp_ms"),
        "wrote",
    )

    def __init__(self, tasks: Tasks, file: MappedFile, base_offset: int, label: str) -> None:
        assert base_offset >= 0, base_offset
        self.file = file
        self.base_offset = base_offset
        self.size_bytes = file.size_bytes
        self.wrote = tasks.cell(f"{label}.wrote")
        self.readable = self.wrote
        self.flushed = tasks.cell(f"{label}.flushed")
        self.blank_from = self.size_bytes
        """Position of the blank record if this process closed the file. Set before `wrote`."""
        self.store_timestamp_ms = 0
        """Store time of the last record. Set after `wrote` and read before it, so it is never newer than the bytes
        below `wrote`."""

    @property
    def end_offset(self) -> int:
        """Return the offset after the file's last byte."""
        return self.base_offset + self.size_bytes

    @property
    def readable_store_timestamp_ms(self) -> int:
        """Return a store time that is not newer than the bytes below `readable`."""
        return self.store_timestamp_ms

    def append(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Append data at `position`. The caller is the only writer, has read `wrote` and checked the room."""
        end = position + len(data)
        assert 0 <= position <= end <= self.size_bytes, (position, end, self.size_bytes)
        self.file.store(position, data)
        self.wrote.set(end)  # after the store, so that a flush in between does not count missing bytes as durable

    def close_with(self, position: int, blank: bytes) -> None:
        """Append the blank record like `append`, and mark the file as full."""
        assert 0 <= position <= self.size_bytes - len(blank), (position, len(blank), self.size_bytes)
        self.file.store(position, blank)
        self.blank_from = position
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Return the readable end. Without a write buffer, appended bytes are readable at once."""
        return self.wrote.get()

    def flush(self, least_pages: int) -> int:
        """Sync the readable bytes if they are least_pages or more, or fill the file. Returns `flushed`.

        With least_pages 0 any byte counts. If sync raises OSError, `flushed` stays, because no new byte may be durable.
        """
        readable = self.readable.get()
        flushed = self.flushed.get()
        assert 0 <= flushed <= readable <= self.size_bytes, (flushed, readable, self.size_bytes)
        if readable == flushed:
            return flushed
        pages = readable // PAGE_BYTES - flushed // PAGE_BYTES
        if least_pages and readable < self.size_bytes and pages < least_pages:
            return flushed
        self._sync(flushed, readable)
        self.flushed.set(readable)  # the value from before the sync, because later puts are not covered
        return readable

    def _sync(self, start: int, end: int) -> None:
        self.file.msync(start, end)

    def set_positions(self, wrote: int, flushed: int) -> None:
        """Set the positions found by recovery: valid bytes end at wrote, durable bytes at flushed."""
        assert 0 <= flushed <= wrote <= self.size_bytes, (flushed, wrote, self.size_bytes)
        self.wrote.set(wrote)
        self.flushed.set(flushed)

    def write_again(self, start: int, end: int) -> None:
        """Rewrite the bytes [start, end) with themselves, which marks their pages dirty."""
        assert start >= 0, start
        assert end <= self.size_bytes, (end, self.size_bytes)
        for at in range(start, end, _CHUNK_BYTES):
            self.file.store(at, bytes(self.file.view(at, min(at + _CHUNK_BYTES, end))))

    def clear_from(self, position: int, *, syncs_zeros: bool = False) -> bool:
        """Durably zero the file from `position` on. Returns whether there was a non-zero byte.

        Otherwise bytes after a truncation would become valid again if a later record ended exactly where an old one
        begins. syncs_zeros: sync also if the page cache has only zeros. The disk may differ if a process died during a
        truncation.
        """
        assert 0 <= position <= self.size_bytes, (position, self.size_bytes)
        start = self._first_nonzero_from(position)
        if start is None:
            if syncs_zeros and position < self.size_bytes:
                self.file.msync(position, self.size_bytes)
            return False
        for at in range(start, self.size_bytes, _CHUNK_BYTES):
            self.file.store(at, _ZEROS[: min(_CHUNK_BYTES, self.size_bytes - at)])
        self.file.msync(position, self.size_bytes)
        return True

    def _first_nonzero_from(self, position: int) -> int | None:
        """Return the position of the first non-zero byte. Pages of a long file are released after reading."""
        for at in range(position, self.size_bytes, _GIVE_BACK_BYTES):
            end = min(at + _GIVE_BACK_BYTES, self.size_bytes)
            dirty = first_nonzero(self.file.view(at, end))
            if dirty is not None:
                return at + dirty
            if self.size_bytes > _GIVE_BACK_BYTES:
                self.file.advise_dont_need(at, end)
        return None


_GIVE_BACK_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 16
_ZEROS = bytes(_CHUNK_BYTES)


def first_nonzero(view: memoryview) -> int | None:
    """Return the position of the first non-zero byte of view, or None."""
    for at in range(0, len(view), _CHUNK_BYTES):
        chunk = bytes(view[at : at + _CHUNK_BYTES])
        if chunk != _ZEROS[: len(chunk)]:
            return at + len(chunk) - len(chunk.lstrip(b"\0"))
    return None

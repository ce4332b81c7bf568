"""Segment: one mapped file of a log or queue, and the end positions of its bytes.

RocketMQ's MappedFile. `wrote` is the end of the appended bytes, `readable` the end of the bytes that readers may use,
and `flushed` the end of the durable bytes. Each end advances only after its append, commit or sync succeeded. Without a
write buffer, `readable` equals `wrote`.
"""

from ..world import MappedFile, Tasks

PAGE_BYTES = 4096  # RocketMQ MappedFile.OS_PAGE_SIZE, the unit of settings in pages
_BASE_OFFSET_MAX = (1 << 63) - (1 << 31)
"""Offsets are signed 64-bit integers, and a segment is shorter than 2^31 bytes."""


def segment_name(base_offset: int) -> str:
    """Return the base offset in 20 digits (RocketMQ's UtilAll.offset2FileName)."""
    return f"{base_offset:020d}"


def is_segment_name(name: str) -> bool:
    """Return whether a name has 20 digits and all offsets of the segment fit into a record's field."""
    return len(name) == 20 and name.isascii() and name.isdecimal() and int(name) <= _BASE_OFFSET_MAX


class Segment:
    """A mapped file. Its first byte has the offset base_offset.

    Invariant: 0 <= flushed <= readable <= wrote <= size_bytes; they never decrease while the store runs.
    """

    __slots__ = (
        *("base_offset", "blank_from", "file", "flushed", "pages", "readable", "size_bytes", "store_timestamp_ms"),
        "wrote",
    )

    def __init__(self, tasks: Tasks, file: MappedFile, base_offset: int, label: str) -> None:
        assert base_offset >= 0, base_offset
        self.file = file
        self.base_offset = base_offset
        self.size_bytes = file.size_bytes
        self.pages: memoryview | None = getattr(file, "pages", None)
        """Pages to which the C core may append; None if the file observes or changes writes, so `append` must write."""
        self.wrote = tasks.cell(f"{label}.wrote")
        self.readable = self.wrote
        self.flushed = tasks.cell(f"{label}.flushed")
        self.blank_from = self.size_bytes
        """Position of the blank record that this process appended; size_bytes without one. Set before `wrote`."""
        self.store_timestamp_ms = 0
        """Store time of the last record.

        Writers set it after `wrote`, and readers read it before `wrote`. So readers never get the store time of a
        record that ends after `wrote`.
        """

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.size_bytes

    @property
    def readable_store_timestamp_ms(self) -> int:
        return self.store_timestamp_ms

    def append(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Append data at `position`, which equals `wrote`. Only one task may append."""
        end = position + len(data)
        assert 0 <= position <= end <= self.size_bytes, (position, end, self.size_bytes)
        self.file.store(position, data)
        self.wrote.set(end)  # set last, or a concurrent flush would count bytes as durable before they are stored

    def close_with_blank(self, position: int, blank: bytes) -> None:
        assert 0 <= position <= self.size_bytes - len(blank), (position, len(blank), self.size_bytes)
        self.file.store(position, blank)
        self.blank_from = position
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Return `readable`. Appended bytes are readable at once, because this segment has no write buffer."""
        return self.wrote.get()

    def flush(self, least_pages: int) -> int:
        """Sync the readable bytes if least_pages or more pages are unflushed, or the segment is full.

        Returns `flushed`. With least_pages 0, one unflushed byte is enough for a sync. After an OSError, `flushed` has
        not advanced.
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
        self.flushed.set(readable)  # read before the sync, because bytes appended during the sync may not be durable
        return readable

    def _sync(self, start: int, end: int) -> None:
        self.file.msync(start, end)

    def set_positions(self, wrote: int, flushed: int) -> None:
        assert 0 <= flushed <= wrote <= self.size_bytes, (flushed, wrote, self.size_bytes)
        self.wrote.set(wrote)
        self.flushed.set(flushed)

    def write_again(self, start: int, end: int) -> None:
        """Store readable bytes again, so that the next sync writes their pages to the disk."""
        assert start >= 0, start
        assert end <= self.size_bytes, (end, self.size_bytes)
        for at in range(start, end, _CHUNK_BYTES):
            self.file.store(at, bytes(self.file.view(at, min(at + _CHUNK_BYTES, end))))

    def zero_from(self, position: int, *, syncs_zeros: bool = False) -> bool:
        """Durably fill the file with zeros from `position` on. Returns whether any of these bytes was not zero.

        Otherwise a truncated record would become valid again when a new record ends at its start. syncs_zeros: sync
        even if the page cache contains only zeros. The disk may contain other bytes if an earlier process died during a
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
        """Return the first position of a non-zero byte. Releases the pages of a long file after reading them."""
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
    for at in range(0, len(view), _CHUNK_BYTES):
        chunk = bytes(view[at : at + _CHUNK_BYTES])
        if chunk != _ZEROS[: len(chunk)]:
            return at + len(chunk) - len(chunk.lstrip(b"\0"))
    return None

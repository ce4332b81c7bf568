"""Segment: one file of a log or queue. RocketMQ's MappedFile, with the positions that make its bytes count.

    0 <= flushed <= readable <= wrote <= size_bytes

`wrote` ends what was put, `readable` what readers may see, `flushed` what survives a power cut. Each moves only after
the step it stands for. Without a write buffer readable and wrote are one.
"""

from ..world import MappedFile, Tasks

PAGE_BYTES = 4096  # RocketMQ MappedFile.OS_PAGE_SIZE, which settings in pages are counted in
_BASE_OFFSET_MAX = (1 << 63) - (1 << 31)
"""Offsets are signed and have 64 bits, and a segment is shorter than 2^31 bytes."""


def segment_name(base_offset: int) -> str:
    """Return a segment's file name: its first byte's offset, 20 digits (RocketMQ's UtilAll.offset2FileName)."""
    return f"{base_offset:020d}"


def is_segment_name(name: str) -> bool:
    """Return whether a file can be a segment, by its name: each of its offsets fits a record's field."""
    return len(name) == 20 and name.isascii() and name.isdecimal() and int(name) <= _BASE_OFFSET_MAX


class Segment:
    """A mapped file whose first byte has the offset base_offset.

    Invariant: 0 <= flushed <= readable <= wrote <= size_bytes; while the store runs, none of them moves back.
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
        """Where the blank record begins that this life has closed the file with; set before `wrote`."""
        self.store_timestamp_ms = 0
        """Store time of the last record. Set after `wrote`, read before it: never newer than what `wrote` covers."""

    @property
    def end_offset(self) -> int:
        """Return the offset just behind the file."""
        return self.base_offset + self.size_bytes

    @property
    def readable_store_timestamp_ms(self) -> int:
        """Return a store time that is never newer than what `readable` covers."""
        return self.store_timestamp_ms

    def append(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Put data behind what is there. The caller is the only writer, has read `wrote` and seen that data fits."""
        end = position + len(data)
        assert 0 <= position <= end <= self.size_bytes, (position, end, self.size_bytes)
        self.file.store(position, data)
        self.wrote.set(end)  # after the store: a flush in between must not count missing bytes as durable

    def close_with(self, position: int, blank: bytes) -> None:
        """Put the blank record behind what is there, as `append` does, and declare the file full."""
        assert 0 <= position <= self.size_bytes - len(blank), (position, len(blank), self.size_bytes)
        self.file.store(position, blank)
        self.blank_from = position
        self.wrote.set(self.size_bytes)

    def commit(self, least_pages: int) -> int:
        """Return up to where readers see what was put: without a write buffer, everywhere."""
        return self.wrote.get()

    def flush(self, least_pages: int) -> int:
        """Make what readers see durable if it is least_pages or more, or fills the file; return `flushed`.

        least_pages 0 means any byte. An OSError leaves `flushed` where it was: nothing new may be assumed durable.
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
        self.flushed.set(readable)  # the value from before the sync: later puts are not covered
        return readable

    def _sync(self, start: int, end: int) -> None:
        self.file.msync(start, end)

    def set_positions(self, wrote: int, flushed: int) -> None:
        """Say what recovery found: bytes up to wrote count, those up to flushed are durable."""
        assert 0 <= flushed <= wrote <= self.size_bytes, (flushed, wrote, self.size_bytes)
        self.wrote.set(wrote)
        self.flushed.set(flushed)

    def write_again(self, start: int, end: int) -> None:
        """Write the bytes [start, end) over themselves, if there are any: their pages are dirty again."""
        assert start >= 0, start
        assert end <= self.size_bytes, (end, self.size_bytes)
        for at in range(start, end, _CHUNK_BYTES):
            self.file.store(at, bytes(self.file.view(at, min(at + _CHUNK_BYTES, end))))

    def clear_from(self, position: int, *, syncs_zeros: bool = False) -> bool:
        """Zero the file from position on, durably; return whether anything but zeros was there.

        Bytes behind a cut would come back to life if a later record ended exactly where an old one begins. syncs_zeros:
        whether the disk may have something where the page cache has zeros, as when a process died while it cut.
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
        """Return the position of the first byte that is not zero; of a long file, what was read leaves the memory."""
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
    """Return the position of the first byte of view that is not zero, None if all are."""
    for at in range(0, len(view), _CHUNK_BYTES):
        chunk = bytes(view[at : at + _CHUNK_BYTES])
        if chunk != _ZEROS[: len(chunk)]:
            return at + len(chunk) - len(chunk.lstrip(b"\0"))
    return None

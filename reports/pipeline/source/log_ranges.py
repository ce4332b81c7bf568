"""Ranges of the log, one for each task: so many bytes of a segment, cut anywhere.

A range has the records that begin in it. No cut is looked up when ranges are made; the task that reads a range finds
its first record, and the task in front of it goes on up to there, as both follow the same chain: a segment's first byte
begins a record, and each record says where the next one does. A task need not follow it from there. Not far in front of
its range it looks for what seems to be a record and has an entry in its queue: a body may hold anything, but no entry
leads into one. From such a record on the chain leads into the range, through whatever damage is in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct

from ....store.errors import CorruptFileError
from ....store.formats.message import BLANK_BYTES, MESSAGE_MAGIC, MESSAGE_MAGIC_V2, RECORD_BYTES_MIN
from ....store.formats.scan import ScannedRecord, chain, find_record, is_closed_at, scan_records
from .directory import StoreDirectory, StoreFile
from .queue_array import QueueArray

_LOOK_BACK_BYTES = 64 << 10
_LOOK_BACK_TIMES = 8
"""How much farther back is looked if there is no record that is proven."""
_PAGE_BYTES = 4096
_SIZE_AND_MAGIC = Struct(">ii")


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, end) of a segment, as one task reads them."""

    segment: StoreFile
    start: int
    end: int
    is_last: bool
    """Whether nothing has been written to later segments: what has not been written to this one is no damage."""
    known: int = 0
    """Where a record is known to begin: at start, or in front of it."""
    zeros_max: int | None = None
    """How many zeros behind the log's end are looked at, if not all of them."""

    @property
    def log_start(self) -> int:
        """Return the log offset of its first byte."""
        return self.segment.base_offset + self.start

    @property
    def log_end(self) -> int:
        """Return the log offset behind its last byte."""
        return self.segment.base_offset + self.end

    def within(self, low: int, high: int) -> "LogRange | None":
        """Return what of it is between two log offsets, None if nothing is."""
        start, end = max(self.log_start, low), min(self.log_end, high)
        base_offset = self.segment.base_offset
        return replace(self, start=start - base_offset, end=end - base_offset) if start < end else None


def log_ranges(directory: StoreDirectory, split_bytes: int, first: int = 0, to: int | None = None) -> list[LogRange]:
    """Return the log in ranges of split_bytes, in order; 0: one for each segment.

    first, to: log offsets where records are known to begin; what is between them is returned, to the end without `to`.
    """
    segments = directory.segments()
    last = last_begun(directory, segments)
    if not directory.has_queues:
        split_bytes = 0  # nothing would prove where a record begins
    found: list[LogRange] = []
    for segment in segments:
        start = max(first - segment.base_offset, 0)
        end = segment.size_bytes if to is None else min(segment.size_bytes, to - segment.base_offset)
        if start < end:
            whole = LogRange(segment, start, end, segment.base_offset >= last, known=start)
            found += _split(directory, whole, split_bytes)
    return found


def last_begun(directory: StoreDirectory, segments: list[StoreFile]) -> int:
    """Return the log offset of the last segment in which anything has been written, 0 without: some are made early."""
    return next((one.base_offset for one in reversed(segments) if has_begun(directory, one)), 0)


def has_begun(directory: StoreDirectory, segment: StoreFile) -> bool:
    """Return whether anything has been written where a segment's first record is: stores make segments in advance."""
    view, _ = directory.window(segment, 0, RECORD_BYTES_MIN)
    return bool(view[:RECORD_BYTES_MIN].tobytes().strip(b"\0"))


def _split(directory: StoreDirectory, whole: LogRange, split_bytes: int) -> Iterator[LogRange]:
    start = whole.start
    for cut in range(whole.start + split_bytes, whole.end, split_bytes) if split_bytes else ():
        if not (whole.is_last and _is_blank_before(directory, whole.segment, cut)):
            yield replace(whole, start=start, end=cut)
            start = cut
    yield replace(whole, start=start)


def _is_blank_before(directory: StoreDirectory, segment: StoreFile, cut: int) -> bool:
    """Return whether zeros end at a cut: one task is to see whether anything comes behind those at the log's end."""
    begin = max(cut - _PAGE_BYTES, 0)
    view, origin = directory.window(segment, begin, cut - begin)
    return not view[begin - origin : cut - origin].tobytes().strip(b"\0")


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """Where a task is to begin."""

    position: int
    is_sound: bool
    """Whether the chain leads there; else it was lost in front of it, and taken up at what seems to be a record."""


class RangeStart:
    """Finds where the first record of a range begins."""

    def __init__(self, directory: StoreDirectory) -> None:
        self._directory = directory
        self._queues: dict[tuple[str, int], QueueArray] = {}

    def find(self, log_range: LogRange) -> FirstRecord:
        """Return the first place from the range's start on that the chain leads to."""
        start = log_range.start
        if start == log_range.known:
            return FirstRecord(start, is_sound=True)
        back_bytes = _LOOK_BACK_BYTES
        while True:
            low = max(log_range.known, start - back_bytes)
            proven = low if low == log_range.known else self.proven_between(log_range.segment, low, start)
            if proven is not None:
                break
            back_bytes *= _LOOK_BACK_TIMES
        at, is_sound = proven, True
        while at < start:
            for boundary in boundaries(self._directory, log_range.segment, at):
                if boundary >= start:
                    return FirstRecord(boundary, is_sound)
                at = boundary
            view, origin = self._directory.window(log_range.segment, at, BLANK_BYTES)
            if is_closed_at(view, at - origin, log_range.segment.size_bytes - origin):
                return FirstRecord(log_range.end, is_sound)
            at, is_sound = next_candidate(self._directory, log_range.segment, at + 1, log_range.end), False
        return FirstRecord(at, is_sound)

    def proves(self, view: memoryview, position: int, base_offset: int) -> bool:
        """Return whether the queue of what seems to be a record at a position has an entry for it."""
        scan = scan_records(view, position, len(view), file="", base_offset=base_offset, check_crc=False)
        try:
            record = next(scan, None)
        except CorruptFileError:
            return False
        return record is not None and self._has_entry(record)

    def proven_between(self, segment: StoreFile, low: int, high: int) -> int | None:
        """Return the first place between two positions where a record begins that has an entry; None without."""
        view, origin = self._directory.window(segment, low, high - low + RECORD_BYTES_MIN)
        at, base_offset = low - origin, segment.base_offset + origin
        while True:
            found = find_record(view[: high - origin + RECORD_BYTES_MIN], at, base_offset, segment.size_bytes - origin)
            if found is None or found >= high - origin:
                return None
            record, begin = whole_record_at(self._directory, segment, found + origin, RECORD_BYTES_MIN)
            if self.proves(record, found + origin - begin, segment.base_offset + begin):
                return found + origin
            at = found + 1

    def _has_entry(self, record: ScannedRecord) -> bool:
        queue = record.topic, record.queue_id
        if queue not in self._queues:
            self._queues[queue] = QueueArray(self._directory, self._directory.files_of_queue(*queue))
        entry = self._queues[queue].at(record.queue_offset)
        return entry is not None and entry[:2] == (record.physical_offset, record.size_bytes)


def boundaries(directory: StoreDirectory, segment: StoreFile, start: int) -> Iterator[int]:
    """Yield where each record behind the one at start begins, as far as the chain of sizes leads."""
    at = start
    while at < segment.size_bytes:
        view, origin = whole_record_at(directory, segment, at, _LOOK_BACK_BYTES)
        before = at
        for boundary in chain(view, at - origin, len(view), segment.base_offset + origin):
            at = boundary + origin
            yield at
        if at == before:
            return


def whole_record_at(
    directory: StoreDirectory, segment: StoreFile, position: int, size_bytes: int
) -> tuple[memoryview, int]:
    """Return bytes from a position on, so many or as many as a record there has, and the position of their first."""
    view, origin = directory.window(segment, position, max(size_bytes, RECORD_BYTES_MIN))
    at = position - origin
    if len(view) - at < RECORD_BYTES_MIN:
        return view, origin
    claimed, magic = _SIZE_AND_MAGIC.unpack_from(view, at)
    if magic in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2) and len(view) - at < claimed <= segment.size_bytes - position:
        return directory.window(segment, position, claimed)
    return view, origin


def next_candidate(directory: StoreDirectory, segment: StoreFile, position: int, end: int) -> int:
    """Return the next place from a position on that looks like a record's beginning, at most end."""
    while position < end:
        view, origin = directory.window(segment, position)
        found = find_record(view, position - origin, segment.base_offset + origin, segment.size_bytes - origin)
        if found is not None:
            return min(origin + found, end)
        if origin + len(view) >= segment.size_bytes:
            return end
        position = max(position + 1, origin + len(view) - RECORD_BYTES_MIN)
    return end

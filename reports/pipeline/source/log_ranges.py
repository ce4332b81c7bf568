"""Log ranges: divides segments at arbitrary bytes into parts of equal size, one per task.

A record belongs to the range in which it begins. A segment begins with a record, and the size of each record gives the
start of the next. To avoid reading the segment from its start, a task searches shortly before its range for bytes that
look like a record and have an entry in the record's queue. A message body can contain such bytes, but no entry points
into a body. From the record that it finds, the task follows the record sizes into its range, and continues after
damage.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct

from ....store.errors import CorruptFileError
from ....store.formats.message import BLANK_BYTES, MESSAGE_MAGIC, MESSAGE_MAGIC_V2, RECORD_BYTES_MIN
from ....store.formats.scan import ScannedRecord, find_record, is_closed_at, record_starts_after, scan_records
from .directory import StoreDirectory, StoreFile
from .queue_array import QueueArray

_LOOK_BACK_BYTES = 64 << 10
_LOOK_BACK_TIMES = 8
"""If the search finds no record with an entry, it starts this many times farther back."""
_PAGE_BYTES = 4096
_SIZE_AND_MAGIC = Struct(">ii")


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, end) of a segment, read by one task."""

    segment: StoreFile
    start: int
    end: int
    is_last: bool
    """Whether no later segment has records. Zeros at the end of this segment are then no damage."""
    known: int = 0
    """A position at or before `start` where a record begins."""
    zeros_max: int | None = None
    """Maximum number of zeros to read after the end of the log; None for no limit."""

    def __post_init__(self) -> None:
        assert 0 <= self.known <= self.start <= self.end <= self.segment.size_bytes, self

    @property
    def log_start(self) -> int:
        return self.segment.base_offset + self.start

    @property
    def log_end(self) -> int:
        return self.segment.base_offset + self.end

    def within(self, low: int, high: int) -> "LogRange | None":
        """Return the part between two log offsets; None if this part is empty."""
        start, end = max(self.log_start, low), min(self.log_end, high)
        base_offset = self.segment.base_offset
        return replace(self, start=start - base_offset, end=end - base_offset) if start < end else None


def log_ranges(directory: StoreDirectory, split_bytes: int, first: int = 0, to: int | None = None) -> list[LogRange]:
    """Divide the log into ranges of split_bytes, in log order; 0 makes one range per segment.

    first, to: log offsets of records; the ranges cover [first, to). Without `to` they extend to the end of the log.
    """
    segments = directory.segments()
    last = last_written_segment(directory, segments)
    if not directory.has_queues:
        split_bytes = 0  # without queue entries a task cannot find a record inside a segment
    found: list[LogRange] = []
    for segment in segments:
        start = max(first - segment.base_offset, 0)
        end = segment.size_bytes if to is None else min(segment.size_bytes, to - segment.base_offset)
        if start < end:
            whole = LogRange(segment, start, end, segment.base_offset >= last, known=start)
            found += _split_range(directory, whole, split_bytes)
    return found


def last_written_segment(directory: StoreDirectory, segments: list[StoreFile]) -> int:
    """Return the log offset of the last segment with data, or 0. Stores create empty segments in advance."""
    return next((one.base_offset for one in reversed(segments) if has_first_record(directory, one)), 0)


def has_first_record(directory: StoreDirectory, segment: StoreFile) -> bool:
    view, _ = directory.read_window(segment, 0, RECORD_BYTES_MIN)
    return bool(view[:RECORD_BYTES_MIN].tobytes().strip(b"\0"))


def _split_range(directory: StoreDirectory, whole: LogRange, split_bytes: int) -> Iterator[LogRange]:
    start = whole.start
    for cut in range(whole.start + split_bytes, whole.end, split_bytes) if split_bytes else ():
        if not (whole.is_last and _is_page_zero_before(directory, whole.segment, cut)):
            yield replace(whole, start=start, end=cut)
            start = cut
    yield replace(whole, start=start)


def _is_page_zero_before(directory: StoreDirectory, segment: StoreFile, cut: int) -> bool:
    """Return whether the page before `cut` is zero, so that one task reads all zeros after the end of the log."""
    begin = max(cut - _PAGE_BYTES, 0)
    view, origin = directory.read_window(segment, begin, cut - begin)
    return not view[begin - origin : cut - origin].tobytes().strip(b"\0")


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The first record of a range, where its task starts."""

    position: int
    is_sound: bool
    """Whether the task found the record by following record sizes, without a search after damage."""


class RangeStart:
    """Searches for the first record of a range."""

    def __init__(self, directory: StoreDirectory) -> None:
        self._directory = directory
        self._queues: dict[tuple[str, int], QueueArray] = {}

    def find(self, log_range: LogRange) -> FirstRecord:
        start = log_range.start
        if start == log_range.known:
            return FirstRecord(start, is_sound=True)
        back_bytes = _LOOK_BACK_BYTES
        while True:
            low = max(log_range.known, start - back_bytes)
            proven = low if low == log_range.known else self.record_with_entry_between(log_range.segment, low, start)
            if proven is not None:
                break
            back_bytes *= _LOOK_BACK_TIMES
        at, is_sound = proven, True
        assert log_range.known <= at <= start, (log_range.known, at, start)
        while at < start:
            for boundary in record_starts(self._directory, log_range.segment, at):
                if boundary >= start:
                    return FirstRecord(boundary, is_sound)
                at = boundary
            view, origin = self._directory.read_window(log_range.segment, at, BLANK_BYTES)
            if is_closed_at(view, at - origin, log_range.segment.size_bytes - origin):
                return FirstRecord(log_range.end, is_sound)
            at, is_sound = next_candidate(self._directory, log_range.segment, at + 1, log_range.end), False
        return FirstRecord(at, is_sound)

    def has_matching_entry(self, view: memoryview, position: int, base_offset: int) -> bool:
        scan = scan_records(view, position, len(view), file="", base_offset=base_offset, check_crc=False)
        try:
            record = next(scan, None)
        except CorruptFileError:
            return False
        return record is not None and self._has_entry(record)

    def record_with_entry_between(self, segment: StoreFile, low: int, high: int) -> int | None:
        """Return the position of the first record that has an entry in its queue, or None."""
        view, origin = self._directory.read_window(segment, low, high - low + RECORD_BYTES_MIN)
        at, base_offset = low - origin, segment.base_offset + origin
        while True:
            found = find_record(view[: high - origin + RECORD_BYTES_MIN], at, base_offset, segment.size_bytes - origin)
            if found is None or found >= high - origin:
                return None
            record, begin = whole_record_at(self._directory, segment, found + origin, RECORD_BYTES_MIN)
            if self.has_matching_entry(record, found + origin - begin, segment.base_offset + begin):
                return found + origin
            at = found + 1

    def _has_entry(self, record: ScannedRecord) -> bool:
        queue = record.topic, record.queue_id
        if queue not in self._queues:
            self._queues[queue] = QueueArray(self._directory, self._directory.files_of_queue(*queue))
        entry = self._queues[queue].at(record.queue_offset)
        return entry is not None and entry[:2] == (record.physical_offset, record.size_bytes)


def record_starts(directory: StoreDirectory, segment: StoreFile, start: int) -> Iterator[int]:
    """Yield the starts of the records after the one at `start`, up to the first invalid size."""
    at, windows = start, RecordWindows(directory, segment)
    while at < segment.size_bytes:
        view, origin = windows.at(at, _LOOK_BACK_BYTES)
        before = at
        for boundary in record_starts_after(view, at - origin, len(view), segment.base_offset + origin):
            at = boundary + origin
            yield at
        if at == before:
            return


class RecordWindows:
    """Windows of one segment, each with a whole record. Ascending reads request each byte of a remote file once."""

    def __init__(self, directory: StoreDirectory, segment: StoreFile) -> None:
        self._directory, self._segment = directory, segment
        self._last = memoryview(b""), 0

    def at(self, position: int, size_bytes: int) -> tuple[memoryview, int]:
        """Return a window with the whole record at a position, and the position of the window.

        size_bytes: how far a new window extends past `position`. The last window of a remote file is returned again if
        it has the whole record.
        """
        if self._directory.is_local or not self._has_whole_record(position):
            wanted = max(size_bytes, RECORD_BYTES_MIN)
            self._last = self._directory.window_from(self._segment, position, wanted, self._last)
            if not self._has_whole_record(position):
                claimed, _ = _SIZE_AND_MAGIC.unpack_from(self._last[0], position - self._last[1])
                self._last = self._directory.window_from(self._segment, position, claimed, self._last)
        return self._last

    def forget(self) -> tuple[memoryview, int]:
        """Read all bytes again, because the store may have changed them. Returns the last window."""
        last, self._last = self._last, (memoryview(b""), 0)
        return last

    def _has_whole_record(self, position: int) -> bool:
        """Return whether no more bytes are needed: also if there is no record, or the segment ends."""
        view, origin = self._last
        left, most = origin + len(view) - position, self._segment.size_bytes - position
        if position < origin or left < min(RECORD_BYTES_MIN, most):
            return False
        if left < RECORD_BYTES_MIN:
            return True
        claimed, magic = _SIZE_AND_MAGIC.unpack_from(view, position - origin)
        return magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2) or not left < claimed <= most


def whole_record_at(
    directory: StoreDirectory, segment: StoreFile, position: int, size_bytes: int
) -> tuple[memoryview, int]:
    """Return a window of at least `size_bytes` with the whole record, and the position of the window."""
    return RecordWindows(directory, segment).at(position, size_bytes)


def next_candidate(directory: StoreDirectory, segment: StoreFile, position: int, end: int) -> int:
    """Return the next position that looks like the start of a record, else `end`."""
    while position < end:
        view, origin = directory.read_window(segment, position)
        found = find_record(view, position - origin, segment.base_offset + origin, segment.size_bytes - origin)
        if found is not None:
            return min(origin + found, end)
        if origin + len(view) >= segment.size_bytes:
            return end
        position = max(position + 1, origin + len(view) - RECORD_BYTES_MIN)
    return end

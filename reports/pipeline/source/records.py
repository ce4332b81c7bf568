"""Range reader: yields the whole records and the damage of a log range.

After damage the reader searches for bytes with the magic number and the log offset of a record. A message body can
contain such bytes; an entry in the record's queue proves that they are a record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ....store.errors import CorruptFileError
from ....store.formats.columns import ROWS_MAX, PlainRecords
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import is_closed_at, scan_records
from ....store.real.native import load_core
from .columns import LOOKS_MAX, Reason, pause_for_writes
from .directory import NEAR_BYTES, WINDOW_BYTES, StoreDirectory, StoreFile
from .log_ranges import LogRange, RangeStart, RecordWindows, next_candidate, whole_record_at
from .segment_slice import Array, ScannedTopics, SegmentSlice, pieces_of

_QUEUES_MAX = 1 << 16
_NO_QUEUE = -1
_NAMES_MAX = 1 << 10
"""With more queues, users of the topics would spend more time on topics that a slice does not have."""


class RecordScan(NamedTuple):
    """The records that one scan found."""

    starts: Array
    end: int
    """The position after the last record."""
    error: CorruptFileError | None
    """The error that ended the scan."""
    topics: ScannedTopics | None
    """None if a record has no queue, or without the compiled core."""


class RecordScanner:
    """Scans views of one file."""

    def __init__(self, file: str) -> None:
        core = load_core()
        self._file = file
        self._plain = None if core is None else PlainRecords(core)
        self._names = pa.array([], pa.string())
        """The topic of each registered queue, or of the first of them."""

    def scan(self, view: memoryview, at: int, stop: int, base_offset: int) -> RecordScan:
        """Find the next records.

        A scan returns at most about ROWS_MAX records that start before `stop`. A record that extends past the view is
        an error only if it is the first record. base_offset: log offset of the first byte of the view.
        """
        found, queues, rows, error, plain = list[Array](), list[Array](), 0, None, self._plain
        if plain is not None and len(plain.queues) >= _QUEUES_MAX:
            plain.forget_queues()
            self._names = self._names[:0]
        while at < stop and rows < ROWS_MAX and error is None:
            if plain is not None and plain.scan(view[:stop], at, base_offset, check_crc=True):
                some = np.array(plain.column("physical_offset")) - base_offset
                queues.append(np.array(plain.column("queue")))
                scan_end = plain.end
            else:
                some, scan_end, error = self._scan_in_python(view, at, stop, base_offset, queues)
                if not len(some):
                    break
            found.append(some)
            rows += len(some)
            at = scan_end
        starts = np.concatenate(found) if found else np.empty(0, np.int64)
        return RecordScan(starts, at, error, self._topics_of(queues))

    def _topics_of(self, queues: list[Array]) -> ScannedTopics | None:
        plain = self._plain
        if plain is None or not queues or len(plain.queues) > _NAMES_MAX:
            return None
        codes = np.concatenate(queues)
        if (codes == _NO_QUEUE).any():
            return None
        if len(self._names) < len(plain.queues):
            self._names = pa.array([topic for topic, _ in plain.queues], pa.string())
        return ScannedTopics(codes, self._names)

    def _scan_in_python(
        self, view: memoryview, at: int, stop: int, base_offset: int, queues: list[Array]
    ) -> tuple[Array, int, CorruptFileError | None]:
        """If the compiled core is installed, scan only one record, and add its queue; the core scans the next ones."""
        starts, scan_end, plain = list[int](), at, self._plain
        scan = scan_records(view, at, len(view), file=self._file, base_offset=base_offset, check_crc=True)
        try:
            for record in scan:
                starts.append(scan_end)
                scan_end += record.size_bytes
                if plain is not None:
                    number = plain.register_queue(record.topic, record.queue_id)
                    queues.append(np.array([_NO_QUEUE if number is None else number]))
                if plain is not None or scan_end >= stop or len(starts) == ROWS_MAX:
                    break
        except CorruptFileError as found:
            return np.array(starts, np.int64), scan_end, found
        return np.array(starts, np.int64), scan_end, None


_ZEROS = bytes(1 << 20)
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class CorruptBytes:
    """A damaged byte range without a readable record."""

    segment: StoreFile
    position: int
    reason: Reason


class RangeReader:
    """Reads the records of one range in order."""

    def __init__(self, directory: StoreDirectory, log_range: LogRange) -> None:
        self._directory = directory
        self._range = log_range
        self._segment = log_range.segment
        zeros_max = log_range.zeros_max
        self._zeros_max = log_range.end if zeros_max is None else zeros_max
        self._window_bytes = WINDOW_BYTES if zeros_max is None else NEAR_BYTES
        """Bytes per read. Where the log may end, this number starts small and doubles."""
        self._scanner = RecordScanner(self._segment.path)
        self._windows = RecordWindows(directory, self._segment)
        self._start = RangeStart(directory)
        first = self._start.find(log_range)
        self.position = first.position
        """Start of the next record. After the last record: its end, or the start of the final blank record."""
        self._is_proven = first.is_sound or self._has_entry_at_position()
        self._looks = LOOKS_MAX if log_range.is_last else 0
        self._seen: tuple[int, Reason] | None = None
        """Position and reason of the last damage, for comparison with a second read."""
        self._tail = memoryview(b""), 0
        """The window before the second read: if only zeros follow, they need no second read."""

    def pieces(self) -> Iterator[SegmentSlice | CorruptBytes]:
        """Yield records and damage in log order."""
        while self.position < self._range.end:
            window_bytes = min(self._window_bytes, self._range.end - self.position)
            view, origin = self._windows.at(self.position, window_bytes)
            stop, base_offset = self._range.end - origin, self._segment.base_offset + origin
            scan = self._scanner.scan(view, self.position - origin, stop, base_offset)
            if len(scan.starts):
                assert self.position < origin + scan.end, (self.position, origin + scan.end)
                self.position = origin + scan.end
                self._window_bytes = min(2 * self._window_bytes, WINDOW_BYTES)
                whole = SegmentSlice(
                    self._segment, view, origin, scan.starts, self._is_proven, scanned_topics=scan.topics
                )
                for some in pieces_of(scan.starts, _PIECE_BYTES):
                    yield whole.where(some)
            elif scan.error is not None:
                if self._is_settled(Reason.from_error(scan.error)):
                    yield from self._skip_damage(view, origin, scan.error)
            else:
                if is_closed_at(view, self.position - origin, self._segment.size_bytes - origin):
                    return
                if self._is_settled(Reason("totalSize", "", "")):
                    yield self._skip_short_blank_record(view, origin)

    def _is_settled(self, reason: Reason) -> bool:
        """Return whether damage is final. While the store may be writing, pause before a second read."""
        if not self._looks or self._seen == (self.position, reason):
            return True
        self._looks -= 1
        self._seen = self.position, reason
        pause_for_writes()
        self._tail = self._windows.forget()
        self._window_bytes = NEAR_BYTES  # mostly the log ends here
        return False

    def _skip_damage(
        self, view: memoryview, origin: int, error: CorruptFileError
    ) -> Iterator[SegmentSlice | CorruptBytes]:
        segment, at, reason = self._segment, self.position - origin, Reason.from_error(error)
        if reason.field == "totalSize" and reason.expected == f"{RECORD_BYTES_MIN} to {len(view) - at}":
            most = segment.size_bytes - self.position  # to the end of the segment, not of the window
            reason = reason._replace(expected=f"{RECORD_BYTES_MIN} to {most}")
        if not view[at : at + 8].tobytes().strip(b"\0"):
            if self._range.is_last and self._is_zero_from_position():
                self.position = self._range.end
                return
            yield CorruptBytes(segment, self.position, Reason("magicCode", "a record or a blank one", "zeros"))
            self._search_record(self.position + 1)
            return
        if error.field == "bodyCRC":
            base_offset = segment.base_offset + origin
            try:
                record = next(
                    scan_records(view, at, len(view), file=segment.path, base_offset=base_offset, check_crc=False)
                )
            except CorruptFileError as worse:
                reason = reason._replace(found=f"{reason.found}; {Reason.from_error(worse)}")
            else:
                self.position += record.size_bytes
                yield SegmentSlice(segment, view, origin, np.array([at]), self._is_proven, reason)
                return
        yield CorruptBytes(segment, origin + error.offset, reason)
        self._search_record(self.position + 1)

    def _skip_short_blank_record(self, view: memoryview, origin: int) -> CorruptBytes:
        """Return the damage of a blank record that does not fill the rest of the segment."""
        position = self.position
        expected = self._segment.size_bytes - position
        found = int.from_bytes(view[position - origin : position - origin + 4], "big", signed=True)
        self._search_record(position + 1)
        reason = Reason("totalSize", f"{expected}, the rest of the segment", str(found))
        return CorruptBytes(self._segment, position, reason)

    def _is_zero_from_position(self) -> bool:
        view, origin = self._tail
        position, end = self.position, min(self.position + self._zeros_max, self._range.end)
        while position < end:
            if position >= origin + len(view):
                view, origin = self._directory.read_window(self._segment, position, min(WINDOW_BYTES, end - position))
            stop = min(len(view), end - origin)
            for at in range(position - origin, stop, len(_ZEROS)):
                some = view[at : min(at + len(_ZEROS), stop)].tobytes()
                if some != _ZEROS[: len(some)]:
                    return False
            position = origin + stop
        return True

    def _search_record(self, position: int) -> None:
        assert position > self.position, (position, self.position)  # else the reader would never advance
        self.position = next_candidate(self._directory, self._segment, position, self._range.end)
        self._is_proven = self._has_entry_at_position()

    def _has_entry_at_position(self) -> bool:
        if self.position >= self._range.end:
            return False
        view, origin = whole_record_at(self._directory, self._segment, self.position, RECORD_BYTES_MIN)
        return self._start.has_matching_entry(view, self.position - origin, self._segment.base_offset + origin)

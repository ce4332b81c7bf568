"""Log times: finds the log offsets that bound all records of a time range.

Store times can decrease when the clock steps back. The user states that no record is more than `out_of_order_ms` older
than any record before it. So the time of one record bounds the times of all earlier and later records, and binary
search works: first over the first records of segments, then over records with queue entries in one segment. If the
search finds no such record, it excludes less of the log.
"""

from collections.abc import Callable
from typing import NamedTuple

from ....store.errors import CorruptFileError
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import scan_records
from .directory import StoreDirectory, StoreFile
from .log_ranges import RangeStart, last_written_segment, whole_record_at

_CUTS = 1024
"""Maximum number of positions to examine in a segment: one per MiB of RocketMQ's segments."""
_CUT_BYTES_MIN = 4096
_NEAR_BYTES = 64 << 10
_AFTER_ALL = (1 << 63) - 1


class _TimedPosition(NamedTuple):
    number: int
    log_offset: int
    stored_ms: int


_Boundary = tuple[_TimedPosition | None, _TimedPosition | None]


class LogTimes:
    """Time search over the segments that existed when this object was created."""

    def __init__(self, directory: StoreDirectory, out_of_order_ms: int) -> None:
        segments = directory.segments()
        last = last_written_segment(directory, segments)
        self._segments = [one for one in segments if one.base_offset <= last]
        self._directory = directory
        self._out_of_order_ms = out_of_order_ms
        self._start = RangeStart(directory)

    def offsets_of_period(self, low_ms: int, high_ms: int) -> tuple[int, int]:
        """Return two log offsets that bound all records stored from low_ms to high_ms.

        A record begins at each offset; the second offset is exclusive. 0 or a huge second offset means no bound.
        """
        before_ms, after_ms = low_ms - self._out_of_order_ms, high_ms + self._out_of_order_ms
        begin, _ = self._boundary_of_segments(lambda stored_ms: stored_ms < before_ms)
        if begin is not None:
            inside, _ = self._boundary_in(begin.number, lambda stored_ms: stored_ms < before_ms)
            begin = inside or begin
        _, end = self._boundary_of_segments(lambda stored_ms: stored_ms <= after_ms)
        number = len(self._segments) - 1 if end is None else end.number - 1
        if number >= 0:
            _, inside = self._boundary_in(number, lambda stored_ms: stored_ms <= after_ms)
            end = inside or end
        return 0 if begin is None else begin.log_offset, _AFTER_ALL if end is None else end.log_offset

    def _boundary_of_segments(self, is_low: Callable[[int], bool]) -> _Boundary:
        return _boundary(
            len(self._segments), lambda number: self._position_in_range(number, self._segments[number], 0), is_low
        )

    def _boundary_in(self, number: int, is_low: Callable[[int], bool]) -> _Boundary:
        segment = self._segments[number]
        cut_bytes = max(segment.size_bytes // _CUTS, _CUT_BYTES_MIN)

        def look_at(number: int) -> _TimedPosition | None:
            low = (number + 1) * cut_bytes
            for high in (min(low + _NEAR_BYTES, low + cut_bytes), low + cut_bytes):
                position = self._start.record_with_entry_between(segment, low, min(high, segment.size_bytes))
                if position is not None:
                    return self._position_in_range(number, segment, position)
            return None

        return _boundary(max(segment.size_bytes - 1, 0) // cut_bytes, look_at, is_low)

    def _position_in_range(self, number: int, segment: StoreFile, position: int) -> _TimedPosition | None:
        view, origin = whole_record_at(self._directory, segment, position, RECORD_BYTES_MIN)
        at, base_offset = position - origin, segment.base_offset + origin
        try:
            record = next(scan_records(view, at, len(view), file="", base_offset=base_offset, check_crc=False), None)
        except CorruptFileError:
            return None
        return None if record is None else _TimedPosition(number, record.physical_offset, record.store_timestamp_ms)


def _boundary(places: int, look_at: Callable[[int], _TimedPosition | None], is_low: Callable[[int], bool]) -> _Boundary:
    """Return the last low position and the first other one, each None if it is missing.

    All positions before a low one must be low too. If a position has no record, such as zeros after the end of the log,
    the search continues before it.
    """
    last, first, low, high = None, None, 0, places
    while low < high:
        middle = (low + high) // 2
        cut = look_at(middle)
        if cut is not None and is_low(cut.stored_ms):
            last, low = cut, middle + 1
        else:
            first, high = cut or first, middle
    return last, first

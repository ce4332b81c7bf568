"""Log times: finds the log offsets between which all records of a time range begin.

Store times in a log may step back with the clock. If no record is more than `out_of_order_ms` older than any record
before it, the time of one record bounds the times of all records before and after it, so the log can be searched. A
binary search over first records finds the segment, and one over records with queue entries finds the place in it. Where
no such record is found, less of the log is left out.
"""

from collections.abc import Callable
from typing import NamedTuple

from ....store.errors import CorruptFileError
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import scan_records
from .directory import StoreDirectory, StoreFile
from .log_ranges import RangeStart, last_begun, whole_record_at

_CUTS = 1024
"""How many places of a segment are examined at most: one per MiB of RocketMQ's segments."""
_CUT_BYTES_MIN = 4096
_NEAR_BYTES = 64 << 10
_BEHIND_ALL = (1 << 63) - 1


class _Cut(NamedTuple):
    number: int
    """Of the examined place."""
    log_offset: int
    stored_ms: int


_LookAt = Callable[[int], _Cut | None]


class LogTimes:
    """The segments of a log when the object was created, searchable by time."""

    def __init__(self, directory: StoreDirectory, out_of_order_ms: int) -> None:
        segments = directory.segments()
        last = last_begun(directory, segments)
        self._segments = [one for one in segments if one.base_offset <= last]
        self._directory = directory
        self._out_of_order_ms = out_of_order_ms
        self._start = RangeStart(directory)

    def between(self, low_ms: int, high_ms: int) -> tuple[int, int]:
        """Return two log offsets between which all records begin that were stored from low_ms to high_ms.

        A record begins at each offset; the second record is excluded. 0 or a huge offset means an open end.
        """
        before_ms, after_ms = low_ms - self._out_of_order_ms, high_ms + self._out_of_order_ms
        begin = _last(len(self._segments), self._first_of, lambda stored_ms: stored_ms < before_ms)
        if begin is not None:
            segment = self._segments[begin.number]
            begin = _last(_cuts(segment), self._within(segment), lambda stored_ms: stored_ms < before_ms) or begin
        end = _first(len(self._segments), self._first_of, lambda stored_ms: stored_ms > after_ms)
        number = len(self._segments) - 1 if end is None else end.number - 1
        if number >= 0:
            segment = self._segments[number]
            end = _first(_cuts(segment), self._within(segment), lambda stored_ms: stored_ms > after_ms) or end
        return 0 if begin is None else begin.log_offset, _BEHIND_ALL if end is None else end.log_offset

    def _first_of(self, number: int) -> _Cut | None:
        return self._cut(number, self._segments[number], 0)

    def _within(self, segment: StoreFile) -> _LookAt:
        """Return a function that finds a record between one place of a segment and the next."""
        cut_bytes = _cut_bytes(segment)

        def look_at(number: int) -> _Cut | None:
            low = (number + 1) * cut_bytes
            for high in (min(low + _NEAR_BYTES, low + cut_bytes), low + cut_bytes):
                position = self._start.proven_between(segment, low, min(high, segment.size_bytes))
                if position is not None:
                    return self._cut(number, segment, position)
            return None

        return look_at

    def _cut(self, number: int, segment: StoreFile, position: int) -> _Cut | None:
        view, origin = whole_record_at(self._directory, segment, position, RECORD_BYTES_MIN)
        at, base_offset = position - origin, segment.base_offset + origin
        try:
            record = next(scan_records(view, at, len(view), file="", base_offset=base_offset, check_crc=False), None)
        except CorruptFileError:
            return None
        return None if record is None else _Cut(number, record.physical_offset, record.store_timestamp_ms)


def _cut_bytes(segment: StoreFile) -> int:
    return max(segment.size_bytes // _CUTS, _CUT_BYTES_MIN)


def _cuts(segment: StoreFile) -> int:
    return max(segment.size_bytes - 1, 0) // _cut_bytes(segment)


def _last(places: int, look_at: _LookAt, holds: Callable[[int], bool]) -> _Cut | None:
    """Return the last cut that holds, where all cuts before it hold; None if there is none.

    If no record is found, as in zeros after the end of the log, the search continues before that place.
    """
    best, low, high = None, 0, places
    while low < high:
        middle = (low + high) // 2
        cut = look_at(middle)
        if cut is not None and holds(cut.stored_ms):
            best, low = cut, middle + 1
        else:
            high = middle
    return best


def _first(places: int, look_at: _LookAt, holds: Callable[[int], bool]) -> _Cut | None:
    """Return the first cut that holds, where all cuts after it hold; None if there is none."""
    best, low, high = None, 0, places
    while low < high:
        middle = (low + high) // 2
        cut = look_at(middle)
        if cut is None or holds(cut.stored_ms):
            best, high = cut or best, middle
        else:
            low = middle + 1
    return best

"""Log walk: finds the end of a stream's next batch with few reads.

All segments except the last are finished: the store adds no records. A batch includes a finished segment completely,
without reading it, or ends at its first record over a limit. To find that record, the walk follows the record sizes
from the start of the batch. If only bytes are limited, it starts at a record with a queue entry shortly before the
limit. Tasks verify checksums later. From the last segment, a batch includes only whole records with correct checksums,
because the store may be writing other bytes, or recovery will truncate them.

A batch ends where the first record over a limit begins, so a damaged size never moves the end. A batch with damage
includes the rest of the damaged segment, without counting its records.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from ....store.formats.message import BLANK_BYTES
from ....store.formats.scan import is_closed_at, record_starts_after
from .directory import WINDOW_BYTES, StoreDirectory, StoreFile
from .log_ranges import RangeStart, RecordWindows, last_written_segment
from .records import RecordScanner
from .segment_slice import SegmentSlice

_HEADS_AT_ONCE = 1 << 13
_WINDOW_BYTES = 1 << 20
_LOOK_BACK_BYTES = 64 << 10
_LOOK_BACK_TIMES = 8


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of a batch; None means no limit."""

    rows: int | None = None
    size_bytes: int | None = None
    """Maximum number of log bytes. A larger first record exceeds this limit."""
    before_ms: int | None = None
    """The batch ends before the first record with this or a later store time."""
    target: int | None = None
    """Log offset at which the stream ends."""

    @property
    def are_positions(self) -> bool:
        """Whether the limits allow finding the end without reading all records before it."""
        return self.rows is None and self.before_ms is None

    def share_of(self, logs: int) -> "BatchLimits":
        """Divide the limits by the number of logs. Each log can have at least one record."""
        rows = None if self.rows is None else max(self.rows // logs, 1)
        return replace(self, rows=rows, size_bytes=None if self.size_bytes is None else max(self.size_bytes // logs, 1))

    def reduced_by(self, rows: int, size_bytes: int) -> "BatchLimits":
        rows_left = None if self.rows is None else self.rows - rows
        return replace(
            self, rows=rows_left, size_bytes=None if self.size_bytes is None else self.size_bytes - size_bytes
        )

    def stop(self, begin: int) -> int | None:
        """Return the largest log offset at which a batch of two or more records may end."""
        stops = [] if self.size_bytes is None else [begin + self.size_bytes]
        stops += [] if self.target is None else [self.target]
        return min(stops, default=None)

    def first_record_over_limit(self, piece: SegmentSlice, begin: int, rows: int) -> int | None:
        """Return the log offset of the first record over a limit. rows: number of records before this piece."""
        begins = piece.starts + piece.origin + piece.segment.base_offset
        ends = begins + piece.number("totalSize")
        is_over = np.zeros(len(piece), bool)
        if self.rows is not None:
            is_over[max(self.rows - rows, 0) :] = True
        if self.size_bytes is not None:
            is_over |= (ends > begin + self.size_bytes) & (begins > begin)
        if self.target is not None:
            is_over |= ends > self.target
        if self.before_ms is not None:
            is_over |= piece.number("storeTimestamp") >= self.before_ms
        over = np.flatnonzero(is_over)
        return int(begins[over[0]]) if len(over) else None


class BatchEnd(NamedTuple):
    """The end of a batch."""

    log_offset: int
    rows: int
    """Number of records, if a limit requires the count."""


class LogWalk:
    """The log of a directory, with the segments that existed when this object was created."""

    def __init__(self, directory: StoreDirectory) -> None:
        self.segments = directory.segments()
        self.last_begun = last_written_segment(directory, self.segments)
        self._directory = directory
        self._start = RangeStart(directory)

    def end_of_batch(self, begin: int, limits: BatchLimits) -> BatchEnd:
        end, rows, stop = begin, 0, limits.stop(begin)
        for segment in self.segments:
            segment_end = segment.base_offset + segment.size_bytes
            if segment_end <= end:
                continue
            if segment.base_offset > end:
                break  # a gap: a segment in between does not exist yet
            is_open = segment.base_offset >= self.last_begun
            if not is_open and limits.are_positions and (stop is None or segment_end <= stop):
                end = segment_end
                continue
            position = end - segment.base_offset
            if not is_open and limits.are_positions and stop is not None:
                position = self._record_start_before(segment, position, stop - segment.base_offset)
            assert 0 <= position <= segment.size_bytes, (position, segment)
            for piece in (
                self.checked_records(segment, position)
                if is_open
                else self.records_by_size(segment, position, segment.size_bytes)
            ):
                over = limits.first_record_over_limit(piece, begin, rows)
                if over is not None:
                    starts = piece.starts + piece.origin + segment.base_offset
                    return BatchEnd(over, rows + int(np.searchsorted(starts, over)))
                rows += len(piece)
                assert _end_of(piece) > end or not is_open, (_end_of(piece), end)
                end = _end_of(piece)
            if is_open and not self._is_full(segment, end):
                break
            end = segment_end
        return BatchEnd(end, rows)

    def records_by_size(self, segment: StoreFile, position: int, stop: int) -> Iterator[SegmentSlice]:
        """Yield the records between two positions. Checks only record sizes."""
        windows = RecordWindows(self._directory, segment)
        while position < stop:
            view, origin = windows.at(position, _WINDOW_BYTES)
            end = min(len(view), stop - origin)
            boundaries = record_starts_after(view, position - origin, end, segment.base_offset + origin)
            ends = np.fromiter(islice(boundaries, _HEADS_AT_ONCE), np.int64)
            if not len(ends):
                return
            starts = np.append(position - origin, ends[:-1])
            yield SegmentSlice(segment, view, origin, starts, is_proven=True)
            position = origin + int(ends[-1])

    def checked_records(self, segment: StoreFile, position: int) -> Iterator[SegmentSlice]:
        """Yield fully checked records from a position up to the first partial record."""
        scanner, windows = RecordScanner(segment.path), RecordWindows(self._directory, segment)
        while position < segment.size_bytes:
            view, origin = windows.at(position, WINDOW_BYTES)
            scan = scanner.scan(view, position - origin, len(view), segment.base_offset + origin)
            if not len(scan.starts):
                return
            yield SegmentSlice(segment, view, origin, scan.starts, is_proven=True)
            position = origin + scan.end

    def undamaged_records_between(self, low: int, high: int, *, is_boundary: bool) -> Iterator[SegmentSlice]:
        """Yield the undamaged records between two log offsets. The last record ends at `high`.

        is_boundary: whether a record begins at `low`. If not, as after damage, the first yielded record is the first
        with a queue entry.
        """
        for segment in self.segments:
            stop = min(high - segment.base_offset, segment.size_bytes)
            begin = max(low - segment.base_offset, 0)
            if begin >= stop:
                continue
            is_known = is_boundary or not begin
            position = begin if is_known else self._start.record_with_entry_between(segment, begin, stop)
            while position is not None:
                end = position
                for piece in self.records_by_size(segment, position, stop):
                    yield piece
                    end = _end_of(piece) - segment.base_offset
                is_done = end >= stop or self._is_full(segment, segment.base_offset + end)
                position = None if is_done else self._start.record_with_entry_between(segment, end + 1, stop)

    def _record_start_before(self, segment: StoreFile, position: int, stop: int) -> int:
        """Return the start of a record shortly before `stop`, or `position` if the search finds none."""
        back_bytes = _LOOK_BACK_BYTES
        while stop - back_bytes > position:
            found = self._start.record_with_entry_between(segment, stop - back_bytes, stop)
            if found is not None:
                return found
            back_bytes *= _LOOK_BACK_TIMES
        return position

    def _is_full(self, segment: StoreFile, end: int) -> bool:
        """Return whether the records end with the last byte of the segment or with a blank record."""
        position = end - segment.base_offset
        if position >= segment.size_bytes:
            return True
        view, origin = self._directory.read_window(segment, position, BLANK_BYTES)
        return is_closed_at(view, position - origin, segment.size_bytes - origin)


class LogEnd:
    """Finds the end of the log by following record sizes from the previous end."""

    def __init__(self) -> None:
        self._last = -1
        """Log offset of the last record found."""

    def find(self, walk: LogWalk) -> tuple[int, int]:
        """Return the log offset of the end, and the store time of the last record (0 if the last segment is empty)."""
        for segment in walk.segments:
            if segment.base_offset == walk.last_begun:
                at = self._last - segment.base_offset
                found = self._end_from(walk, segment, at) if 0 <= at < segment.size_bytes else None
                found = found or self._end_from(walk, segment, 0)  # after recovery has truncated the log
                if found is not None:
                    return found
        return walk.last_begun, 0

    def _end_from(self, walk: LogWalk, segment: StoreFile, position: int) -> tuple[int, int] | None:
        piece = None
        for one in walk.records_by_size(segment, position, segment.size_bytes):
            piece = one
        if piece is None:
            return None
        last = piece.where(np.array([len(piece) - 1]))
        self._last = int(last.starts[0]) + piece.origin + segment.base_offset
        return _end_of(last), int(last.number("storeTimestamp")[0])


def _end_of(piece: SegmentSlice) -> int:
    last = piece.where(np.array([len(piece) - 1]))
    return int(last.starts[0] + last.number("totalSize")[0]) + piece.origin + piece.segment.base_offset

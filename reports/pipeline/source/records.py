"""What a range of the log holds: whole records in pieces, damage by itself.

Behind damage records are searched for by magic and own place. One that its queue has an entry for is proven; others are
not, for a body may hold anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....store.errors import CorruptFileError
from ....store.formats.columns import ROWS_MAX, PlainRecords
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import is_closed_at, scan_records
from ....store.real.native import load_core
from .columns import LOOKS_MAX, Reason, pause
from .directory import WINDOW_BYTES, StoreDirectory, StoreFile
from .log_ranges import LogRange, RangeStart, next_candidate, whole_record_at
from .segment_slice import Array, SegmentSlice, pieces_of

_ZEROS = bytes(1 << 20)
_PIECE_BYTES = 16 << 20
_QUEUES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class CorruptBytes:
    """Bytes that are no record."""

    segment: StoreFile
    position: int
    reason: Reason


class RangeReader:
    """Reads one range from its first record to its last."""

    def __init__(self, directory: StoreDirectory, log_range: LogRange) -> None:
        core = load_core()
        self._directory = directory
        self._range = log_range
        self._segment = log_range.segment
        self._plain = None if core is None else PlainRecords(core)
        self._queues = 0
        self._start = RangeStart(directory)
        first = self._start.find(log_range)
        self._at = first.position
        self._is_proven = first.is_sound or self._proves_here()
        self._looks = LOOKS_MAX if log_range.is_last else 0
        self._seen: tuple[int, Reason] | None = None
        """What looked damaged last, and is being looked at again."""

    def pieces(self) -> Iterator[SegmentSlice | CorruptBytes]:
        """Yield what the range holds, in order."""
        while self._at < self._range.end:
            window_bytes = min(WINDOW_BYTES, self._range.end - self._at)
            view, origin = whole_record_at(self._directory, self._segment, self._at, window_bytes)
            starts, behind, error = self._scan(view, origin)
            if len(starts):
                self._at = behind
                for some in pieces_of(starts, _PIECE_BYTES):
                    yield SegmentSlice(self._segment, view, origin, some, self._is_proven)
            elif error is not None:
                if self._is_settled(Reason.of(error)):
                    yield from self._damage(view, origin, error)
            else:
                if is_closed_at(view, self._at - origin, self._segment.size_bytes - origin):
                    return
                if self._is_settled(Reason("totalSize", "", "")):
                    yield self._false_end(view, origin)

    def _scan(self, view: memoryview, origin: int) -> tuple[Array, int, CorruptFileError | None]:
        """Return where in the view the next records begin, the position behind the last, and what ended it.

        A record that the view ends in is no error of its own unless it is the first.
        """
        found, rows, error = list[Array](), 0, None
        at, stop, base_offset = self._at - origin, self._range.end - origin, self._segment.base_offset + origin
        while at < stop and rows < ROWS_MAX and error is None:
            plain = self._plain
            if plain is not None and plain.scan(view, at, base_offset, check_crc=True):
                some = np.array(plain.column("physical_offset")) - base_offset
                behind = plain.end
                inside = int(np.searchsorted(some, stop))
                if inside < len(some):
                    some, behind = some[:inside], int(some[inside])
            else:
                some, behind, error = self._scan_odd(view, at, stop, base_offset)
                if not len(some):
                    break
            found.append(some)
            rows += len(some)
            at = behind
        return np.concatenate(found) if found else np.empty(0, np.int64), origin + at, error

    def _scan_odd(
        self, view: memoryview, at: int, stop: int, base_offset: int
    ) -> tuple[Array, int, CorruptFileError | None]:
        """Scan without the core: one record if there is a core, which goes on behind it."""
        starts, behind, plain = list[int](), at, self._plain
        scan = scan_records(view, at, len(view), file=self._segment.path, base_offset=base_offset, check_crc=True)
        try:
            for record in scan:
                starts.append(behind)
                behind += record.size_bytes
                if plain is not None:
                    self._know(plain, record.topic, record.queue_id)
                if plain is not None or behind >= stop or len(starts) == ROWS_MAX:
                    break
        except CorruptFileError as found:
            return np.array(starts, np.int64), behind, found
        return np.array(starts, np.int64), behind, None

    def _know(self, plain: PlainRecords, topic: str, queue_id: int) -> None:
        if self._queues == _QUEUES_MAX:
            plain.forget_queues()
            self._queues = 0
        plain.know(topic, queue_id)
        self._queues += 1

    def _is_settled(self, reason: Reason) -> bool:
        """Return whether what is wrong here is so for good; else look again, as the store may be writing it now."""
        if not self._looks or self._seen == (self._at, reason):
            return True
        self._looks -= 1
        self._seen = self._at, reason
        pause()
        return False

    def _damage(self, view: memoryview, origin: int, error: CorruptFileError) -> Iterator[SegmentSlice | CorruptBytes]:
        """Yield what is here instead of a sound record, and go on behind it."""
        segment, at, reason = self._segment, self._at - origin, Reason.of(error)
        if reason.field == "totalSize" and reason.expected == f"{RECORD_BYTES_MIN} to {len(view) - at}":
            reason = reason._replace(expected=f"{RECORD_BYTES_MIN} to {segment.size_bytes - self._at}")  # of no window
        if not view[at : at + 8].tobytes().strip(b"\0"):
            if self._range.is_last and self._is_zero_from(self._at):
                self._at = self._range.end
                return
            yield CorruptBytes(segment, self._at, Reason("magicCode", "a record or a blank one", "zeros"))
            self._search(self._at + 1)
            return
        if error.field == "bodyCRC":
            base_offset = segment.base_offset + origin
            try:
                record = next(
                    scan_records(view, at, len(view), file=segment.path, base_offset=base_offset, check_crc=False)
                )
            except CorruptFileError as worse:
                reason = reason._replace(found=f"{reason.found}; {Reason.of(worse)}")
            else:
                self._at += record.size_bytes
                yield SegmentSlice(segment, view, origin, np.array([at]), self._is_proven, reason)
                return
        yield CorruptBytes(segment, origin + error.offset, reason)
        self._search(self._at + 1)

    def _false_end(self, view: memoryview, origin: int) -> CorruptBytes:
        """Return the damage that a blank record is that does not take all that is left, and go on behind it."""
        position = self._at
        expected = self._segment.size_bytes - position
        found = int.from_bytes(view[position - origin : position - origin + 4], "big", signed=True)
        self._search(position + 1)
        reason = Reason("totalSize", f"{expected}, all that is left", str(found))
        return CorruptBytes(self._segment, position, reason)

    def _is_zero_from(self, position: int) -> bool:
        """Return whether nothing but zeros follows in the range."""
        while position < self._range.end:
            view, origin = self._directory.window(self._segment, position)
            stop = min(len(view), self._range.end - origin)
            for at in range(position - origin, stop, len(_ZEROS)):
                some = view[at : min(at + len(_ZEROS), stop)].tobytes()
                if some != _ZEROS[: len(some)]:
                    return False
            position = origin + stop
        return True

    def _search(self, position: int) -> None:
        """Go on at the next place that looks like a record's beginning, or at the end."""
        self._at = next_candidate(self._directory, self._segment, position, self._range.end)
        self._is_proven = self._proves_here()

    def _proves_here(self) -> bool:
        if self._at >= self._range.end:
            return False
        view, origin = whole_record_at(self._directory, self._segment, self._at, _PIECE_BYTES)
        return self._start.proves(view, self._at - origin, self._segment.base_offset + origin)

"""Ranges of the log, one for each task, and what they hold: whole records in pieces, damage by itself.

A range begins where a record is proven to begin: a segment's first byte begins one, and the chain of sizes leads from
there to each next one.
Behind damage records are searched for by magic and own place; those are not proven, for a body may hold anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from ....store.errors import CorruptFileError
from ....store.formats.message import BORN_HOST_V6, HOST_V6_MASK, RECORD_BYTES_MIN, STORE_HOST_V6
from ....store.formats.scan import ScannedRecord, chain, find_record, is_closed_at, scan_records
from .columns import LOOKS_MAX, Reason, pause
from .directory import WINDOW_BYTES, StoreDirectory, StoreFile

_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, end) of a segment, as one task reads them."""

    segment: StoreFile
    start: int
    end: int
    is_last: bool
    """Whether nothing has been written to later segments: what has not been written to this one is no damage."""


def log_ranges(directory: StoreDirectory, split_bytes: int, first: int = 0, to: int | None = None) -> list[LogRange]:
    """Return the log in ranges of about split_bytes, in order; 0: one for each segment.

    first, to: log offsets where records are known to begin; what is between them is returned, to the end without `to`.
    """
    segments = directory.segments()
    begun = [segment for segment in segments if has_begun(directory, segment)]
    last = begun[-1].base_offset if begun else 0
    found: list[LogRange] = []
    for segment in segments:
        start = max(first - segment.base_offset, 0)
        end = segment.size_bytes if to is None else min(segment.size_bytes, to - segment.base_offset)
        if start < end:
            found += _ranges_of(directory, LogRange(segment, start, end, segment.base_offset >= last), split_bytes)
    return found


def has_begun(directory: StoreDirectory, segment: StoreFile) -> bool:
    """Return whether anything has been written where a segment's first record is: stores make segments in advance."""
    view, _ = directory.window(segment, 0, RECORD_BYTES_MIN)
    return bool(view[:RECORD_BYTES_MIN].tobytes().strip(b"\0"))


def _ranges_of(directory: StoreDirectory, whole: LogRange, split_bytes: int) -> Iterator[LogRange]:
    start = whole.start
    if 0 < split_bytes < whole.end - start:
        for boundary in boundaries(directory, whole.segment, start, whole.end):
            if boundary - start >= split_bytes:
                yield replace(whole, start=start, end=boundary)
                start = boundary
    if start < whole.end:
        yield replace(whole, start=start)


def boundaries(directory: StoreDirectory, segment: StoreFile, start: int, end: int) -> Iterator[int]:
    """Yield where each record behind the one at start begins, as far as the chain of sizes leads."""
    at, window_bytes = start, WINDOW_BYTES
    while at < end:
        view, origin = directory.window(segment, at, window_bytes)
        stop = min(end - origin, len(view))
        before = at
        for boundary in chain(view, at - origin, stop, segment.base_offset + origin):
            at = boundary + origin
            yield at
        if origin + stop >= end:
            return
        if at == before:
            if window_bytes >= end - at:
                return
            window_bytes *= 2  # a record that is longer, or the end of the chain
        else:
            window_bytes = WINDOW_BYTES


def _head(born_host_bytes: int, store_host_bytes: int) -> "np.dtype[Any]":
    return np.dtype(
        [
            ("totalSize", ">i4"),
            ("magicCode", ">i4"),
            ("bodyCRC", ">i4"),
            ("queueId", ">i4"),
            ("flag", ">i4"),
            ("queueOffset", ">i8"),
            ("physicalOffset", ">i8"),
            ("sysFlag", ">i4"),
            ("bornTimestamp", ">i8"),
            ("bornHost", f"V{born_host_bytes}"),
            ("storeTimestamp", ">i8"),
            ("storeHost", f"V{store_host_bytes}"),
            ("reconsumeTimes", ">i4"),
            ("preparedTransactionOffset", ">i8"),
            ("bodyLength", ">i4"),
        ]
    )


_HEADS = {
    bits: _head(20 if bits & BORN_HOST_V6 else 8, 20 if bits & STORE_HOST_V6 else 8)
    for bits in (0, BORN_HOST_V6, STORE_HOST_V6, HOST_V6_MASK)
}
"""Fields 1 to 15 of a record, by the host bits of its sysFlag; formats.message has the table."""


@dataclass
class SegmentSlice:
    """Some records of one segment, in order, and the bytes they are in."""

    segment: StoreFile
    view: memoryview
    origin: int
    """Position of the view's first byte in the segment."""
    records: list[ScannedRecord]
    is_proven: bool
    damage: Reason | None = None
    """What is wrong with the one record there is."""

    @cached_property
    def starts(self) -> "np.ndarray[Any, Any]":
        """Return where in the view each record begins: one int64 for each."""
        at = self.segment.base_offset + self.origin
        return np.array([record.physical_offset - at for record in self.records], np.int64)

    @cached_property
    def heads(self) -> "np.ndarray[Any, Any]":
        """Return fields 1 to 15 of each record, by their names, every host as address and port together.

        All records of the piece must have hosts of the same families: see `of_one_shape`.
        """
        head = _HEADS[self.records[0].sys_flag & HOST_V6_MASK]
        raw = np.frombuffer(self.view, np.uint8)
        return raw[self.starts[:, np.newaxis] + np.arange(head.itemsize)].view(head)[:, 0]

    def of_one_shape(self) -> Iterator["SegmentSlice"]:
        """Yield the records in pieces whose hosts are of the same families: nearly always that is one piece."""
        for _, records in groupby(self.records, lambda record: record.sys_flag & HOST_V6_MASK):
            yield SegmentSlice(self.segment, self.view, self.origin, list(records), self.is_proven, self.damage)


@dataclass(frozen=True, slots=True)
class CorruptBytes:
    """Bytes that are no record."""

    segment: StoreFile
    position: int
    reason: Reason


class RangeReader:
    """Reads one range from its first byte to its last."""

    def __init__(self, directory: StoreDirectory, log_range: LogRange, rows_max: int) -> None:
        """rows_max: how many records a piece has at most."""
        self._directory = directory
        self._range = log_range
        self._segment = log_range.segment
        self._rows_max = rows_max
        self._at = log_range.start
        self._is_proven = True
        self._looks = LOOKS_MAX if log_range.is_last else 0
        self._seen: tuple[int, Reason] | None = None
        """What looked damaged last, and is being looked at again."""

    def pieces(self) -> Iterator[SegmentSlice | CorruptBytes]:
        """Yield what the range holds, in order."""
        while self._at < self._range.end:
            view, origin, stop = self._look()
            records: list[ScannedRecord] = []
            error: CorruptFileError | None = None
            try:
                for record in scan_records(
                    view,
                    self._at - origin,
                    stop,
                    file=self._segment.path,
                    base_offset=self._segment.base_offset + origin,
                    check_crc=True,
                ):
                    records.append(record)
                    if len(records) == self._rows_max:
                        yield self._piece(view, origin, records)
                        records = []
            except CorruptFileError as found:
                error = found
            if records:
                yield self._piece(view, origin, records)
            if error is not None:
                if self._is_settled(Reason.of(error)):
                    yield from self._damage(view, origin, error)
            elif self._at < origin + stop:
                if is_closed_at(view, self._at - origin, self._segment.size_bytes - origin):
                    return
                if self._is_settled(Reason("totalSize", "", "")):
                    yield self._false_end(view, origin)

    def _is_settled(self, reason: Reason) -> bool:
        """Return whether what is wrong here is so for good; else look again, as the store may be writing it now."""
        if not self._looks or self._seen == (self._at, reason):
            return True
        self._looks -= 1
        self._seen = self._at, reason
        pause()
        return False

    def _look(self) -> tuple[memoryview, int, int]:
        """Return bytes from here on, the position of their first, and up to where in them whole records are."""
        window_bytes, end, segment = WINDOW_BYTES, self._range.end, self._segment
        while True:
            view, origin = self._directory.window(segment, self._at, window_bytes)
            if origin + len(view) >= end:
                return view, origin, end - origin
            *_, last = (0, *chain(view, self._at - origin, len(view), segment.base_offset + origin))
            if last:
                return view, origin, last
            window_bytes *= 2  # one record is longer than that, or the chain ends here

    def _piece(self, view: memoryview, origin: int, records: list[ScannedRecord]) -> SegmentSlice:
        last = records[-1]
        self._at = last.physical_offset - self._segment.base_offset + last.size_bytes
        return SegmentSlice(self._segment, view, origin, records, self._is_proven)

    def _damage(self, view: memoryview, origin: int, error: CorruptFileError) -> Iterator[SegmentSlice | CorruptBytes]:
        """Yield what is here instead of a sound record, and go on behind it."""
        segment, end, at = self._segment, self._range.end, self._at - origin
        if not view[at : at + 8].tobytes().strip(b"\0") and self._is_zero_from(self._at):
            if not self._range.is_last:
                yield CorruptBytes(segment, self._at, Reason("magicCode", "a record or a blank one", "zeros"))
            self._at = end
            return
        reason = Reason.of(error)
        if error.field == "bodyCRC":
            base_offset = segment.base_offset + origin
            try:
                record = next(
                    scan_records(view, at, len(view), file=segment.path, base_offset=base_offset, check_crc=False)
                )
            except CorruptFileError as worse:
                reason = reason._replace(found=f"{reason.found}; {Reason.of(worse)}")
            else:
                piece = self._piece(view, origin, [record])
                piece.damage = reason
                yield piece
                return
        yield CorruptBytes(segment, origin + error.offset, reason)
        self._is_proven = False
        self._search(self._at + 1)

    def _false_end(self, view: memoryview, origin: int) -> CorruptBytes:
        """Return the damage that a blank record is that does not take all that is left, and go on behind it."""
        position = self._at
        expected = self._segment.size_bytes - position
        found = int.from_bytes(view[position - origin : position - origin + 4], "big", signed=True)
        self._is_proven = False
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
        segment, end = self._segment, self._range.end
        while position < end:
            view, origin = self._directory.window(segment, position)
            found = find_record(view, position - origin, segment.base_offset + origin, segment.size_bytes - origin)
            if found is not None:
                self._at = min(origin + found, end)
                return
            position = max(position + 1, origin + len(view) - RECORD_BYTES_MIN)
            if origin + len(view) >= segment.size_bytes:
                break
        self._at = end

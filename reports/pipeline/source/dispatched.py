"""Reads by consume queues: skips the records of unwanted queues, and finds records by queue offset.

Queue entries contain the positions and sizes of records. The reader skips records of queues that the conditions
exclude, and reads all bytes without an entry. So a missing entry costs time, but never a row. The whole range is read
if two entries overlap, if a record is damaged or has a different size from its entry, or if a record without an entry
does not end where the next record begins. docs/tables.md names the rows that can be missed.

If each requested queue offset has an entry that points to a record with that topic, queue id and queue offset, the
reader reads only these records. Queue offset 0 is never looked up, because prepared and rolled-back records, which are
in no queue, have it too.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from ....store.errors import CorruptFileError
from ....store.formats.consume_queue import ENTRY_BYTES, is_valid
from ....store.formats.scan import scan_records
from .columns import RowConditions
from .directory import NEAR_BYTES, StoreDirectory, StoreFile
from .log_ranges import LogRange, whole_record_at
from .queue_array import QueueArray
from .records import RangeReader, RecordScanner
from .segment_slice import Array, SegmentSlice, pieces_of

SHARE_MAX = 0.25
"""If the entries are more than this share of the bytes in a range, the whole range is read."""
COST_SHARE_MAX = 0.75
"""If reading the wanted records costs more than this share of a full read, the whole range is read."""
SEARCH_BYTES = 48 << 10
"""Estimated number of bytes read to find the start of a range in one queue."""
_GAPS_MAX = 64
_PIECE_BYTES = 1 << 30
"""Small enough for 32-bit offsets."""


class CoveredSpans(NamedTuple):
    """The byte ranges (log offsets) that the entries of a log range cover; ascending, without overlaps."""

    begins: Array
    ends: Array
    is_wanted: Array


class ContradictedError(Exception):
    """The log does not match the queue entries."""


def wanted_pieces(
    directory: StoreDirectory, log_range: LogRange, conditions: RowConditions
) -> list[SegmentSlice] | None:
    """Return all records that may match, and possibly others; None if the whole range must be read."""
    if not (conditions.on("topic") or conditions.on("queue_id")):
        return None
    room_bytes = int((log_range.end - log_range.start) * SHARE_MAX)
    if room_bytes < SEARCH_BYTES:
        return None
    spans = _covered_spans(directory, log_range, conditions, room_bytes)
    if spans is None:
        return None
    gaps = _gaps_between(spans, log_range)
    sizes = spans.ends - spans.begins
    wanted = spans.begins[spans.is_wanted], spans.ends[spans.is_wanted]
    if len(gaps) > _GAPS_MAX or _cost_bytes(*wanted) > sizes.sum() * COST_SHARE_MAX:
        return None
    try:
        return list(_wanted_and_gap_records(directory, log_range, spans, gaps))
    except ContradictedError:
        return None


def _covered_spans(
    directory: StoreDirectory, log_range: LogRange, conditions: RowConditions, room_bytes: int
) -> CoveredSpans | None:
    """Return None if the entries cost too much or contradict each other."""
    queues: dict[tuple[str, int], list[StoreFile]] = {}
    for one in directory.queue_files():
        queues.setdefault((one.topic, one.queue_id), []).append(one.file)
    if not queues or len(queues) * SEARCH_BYTES > room_bytes:
        return None
    low, high = (log_range.segment.base_offset + at for at in (log_range.start, log_range.end))
    parts = list[tuple[Array, Array, Array]]()
    left_bytes = room_bytes
    cost_max = (log_range.end - log_range.start) * COST_SHARE_MAX

    def is_wanted(queue: tuple[str, int]) -> bool:
        return conditions.allow("topic", queue[0]) and conditions.allow("queue_id", queue[1])

    for kind in (True, False):  # wanted queues first: if their records cost too much, the other queues need not be read
        for queue in (one for one in queues if is_wanted(one) is kind):
            begins, ends = QueueArray(directory, queues[queue]).record_bounds_between(low, high)
            parts.append((begins, ends, np.full(len(begins), kind)))
            left_bytes -= len(begins) * ENTRY_BYTES
            if left_bytes < 0:
                return None
        if kind and parts:
            begins, ends, _ = (np.concatenate(some) for some in zip(*parts, strict=True))
            if _cost_bytes(begins, ends) > cost_max:
                return None
    begins, ends, wanted = (np.concatenate(some) for some in zip(*parts, strict=True))
    order = np.lexsort((~wanted, ends, begins))
    begins, ends, wanted = begins[order], ends[order], wanted[order]
    is_again = np.append(False, (begins[1:] == begins[:-1]) & (ends[1:] == ends[:-1]))[: len(begins)]
    # several light queues can have the same record
    begins, ends, wanted = begins[~is_again], ends[~is_again], wanted[~is_again]
    is_past_the_segment = len(ends) and ends[-1] > log_range.segment.base_offset + log_range.segment.size_bytes
    if is_past_the_segment or (begins[1:] < ends[:-1]).any():
        return None
    assert len(begins) == len(ends) == len(wanted), "columns of one table"
    assert (begins < ends).all(), "an entry without bytes"
    return CoveredSpans(begins, ends, wanted & (begins >= low))


def _cost_bytes(begins: Array, ends: Array) -> int:
    """Return the cost of reading ranges: their bytes, plus NEAR_BYTES per read. Near ranges share one read."""
    if not len(begins):
        return 0
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    between = begins[1:] - ends[:-1]
    is_apart = between >= NEAR_BYTES
    return int(ends[-1] - begins[0] - between[is_apart].sum()) + (int(is_apart.sum()) + 1) * NEAR_BYTES


def _gaps_between(spans: CoveredSpans, log_range: LogRange) -> list[LogRange]:
    base_offset = log_range.segment.base_offset
    begins = np.append(log_range.start, spans.ends - base_offset)
    ends = np.append(spans.begins - base_offset, log_range.end)
    is_gap = begins < ends
    found = [
        replace(log_range, start=begin, end=end, known=begin)
        for begin, end in zip(begins[is_gap].tolist(), ends[is_gap].tolist(), strict=True)
    ]
    if found and found[0].start == log_range.start and not (spans.ends == base_offset + log_range.start).any():
        found[0] = replace(found[0], known=log_range.known)  # no entry proves that a record begins here
    return found


def _wanted_and_gap_records(
    directory: StoreDirectory, log_range: LogRange, spans: CoveredSpans, gaps: list[LogRange]
) -> Iterator[SegmentSlice]:
    """Raises ContradictedError if the log does not match the queue entries."""
    segment = log_range.segment
    scanner = RecordScanner(segment.path)
    begins = spans.begins[spans.is_wanted] - segment.base_offset
    ends = spans.ends[spans.is_wanted] - segment.base_offset
    cuts = np.searchsorted(begins, [gap.start for gap in gaps])
    for (first, after), gap in zip(pairwise([0, *cuts, len(begins)]), [*gaps, None], strict=True):
        if first < after:
            yield from _scan_entries(directory, scanner, segment, begins[first:after], ends[first:after])
        if gap is not None:
            yield from _scan_gap(directory, gap, is_at_end=gap.end == log_range.end)


def _scan_entries(
    directory: StoreDirectory, scanner: RecordScanner, segment: StoreFile, begins: Array, ends: Array
) -> Iterator[SegmentSlice]:
    """Also scan the records between two near entries, because a second scan would cost more."""
    view, origin = directory.read_ranges(segment, begins.tolist(), ends.tolist())
    starts, stops = begins - origin, ends - origin
    cuts = np.flatnonzero(starts[1:] - stops[:-1] >= NEAR_BYTES) + 1
    found = list[Array]()
    for first, after in pairwise([0, *cuts.tolist(), len(starts)]):
        at, stop = int(starts[first]), int(stops[after - 1])
        while at < stop:
            scan = scanner.scan(view[:stop], at, stop, segment.base_offset + origin)
            if scan.error is not None or not len(scan.starts):
                raise ContradictedError
            at = scan.end
            found.append(scan.starts)
    there = np.concatenate(found)
    if not np.array_equal(there[np.isin(there, starts, assume_unique=True)], starts):
        raise ContradictedError
    for some in pieces_of(starts, _PIECE_BYTES):
        yield SegmentSlice(segment, view, origin, starts[some], is_proven=True)


def _scan_gap(directory: StoreDirectory, gap: LogRange, *, is_at_end: bool) -> Iterator[SegmentSlice]:
    """Raises ContradictedError unless records fill the gap."""
    reader = RangeReader(directory, gap)
    for piece in reader.pieces():
        if not isinstance(piece, SegmentSlice) or piece.damage is not None or not piece.is_proven:
            raise ContradictedError
        yield piece
    if reader.position != gap.end and not is_at_end:
        raise ContradictedError


_PLACES_MAX = 64


def ranges_of_queue_offsets(directory: StoreDirectory, conditions: RowConditions) -> list[LogRange] | None:
    """Return the ranges to read; None if the query names no queue offsets, or if a record is not found."""
    topics, queue_ids = conditions.listed_values("topic"), conditions.listed_values("queue_id")
    places = _queue_offsets(conditions)
    if topics is None or queue_ids is None or places is None or 0 in places:
        return None
    if len(topics) * len(queue_ids) * len(places) > _PLACES_MAX:
        return None
    segments, found = directory.segments(), list[LogRange]()
    for topic, queue_id in product(topics, queue_ids):
        queue = QueueArray(directory, directory.files_of_queue(topic, queue_id))
        for place in places:
            one = _range_of_record(directory, segments, queue, (topic, queue_id, place))
            if one is None:
                return None
            found.append(one)
    return sorted(found, key=lambda one: (one.segment.base_offset, one.start))


def _queue_offsets(conditions: RowConditions) -> list[int] | None:
    pinned = conditions.listed_values("queue_offset")
    if pinned is not None:
        return pinned
    low, high = conditions.bounds("queue_offset")
    return list(range(low, high + 1)) if high - low < _PLACES_MAX else None


def _range_of_record(
    directory: StoreDirectory, segments: list[StoreFile], queue: QueueArray, place: tuple[str, int, int]
) -> LogRange | None:
    """Return the range of one record; None if its entry or the record is invalid or does not match."""
    entry = queue.at(place[2])
    if entry is None or not is_valid(entry):
        return None
    for segment in segments:
        begin = entry.physical_offset - segment.base_offset
        end = begin + entry.size_bytes
        if begin >= 0 and end <= segment.size_bytes:
            view, origin = whole_record_at(directory, segment, begin, entry.size_bytes)
            base_offset, file = segment.base_offset + origin, segment.path
            scan = scan_records(view, begin - origin, end - origin, file=file, base_offset=base_offset, check_crc=True)
            try:
                record = next(scan, None)
            except CorruptFileError:
                return None
            if record is None or (record.topic, record.queue_id, record.queue_offset) != place:
                return None
            is_whole = record.size_bytes == entry.size_bytes
            return LogRange(segment, begin, end, is_last=False, known=begin) if is_whole else None
    return None

"""Indexed read: uses index files to read only records that may have a requested key.

The header of an index file names the first and the last record with keys in the file. The reader reads all of
the log that no index file covers, and the record of each file's last entry, because the file may lack some keys of this
record. In a covered part it reads only records to which entries with the key's hash point. Each read starts at an
earlier record that has an entry in its queue, so it reports the same damage as a full read. Then the reader compares
topic and key.

An index file is trusted if it is consistent (`index_lookup`), and if the records of its first, last and matching
entries exist and have keys with these hashes. Records may be missing after a recovery that truncated the log but not
the index. The part of the log that an untrusted index file covers is read completely. docs/tables.md describes the
cases in which a broken index costs rows.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from ....store.errors import CorruptFileError
from ....store.formats.index import HEADER_BYTES, IndexHeader, decode_header
from ....store.formats.index_key import key_hash, key_hashes, keys_of, may_have_keys
from ....store.formats.message import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from .checkpoint import durable_times
from .columns import RowConditions
from .directory import NEAR_BYTES, StoreDirectory, StoreFile
from .index_lookup import InconsistentIndexError, IndexedPart, IndexLookup
from .log_ranges import LogRange
from .records import RangeReader
from .segment_slice import SegmentSlice
from .source_options import SourceOptions

SHARE_MAX = 0.25
"""If the matching records make up more than this share of a part, the whole part is read."""
_TOPICS_MAX = 64
_ZEROS_BYTES = 1 << 20
"""A record followed by this many zeros counts as the end of the log."""


class RangesOfPart(NamedTuple):
    """The log ranges to read in one part."""

    ranges: list[LogRange]
    are_records: bool
    """Whether the ranges contain only the records of matching entries, not the whole part."""


def records_with_key(piece: SegmentSlice, key: bytes) -> SegmentSlice:
    """Select the records with a key, except rolled-back ones, which are not in the index."""
    some = piece.where(piece.number("sysFlag") & TRANSACTION_MASK != TRANSACTION_ROLLBACK)
    some = some.where(pc.match_substring(some.joined_properties, pattern=key).to_numpy(zero_copy_only=False))
    return some.where(np.array([key in keys_of(one) for one in some.joined_properties.to_pylist()], bool))


def hashes_of(conditions: RowConditions, key: bytes) -> list[int]:
    """Return an empty list if no condition names topics, or if the conditions name too many."""
    topics = conditions.listed_values("topic") or []
    return sorted({key_hash(topic, key) for topic in topics}) if len(topics) <= _TOPICS_MAX else []


def parts_of(directory: StoreDirectory, ranges: Sequence[LogRange]) -> list[LogRange | IndexedPart] | None:
    """Return the ranges. An `IndexedPart` replaces the records that an index file covers.

    None if no index file covers a range, if the store has no queues, or if index files contradict each other.
    """
    durable_before_ms = _durable_before_ms(directory)
    files = list(_headers_with_entries(directory))
    if not files or not ranges or not directory.has_queues:
        return None
    found, covered_to = list[LogRange | IndexedPart](), ranges[0].log_start
    last_end = -1
    for file, header in files:
        begin, end = header.begin_physical_offset, header.end_physical_offset
        if begin < last_end:
            return None
        last_end = end
        there = tuple(_ranges_between(ranges, begin, end + 1))
        if end > covered_to and there:
            found += _ranges_between(ranges, covered_to, begin)
            found.append(IndexedPart(file, header, there, durable_before_ms))
            covered_to = end
    uncovered = _ranges_between(ranges, covered_to, ranges[-1].log_end)
    return [*found, *(replace(one, zeros_max=_ZEROS_BYTES) if one.is_last else one for one in uncovered)]


def ranges_of_part(
    directory: StoreDirectory, part: IndexedPart, hashes: Sequence[int], options: SourceOptions
) -> RangesOfPart:
    begin, end = part.header.begin_physical_offset, part.header.end_physical_offset
    try:
        lookup = IndexLookup(directory, part, options)
        expected = dict.fromkeys(lookup.offsets(hashes), hashes)
        expected.setdefault(begin, [lookup.first.key_hash])
        found = _ranges_with_records(part.ranges, sorted(offset for offset in expected if offset < end))
        cost_bytes = sum(one.end - one.start + NEAR_BYTES for one in found)
        if cost_bytes <= SHARE_MAX * (end - begin):
            last = _ranges_with_records(part.ranges, [end])
            expected[end] = [lookup.last.key_hash]
            there = {offset for one in (*found, *last) for offset in _positions_with_keys(directory, one, expected)}
            if there == {offset for offset in expected if offset >= part.ranges[0].log_start}:
                return RangesOfPart(found, are_records=True)
    except (InconsistentIndexError, FileNotFoundError):
        pass  # retention may have removed the file in the meantime
    return RangesOfPart(_ranges_between(part.ranges, begin, end), are_records=False)


def _headers_with_entries(directory: StoreDirectory) -> Iterator[tuple[StoreFile, IndexHeader]]:
    for file in directory.index_files():
        if file.size_bytes > HEADER_BYTES:
            view, _ = directory.read_window(file, 0, HEADER_BYTES)
            header = decode_header(memoryview(view[:HEADER_BYTES].tobytes()))
            if header.next_entry > 1:
                yield file, header


def _durable_before_ms(directory: StoreDirectory) -> int | None:
    """Return the store time up to which index files are durable; None if all are."""
    try:
        durable = durable_times(directory)
    except CorruptFileError:
        return 0
    return None if durable is None else durable.index_msg_timestamp_ms


def _ranges_between(ranges: Sequence[LogRange], low: int, high: int) -> list[LogRange]:
    first = max(bisect_right(ranges, low, key=lambda one: one.log_start) - 1, 0)
    found = list[LogRange]()
    for one in ranges[first:]:
        if one.log_start >= high:
            break
        some = one.within(low, high)
        if some is not None:
            found.append(some)
    return found


def _ranges_with_records(ranges: Sequence[LogRange], offsets: Sequence[int]) -> list[LogRange]:
    """Return ranges with the records at the given offsets. Near records share a range.

    A store writes a record before its index entry, so damage in these ranges is permanent, and no range is the last of
    the log.
    """
    cuts = [0, *(at for at in range(1, len(offsets)) if offsets[at] - offsets[at - 1] >= NEAR_BYTES), len(offsets)]
    return [
        replace(one, is_last=False)
        for first, after in pairwise(cuts)
        if first < after
        for one in _ranges_between(ranges, offsets[first], offsets[after - 1] + 1)
    ]


def _positions_with_keys(
    directory: StoreDirectory, log_range: LogRange, expected: Mapping[int, Sequence[int]]
) -> Iterator[int]:
    for piece in RangeReader(directory, log_range).pieces():
        if isinstance(piece, SegmentSlice):
            is_expected = np.isin(piece.starts + piece.origin + piece.segment.base_offset, list(expected))
            for record in piece.where(is_expected).records:
                hashes = key_hashes(record.topic, record.properties) if may_have_keys(record) else ()
                if not set(hashes).isdisjoint(expected[record.physical_offset]):
                    yield record.physical_offset

"""Indexed read: reads only the records that can have a key, where index files cover the rest of the log.

The header of an index file has the first and the last record of the keys in it. These parts of the log are read anyway:
after the last index file, before the first, between two, and the record of each file's last entry, which may lack some
keys. In a covered part only the records are read that entries with the key's hash lead to, starting at a record that
its queue proves before it. So damage shows as in a full read. Topic and key are compared after that.

An index file is believed if it is consistent (index_lookup), and if the records of its first entry, its last entry and
the matching entries exist with these hashes. If the log was cut before the index, they do not exist. Then the file's
part of the log is read in full. A broken index therefore costs time; docs/tables.md says when it costs rows.
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
from .checkpoint import vouched_for
from .columns import RowConditions
from .directory import NEAR_BYTES, StoreDirectory, StoreFile
from .index_lookup import IndexedPart, IndexLookup, OddIndexError
from .log_ranges import LogRange
from .records import RangeReader
from .segment_slice import SegmentSlice
from .source_options import SourceOptions

SHARE_MAX = 0.25
"""If a larger share of a part would be read record by record, all of it is read."""
_TOPICS_MAX = 64
_ZEROS_BYTES = 1 << 20
"""So many zeros after the log's last record are its end."""


class RangesOfPart(NamedTuple):
    """The ranges to read of a part."""

    ranges: list[LogRange]
    are_records: bool
    """Whether they are only the records of entries, not the whole part."""


def with_key(piece: SegmentSlice, key: bytes) -> SegmentSlice:
    """Return the records that the index has under a key; it has no roll-backs."""
    some = piece.where(piece.number("sysFlag") & TRANSACTION_MASK != TRANSACTION_ROLLBACK)
    some = some.where(pc.match_substring(some.joined_properties, pattern=key).to_numpy(zero_copy_only=False))
    return some.where(np.array([key in keys_of(one) for one in some.joined_properties.to_pylist()], bool))


def hashes_of(conditions: RowConditions, key: bytes) -> list[int]:
    """Return the hashes of a key in the wanted topics; none if topics are not named or too many."""
    topics = conditions.pinned("topic") or []
    return sorted({key_hash(topic, key) for topic in topics}) if len(topics) <= _TOPICS_MAX else []


def parts_of(directory: StoreDirectory, ranges: Sequence[LogRange]) -> list[LogRange | IndexedPart] | None:
    """Return the ranges with each part that an index file covers replaced by that part; None if no file covers any.

    None too if records cannot be proven by queues, or if files contradict each other.
    """
    durable_before_ms = _durable_before_ms(directory)
    files = list(_headers(directory))
    if not files or not ranges or not directory.has_queues:
        return None
    found, covered_to = list[LogRange | IndexedPart](), ranges[0].log_start
    last_end = -1
    for file, header in files:
        begin, end = header.begin_physical_offset, header.end_physical_offset
        if begin < last_end:
            return None
        last_end = end
        there = tuple(_between(ranges, begin, end + 1))
        if end > covered_to and there:
            found += _between(ranges, covered_to, begin)
            found.append(IndexedPart(file, header, there, durable_before_ms))
            covered_to = end
    behind = _between(ranges, covered_to, ranges[-1].log_end)
    return [*found, *(replace(one, zeros_max=_ZEROS_BYTES) if one.is_last else one for one in behind)]


def ranges_of_part(
    directory: StoreDirectory, part: IndexedPart, hashes: Sequence[int], options: SourceOptions
) -> RangesOfPart:
    """Return the ranges to read of a part for keys with some hashes."""
    begin, end = part.header.begin_physical_offset, part.header.end_physical_offset
    try:
        lookup = IndexLookup(directory, part, options)
        expected = dict.fromkeys(lookup.offsets(hashes), hashes)
        expected.setdefault(begin, [lookup.first.key_hash])
        found = _near_each_other(part.ranges, sorted(offset for offset in expected if offset < end))
        cost_bytes = sum(one.end - one.start + NEAR_BYTES for one in found)
        if cost_bytes <= SHARE_MAX * (end - begin):
            last = _near_each_other(part.ranges, [end])
            expected[end] = [lookup.last.key_hash]
            there = {offset for one in (*found, *last) for offset in _records_with(directory, one, expected)}
            if there == {offset for offset in expected if offset >= part.ranges[0].log_start}:
                return RangesOfPart(found, are_records=True)
    except (OddIndexError, FileNotFoundError):
        pass  # retention may have removed it meanwhile
    return RangesOfPart(_between(part.ranges, begin, end), are_records=False)


def _headers(directory: StoreDirectory) -> Iterator[tuple[StoreFile, IndexHeader]]:
    """Yield the header of each index file that has entries."""
    for file in directory.index_files():
        if file.size_bytes > HEADER_BYTES:
            view, _ = directory.window(file, 0, HEADER_BYTES)
            header = decode_header(memoryview(view[:HEADER_BYTES].tobytes()))
            if header.next_entry > 1:
                yield file, header


def _durable_before_ms(directory: StoreDirectory) -> int | None:
    """Return the store time up to which index files are durable; None if all are."""
    try:
        vouched = vouched_for(directory)
    except CorruptFileError:
        return 0
    return None if vouched is None else vouched.index_msg_timestamp_ms


def _between(ranges: Sequence[LogRange], low: int, high: int) -> list[LogRange]:
    first = max(bisect_right(ranges, low, key=lambda one: one.log_start) - 1, 0)
    found = list[LogRange]()
    for one in ranges[first:]:
        if one.log_start >= high:
            break
        some = one.within(low, high)
        if some is not None:
            found.append(some)
    return found


def _near_each_other(ranges: Sequence[LogRange], offsets: Sequence[int]) -> list[LogRange]:
    """Return ranges with the records at some offsets, in order. Records close to each other share a range.

    No range counts as the log's last, so damage in it is permanent: indexed records were written before.
    """
    cuts = [0, *(at for at in range(1, len(offsets)) if offsets[at] - offsets[at - 1] >= NEAR_BYTES), len(offsets)]
    return [
        replace(one, is_last=False)
        for first, behind in pairwise(cuts)
        if first < behind
        for one in _between(ranges, offsets[first], offsets[behind - 1] + 1)
    ]


def _records_with(
    directory: StoreDirectory, log_range: LogRange, expected: Mapping[int, Sequence[int]]
) -> Iterator[int]:
    """Yield the positions in a range of records with keys of the expected hashes."""
    for piece in RangeReader(directory, log_range).pieces():
        if isinstance(piece, SegmentSlice):
            is_expected = np.isin(piece.starts + piece.origin + piece.segment.base_offset, list(expected))
            for record in piece.where(is_expected).records:
                hashes = key_hashes(record.topic, record.properties) if may_have_keys(record) else ()
                if not set(hashes).isdisjoint(expected[record.physical_offset]):
                    yield record.physical_offset

"""Segment slice: extracts the columns of thousands of records at once from a segment's bytes.

formats.message has the byte table. The position of a field depends on the fields before it; numpy computes it for all
records at once. The bytes are copied only once: the values of a first Arrow array over the view are wanted and unwanted
byte ranges in turn, and Arrow selects the wanted values.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....store.formats.message import BORN_HOST_V6, MESSAGE_MAGIC_V2, STORE_HOST_V6
from ....store.formats.properties import decode_properties
from ....store.formats.scan import ScannedRecord, scan_records
from .columns import Reason
from .directory import StoreFile

Array = np.ndarray[Any, Any]
_IPV6_EXTRA_BYTES = 12
_FIXED_FIELDS = {
    "totalSize": (0, ">i4"),
    "magicCode": (4, ">i4"),
    "bodyCRC": (8, ">u4"),
    "queueId": (12, ">i4"),
    "flag": (16, ">i4"),
    "queueOffset": (20, ">i8"),
    "physicalOffset": (28, ">i8"),
    "sysFlag": (36, ">i4"),
    "bornTimestamp": (40, ">i8"),
}
_AFTER_BORN_HOST = {"storeTimestamp": (56, ">i8")}
_FIELDS_AFTER_HOSTS = {
    "reconsumeTimes": (72, ">i4"),
    "preparedTransactionOffset": (76, ">i8"),
    "bodyLength": (84, ">i4"),
}
"""Position and type of each field, if the hosts before it are IPv4 addresses."""
_BORN_HOST_AT, _STORE_HOST_AT, _HEAD_BYTES = 48, 64, 88
_NAME_SEPARATOR, _ENTRY_SEPARATOR = 1, 2
_PROPERTIES_LENGTH_BYTES = 2
_OFFSETS_MAX = (1 << 31) - 1


class Spans(NamedTuple):
    """For each record, the start and the end of one byte range."""

    begins: Array
    ends: Array


class ScannedTopics(NamedTuple):
    """The topics of records that a scan found."""

    codes: Array
    """Index of each record's topic in `names`."""
    names: pa.Array
    """Topics, possibly repeated."""


class PropertyEntries(NamedTuple):
    """The properties of all records, in log order."""

    rows: Array
    """Index of each property's record."""
    names: pa.Array
    values: pa.Array


@dataclass
class SegmentSlice:
    """Records of one segment in log order, with the bytes that contain them."""

    segment: StoreFile
    view: memoryview
    origin: int
    """Position of the view's first byte in the segment."""
    starts: Array
    """Positions of the records in the view; int64, ascending."""
    is_proven: bool
    damage: Reason | None = None
    """The damage, if the slice consists of one damaged record."""
    scanned_topics: ScannedTopics | None = None
    """Saves reading the topics again; None if the scan does not know them."""

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, mask: Array | slice) -> "SegmentSlice":
        """Return the records that a mask, an index array or a slice selects."""
        known = self.scanned_topics
        known = None if known is None else known._replace(codes=known.codes[mask])
        return replace(self, starts=self.starts[mask], scanned_topics=known)

    def number(self, name: str) -> Array:
        """Return a header field as int64."""
        if name in _FIXED_FIELDS:
            at, type_ = _FIXED_FIELDS[name]
            return self._numbers(self.starts + at, type_)
        if name in _AFTER_BORN_HOST:
            at, type_ = _AFTER_BORN_HOST[name]
            return self._numbers(self.starts + self._born_extra + at, type_)
        at, type_ = _FIELDS_AFTER_HOSTS[name]
        return self._numbers(self.starts + self._hosts_extra + at, type_)

    def born_hosts(self) -> pa.Array:
        begins = self.starts + _BORN_HOST_AT
        return self.bytes_of(Spans(begins, begins + 8 + self._born_extra))

    def store_hosts(self) -> pa.Array:
        begins = self.starts + self._born_extra + _STORE_HOST_AT
        return self.bytes_of(Spans(begins, begins + 8 + self._hosts_extra - self._born_extra))

    @cached_property
    def bodies(self) -> Spans:
        begins = self.starts + self._hosts_extra + _HEAD_BYTES
        return Spans(begins, begins + self.number("bodyLength"))

    @cached_property
    def topics(self) -> pa.DictionaryArray:
        """All topics are UTF-8, because a record with another topic counts as damage."""
        if self.scanned_topics is not None:
            assert len(self.scanned_topics.codes) == len(self), "columns of one table"
            return pa.DictionaryArray.from_arrays(pa.array(self.scanned_topics.codes), self.scanned_topics.names)
        return self.bytes_of(self._topic_spans).cast(pa.string()).dictionary_encode()

    @cached_property
    def joined_properties(self) -> pa.Array:
        ends = self.starts + self.number("totalSize")
        return self.bytes_of(Spans(self._topic_spans.ends + _PROPERTIES_LENGTH_BYTES, ends))

    @cached_property
    def properties(self) -> PropertyEntries:
        """A repeated property name keeps its first position and gets the last value."""
        joined = self.joined_properties
        found = _split_properties(joined)
        return _decode_properties(joined) if found is None else found

    def property(self, name: str) -> pa.Array:
        """Return the value of a property per record; null for records without this property."""
        entries = self.properties
        which = np.flatnonzero(pc.equal(entries.names, name).to_numpy(zero_copy_only=False))
        places = np.full(len(self), -1, np.int64)
        places[entries.rows[which]] = which
        return entries.values.take(pa.array(places, mask=places < 0))

    @cached_property
    def records(self) -> list[ScannedRecord]:
        if not len(self):
            return []
        ends = self.starts + self.number("totalSize")
        begins_run = np.flatnonzero(np.append(True, self.starts[1:] != ends[:-1]))
        base_offset, found = self.segment.base_offset + self.origin, list[ScannedRecord]()
        for first, after in pairwise([*begins_run.tolist(), len(self)]):
            begin, end = int(self.starts[first]), int(ends[after - 1])
            file = self.segment.path
            found += scan_records(self.view, begin, end, file=file, base_offset=base_offset, check_crc=False)
        return found

    def bytes_of(self, spans: Spans) -> pa.Array:
        return _byte_ranges_array(self._content_buffer, *spans)

    @cached_property
    def _content_buffer(self) -> pa.Buffer:
        return pa.py_buffer(self.view)

    @cached_property
    def _born_extra(self) -> Array:
        return np.where(self.number("sysFlag") & BORN_HOST_V6, _IPV6_EXTRA_BYTES, 0)

    @cached_property
    def _hosts_extra(self) -> Array:
        return self._born_extra + np.where(self.number("sysFlag") & STORE_HOST_V6, _IPV6_EXTRA_BYTES, 0)

    @cached_property
    def _topic_spans(self) -> Spans:
        at = self.bodies.ends
        is_long = self.number("magicCode") == MESSAGE_MAGIC_V2
        sizes = self._numbers(at, "u1")
        if is_long.any():
            sizes = np.where(is_long, self._numbers(at, ">u2"), sizes)
        begins = at + 1 + is_long
        return Spans(begins, begins + sizes)

    def _numbers(self, positions: Array, type_: str) -> Array:
        cell = np.dtype(type_)
        cells = np.ndarray((len(self.view) - cell.itemsize + 1,), cell, self.view, strides=(1,))
        return cells[positions].astype(np.int64)


def _byte_ranges_array(buffer: pa.Buffer, begins: Array, ends: Array) -> pa.Array:
    """begins, ends: ascending ranges without overlaps."""
    if not len(begins):
        return pa.array([], pa.binary())
    first, last = int(begins[0]), int(ends[-1])
    assert last - first <= _OFFSETS_MAX, f"{last - first} bytes do not fit Arrow's 32-bit offsets"
    offsets = np.empty(2 * len(begins), np.int32)
    offsets[0::2] = begins - first
    offsets[1::2] = ends - first
    both = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), buffer.slice(first, last - first)]
    )
    return both.take(pa.array(np.arange(0, len(offsets), 2)))


def _split_properties(joined: pa.Array) -> PropertyEntries | None:
    """Parse all properties at once; return None if a property is not ASCII or a name occurs twice."""
    row_ends = np.frombuffer(joined.buffers()[1], np.int32, count=len(joined) + 1)
    data_buffer = joined.buffers()[2] or pa.py_buffer(b"")
    data = np.frombuffer(data_buffer, np.uint8, count=int(row_ends[-1]))
    if (data & 0x80).any():
        return None
    cuts = np.flatnonzero(data == _ENTRY_SEPARATOR)
    begins = np.sort(np.concatenate((row_ends[:-1], cuts + 1)), kind="stable")
    ends = np.sort(np.concatenate((cuts, row_ends[1:])), kind="stable")
    counts = 1 + np.diff(np.searchsorted(cuts, row_ends))
    rows = np.repeat(np.arange(len(joined)), counts)
    middles = np.append(np.flatnonzero(data == _NAME_SEPARATOR), len(data))
    middle = middles[np.searchsorted(middles[:-1], begins)]
    is_whole = (begins < middle) & (middle + 1 < ends)
    rows, begins, middle, ends = rows[is_whole], begins[is_whole], middle[is_whole], ends[is_whole]
    names = _byte_ranges_array(data_buffer, begins, middle).cast(pa.string())
    values = _byte_ranges_array(data_buffer, middle + 1, ends).cast(pa.string())
    codes = names.dictionary_encode()
    of_row = rows * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
    if len(np.unique(of_row)) < len(of_row):
        return None
    return PropertyEntries(rows, names, values)


def _decode_properties(joined: pa.Array) -> PropertyEntries:
    found = [decode_properties(raw.decode(errors="replace")) for raw in joined.to_pylist()]
    rows = np.repeat(np.arange(len(found)), [len(one) for one in found])
    names = pa.array([name for one in found for name in one], pa.string())
    return PropertyEntries(rows, names, pa.array([value for one in found for value in one.values()], pa.string()))


def pieces_of(starts: Array, bytes_max: int) -> list[slice]:
    """Divide starts into groups. A group spans at most `bytes_max` bytes or has a single start."""
    cuts = [0]
    while cuts[-1] < len(starts):
        first = cuts[-1]
        cuts.append(max(int(np.searchsorted(starts, starts[first] + bytes_max)), first + 1))
    return [slice(begin, end) for begin, end in pairwise(cuts)]

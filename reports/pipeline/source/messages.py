"""The table `messages`: one row per record of the log, and one per damaged byte range.

`COMMENTS` in `rocketmq` explains the columns. A row for a corrupt body has all columns, a row for other damage only
file and position. Conditions exclude all rows for damage. The derived columns tags_code, key_hashes and light_places
exist only if the option `columns` names them.

The reader applies conditions on topic, queue_id, queue_offset, physical_offset, size, sys_flag and store_timestamp_ms
before it decodes other fields. A condition on physical_offset limits the read. Other modules skip parts of the log:
log_times for time ranges, dispatched for queues and queue offsets, and indexed for the option `key`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....scenarios.oracle.light_places import light_places
from ....store.formats.delay_level import DEFAULT_DELAY_LEVELS, entry_tags_code, parse_delay_levels
from ....store.formats.host import Host
from ....store.formats.index_key import key_hashes, may_have_keys
from ....store.formats.properties import KEY_SEPARATOR, PROPERTY_KEYS, PROPERTY_TAGS
from ....store.formats.scan import ScannedRecord
from .columns import DAMAGE, RowConditions, damage_array, damage_batch, fields_of
from .directory import StoreDirectory
from .dispatched import ranges_of_queue_offsets, wanted_pieces
from .index_lookup import IndexedPart
from .indexed import hashes_of, parts_of, ranges_of_part, records_with_key
from .log_ranges import LogRange, log_ranges
from .log_times import LogTimes
from .records import RangeReader
from .segment_slice import Array, SegmentSlice
from .source_options import SourceOptions

TIME = pa.timestamp("us", tz="UTC")
"""Spark displays these times in the time zone of the session."""
_TIMES_MS = (-62_135_596_800_000, 253_402_300_799_999)
"""The first and last millisecond of Python's timestamps: the years 1 to 9999."""
MESSAGE_FIELDS = (
    *fields_of("file string, position int64, physical_offset int64, size int32, topic string, queue_id int32"),
    *fields_of("queue_offset int64, sys_flag int32, flag int32, born_timestamp_ms int64"),
    pa.field("born_time", TIME),
    *fields_of("born_host string, store_timestamp_ms int64"),
    pa.field("store_time", TIME),
    *fields_of("store_host string, reconsume_times int32"),
    *fields_of("prepared_transaction_offset int64, body_crc int64"),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
    pa.field("tags", pa.string()),
    pa.field("keys", pa.list_(pa.string())),
    *fields_of("body binary, is_proven bool"),
    DAMAGE,
)
DERIVED_FIELDS = (
    pa.field("tags_code", pa.int64()),
    pa.field("key_hashes", pa.list_(pa.int32())),
    pa.field("light_places", pa.list_(pa.struct(fields_of("topic string, queue_id int32, queue_offset int64")))),
)
"""Columns computed from a message: its expected tags code in queues, index hashes and light queues."""

_NUMBERS = {
    "size": "totalSize",
    "physical_offset": "physicalOffset",
    "queue_id": "queueId",
    "queue_offset": "queueOffset",
    "sys_flag": "sysFlag",
    "flag": "flag",
    "born_timestamp_ms": "bornTimestamp",
    "store_timestamp_ms": "storeTimestamp",
    "reconsume_times": "reconsumeTimes",
    "prepared_transaction_offset": "preparedTransactionOffset",
    "body_crc": "bodyCRC",
}
"""Column -> header field of the record."""
_CONDITION_NUMBERS = ("physical_offset", "size", "queue_id", "queue_offset", "sys_flag", "store_timestamp_ms")


@lru_cache(maxsize=4096)
def _host_text(raw: bytes) -> str:
    return str(Host(raw[:-4], int.from_bytes(raw[-4:], signed=True)))


def _host_column(raw: pa.Array) -> pa.Array:
    found = raw.dictionary_encode()
    return pa.array([_host_text(one) for one in found.dictionary.to_pylist()], pa.string()).take(found.indices)


def _time_column(times_ms: Array) -> pa.Array:
    is_time = (times_ms >= _TIMES_MS[0]) & (times_ms <= _TIMES_MS[1])
    return pa.array(np.where(is_time, times_ms, 0) * 1000, pa.int64(), mask=~is_time).cast(TIME)


def _properties_column(piece: SegmentSlice) -> pa.Array:
    entries = piece.properties
    offsets = np.searchsorted(entries.rows, np.arange(len(piece) + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)]), entries.names, entries.values
    )


def _keys_column(piece: SegmentSlice) -> pa.Array:
    joined = pc.utf8_trim(pc.replace_substring_regex(piece.property(PROPERTY_KEYS), " +", KEY_SEPARATOR), KEY_SEPARATOR)
    return pc.split_pattern(pc.if_else(pc.equal(joined, ""), None, joined), KEY_SEPARATOR)


def _key_hashes_column(piece: SegmentSlice) -> pa.Array:
    return pa.array(
        [key_hashes(record.topic, record.properties) if may_have_keys(record) else () for record in piece.records],
        pa.list_(pa.int32()),
    )


def _light_queue_rows(record: ScannedRecord) -> list[tuple[str, int, int]]:
    return [(topic, queue_id, place) for (topic, queue_id), place in light_places(record).items()]


class Messages:
    """The log as a table."""

    condition_columns = frozenset((*_CONDITION_NUMBERS, "topic"))

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._key = None if options.key is None else options.key.encode()
        self._delays_ms = parse_delay_levels(options.delay_levels or DEFAULT_DELAY_LEVELS)
        self.schema = pa.schema(options.chosen(MESSAGE_FIELDS, DERIVED_FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[LogRange | IndexedPart]:
        """Return the ranges with records that may match, and the parts that the index covers."""
        if self._options.use_queues:
            named = ranges_of_queue_offsets(directory, conditions)
            if named is not None:
                return named
        ranges = log_ranges(directory, self._options.split_bytes)
        parts = parts_of(directory, ranges) if self._wanted_hashes(conditions) else None
        low, high = conditions.bounds("physical_offset")
        if not directory.has_queues:
            low = 0  # otherwise the range might begin inside a record and search back
        if self._options.out_of_order_ms is not None and conditions.on("store_timestamp_ms"):
            times = LogTimes(directory, self._options.out_of_order_ms)
            begin, end = times.offsets_of_period(*conditions.bounds("store_timestamp_ms"))
            low, high = max(low, begin), min(high, end - 1)
        narrow = (one.within(low, high + 1) for one in (ranges if parts is None else parts))
        return [one for one in narrow if one is not None]

    def batches(
        self, directory: StoreDirectory, partition: LogRange | IndexedPart, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LogRange):
            use_queues = self._options.use_queues and partition.zeros_max is None
            yield from self._message_rows(directory, partition, conditions, use_queues=use_queues)
            return
        found = ranges_of_part(directory, partition, self._wanted_hashes(conditions), self._options)
        for one in found.ranges:
            use_queues = self._options.use_queues and not found.are_records
            yield from self._message_rows(directory, one, conditions, use_queues=use_queues)

    def _wanted_hashes(self, conditions: RowConditions) -> list[int]:
        """Return the hashes to look up; empty if the query cannot use the index."""
        return hashes_of(conditions, self._key) if self._key is not None and self._options.use_index else []

    def _message_rows(
        self, directory: StoreDirectory, log_range: LogRange, conditions: RowConditions, *, use_queues: bool
    ) -> Iterator[pa.RecordBatch]:
        makers = [self._column_maker(field) for field in self.schema]
        wanted = wanted_pieces(directory, log_range, conditions) if use_queues else None
        for piece in RangeReader(directory, log_range).pieces() if wanted is None else wanted:
            if not isinstance(piece, SegmentSlice):
                if not conditions and self._key is None:
                    file, position = piece.segment.path, piece.position
                    yield damage_batch(self.schema, piece.reason, file=file, position=position)
                continue
            some = _allowed_records(piece, conditions)
            if self._key is not None and len(some):
                some = records_with_key(some, self._key)
            if len(some):
                yield pa.RecordBatch.from_arrays([make(some) for make in makers], schema=self.schema)

    def _column_maker(self, field: pa.Field) -> Callable[[SegmentSlice], Any]:
        name, type_ = field.name, field.type
        if name in _NUMBERS:
            return lambda piece: pa.array(piece.number(_NUMBERS[name]).astype(type_.to_pandas_dtype()), type_)
        makers: dict[str, Callable[[SegmentSlice], Any]] = {
            "file": lambda piece: pa.repeat(piece.segment.path, len(piece)),
            "topic": lambda piece: piece.topics.dictionary_decode(),
            "position": lambda piece: pa.array(piece.starts + piece.origin),
            "born_time": lambda piece: _time_column(piece.number("bornTimestamp")),
            "store_time": lambda piece: _time_column(piece.number("storeTimestamp")),
            "born_host": lambda piece: _host_column(piece.born_hosts()),
            "store_host": lambda piece: _host_column(piece.store_hosts()),
            "body": lambda piece: piece.bytes_of(piece.bodies),
            "properties": _properties_column,
            "tags": lambda piece: piece.property(PROPERTY_TAGS),
            "keys": _keys_column,
            "is_proven": lambda piece: pa.repeat(piece.is_proven, len(piece)),
            "damage": lambda piece: damage_array([piece.damage]).take(pa.repeat(0, len(piece))),
            "tags_code": self._tags_codes,
            "key_hashes": _key_hashes_column,
            "light_places": lambda piece: pa.array([_light_queue_rows(record) for record in piece.records], type_),
        }
        return makers[name]

    def _tags_codes(self, piece: SegmentSlice) -> pa.Array:
        delays_ms = self._delays_ms
        return pa.array(
            [
                entry_tags_code(record.topic, record.properties, record.store_timestamp_ms, delays_ms)
                for record in piece.records
            ],
            pa.int64(),
        )


def _allowed_records(piece: SegmentSlice, conditions: RowConditions) -> SegmentSlice:
    for name in _CONDITION_NUMBERS:
        if conditions.on(name) and len(piece):
            piece = piece.where(conditions.mask({name: piece.number(_NUMBERS[name])}, len(piece)))
    if conditions.on("topic") and len(piece):
        topics = piece.topics
        is_wanted = np.array([conditions.allow("topic", name) for name in topics.dictionary.to_pylist()], bool)
        piece = piece.where(is_wanted[topics.indices.to_numpy()])
    return piece

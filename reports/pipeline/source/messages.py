"""The table `messages`: the log, a row for each record, and one for each place that should be a record and is none.

    column                       type                 meaning
    file, position               string, bigint       the segment, and where in it the record begins
    physical_offset, size        bigint, int          where in the log, and how many bytes
    topic, queue_id              string, int
    queue_offset                 bigint               its place in the queue
    sys_flag, flag               int
    born_timestamp_ms            bigint               the producer's clock
    born_host, store_host        string               address|port
    store_timestamp_ms           bigint
    reconsume_times              int
    prepared_transaction_offset  bigint
    body_crc                     int
    properties                   map<string, string>
    body                         binary
    is_proven                    boolean              false where the record was searched for, behind damage
    damage                       struct               field, expected and found: what is wrong; null if nothing is.
                                                      Where it is not the body alone, file and position are all that
                                                      is known

    tags_code, key_hashes        bigint, array<int>   what its entry in the queue and the index have
    light_places                 array<struct>        topic, queue_id and queue_offset in each of its light queues

The last three are there only if the option `columns` names them.

Filters on topic, queue_id, queue_offset, physical_offset, size, sys_flag and store_timestamp_ms are seen to here,
before anything else of a record is decoded; whole ranges are left out by physical_offset. Damage passes no filter.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ....scenarios.oracle.light_places import light_places
from ....store.formats.delay_level import DEFAULT_DELAY_LEVELS, entry_tags_code, parse_delay_levels
from ....store.formats.host import Host
from ....store.formats.index_key import key_hashes, may_have_keys
from ....store.formats.properties import decode_properties
from ....store.formats.scan import ScannedRecord
from .columns import DAMAGE, RowConditions, damage_array, damage_batch, fields_of
from .directory import StoreDirectory
from .records import LogRange, RangeReader, SegmentSlice, log_ranges
from .source_options import SourceOptions

MESSAGE_FIELDS = (
    *fields_of("file string, position int64, physical_offset int64, size int32, topic string, queue_id int32"),
    *fields_of("queue_offset int64, sys_flag int32, flag int32, born_timestamp_ms int64, born_host string"),
    *fields_of("store_timestamp_ms int64, store_host string, reconsume_times int32"),
    *fields_of("prepared_transaction_offset int64, body_crc int32"),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
    *fields_of("body binary, is_proven bool"),
    DAMAGE,
)
"""Columns of a message, in order."""
DERIVED_FIELDS = (
    pa.field("tags_code", pa.int64()),
    pa.field("key_hashes", pa.list_(pa.int32())),
    pa.field("light_places", pa.list_(pa.struct(fields_of("topic string, queue_id int32, queue_offset int64")))),
)
"""What its queue entry and the index must have of it, and its places in light queues: only where asked for."""

_HEAD_COLUMNS = {
    "physical_offset": "physicalOffset",
    "size": "totalSize",
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
"""Which field of a record's head a column is."""
_PUSHED = {
    "physical_offset": 0,
    "size": 1,
    "topic": 2,
    "queue_id": 3,
    "queue_offset": 4,
    "sys_flag": 5,
    "store_timestamp_ms": 6,
}
"""Which field of a scanned record a column is."""
_ROWS_MAX = 4096


def _positions(piece: SegmentSlice) -> pa.Array:
    return pa.array(piece.starts + piece.origin, pa.int64())


def _hosts(piece: SegmentSlice, name: str) -> pa.Array:
    return pa.array([_host_text(raw) for raw in piece.heads[name].tolist()], pa.string())


@lru_cache(maxsize=4096)
def _host_text(raw: bytes) -> str:
    return str(Host(raw[:-4], int.from_bytes(raw[-4:], signed=True)))


def _bodies(piece: SegmentSlice) -> pa.Array:
    view, sizes = piece.view, piece.heads["bodyLength"].astype(np.int64)
    starts = piece.starts + piece.heads.dtype.itemsize
    bodies = [view[start:end] for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(bodies))]
    return pa.Array.from_buffers(pa.binary(), len(bodies), buffers)


def _properties(piece: SegmentSlice) -> pa.Array:
    offsets, names, values = array("i", [0]), list[str](), list[str]()
    for record in piece.records:
        found = decode_properties(record.properties.decode(errors="replace"))
        names += found
        values += found.values()
        offsets.append(len(names))
    return pa.MapArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)]), names, values
    )


def _key_hashes(piece: SegmentSlice) -> pa.Array:
    return pa.array(
        [key_hashes(record.topic, record.properties) if may_have_keys(record) else () for record in piece.records],
        pa.list_(pa.int32()),
    )


def _light(record: ScannedRecord) -> list[tuple[str, int, int]]:
    return [(topic, queue_id, place) for (topic, queue_id), place in light_places(record).items()]


class Messages:
    """The log as a table."""

    pushed_columns = frozenset(_PUSHED)

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._delays_ms = parse_delay_levels(options.delay_levels or DEFAULT_DELAY_LEVELS)
        self.schema = pa.schema(options.chosen(MESSAGE_FIELDS, DERIVED_FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[LogRange]:
        """Return the ranges of the log that may hold what is asked for."""
        return [
            one
            for one in log_ranges(directory, self._options.split_bytes)
            if conditions.allow_some_of(
                "physical_offset", one.segment.base_offset + one.start, one.segment.base_offset + one.end - 1
            )
        ]

    def batches(
        self, directory: StoreDirectory, partition: LogRange, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        makers = [self._maker(field) for field in self.schema]
        is_wanted = _test_of(conditions)
        for piece in RangeReader(directory, partition, _ROWS_MAX).pieces():
            if not isinstance(piece, SegmentSlice):
                if not conditions:
                    file, position = piece.segment.path, piece.position
                    yield damage_batch(self.schema, piece.reason, file=file, position=position)
                continue
            if is_wanted is not None:
                piece.records = [record for record in piece.records if is_wanted(record)]
            for some in piece.of_one_shape():
                yield pa.RecordBatch.from_arrays([make(some) for make in makers], schema=self.schema)

    def _maker(self, field: pa.Field) -> Callable[[SegmentSlice], Any]:
        name, type_ = field.name, field.type
        if name in _HEAD_COLUMNS:
            of_head = _HEAD_COLUMNS[name]
            return lambda piece: pa.array(piece.heads[of_head].astype(type_.to_pandas_dtype()), type_)
        makers: dict[str, Callable[[SegmentSlice], Any]] = {
            "file": lambda piece: pa.repeat(piece.segment.path, len(piece.records)),
            "topic": lambda piece: pa.array([record.topic for record in piece.records], type_),
            "position": _positions,
            "born_host": lambda piece: _hosts(piece, "bornHost"),
            "store_host": lambda piece: _hosts(piece, "storeHost"),
            "body": _bodies,
            "properties": _properties,
            "is_proven": lambda piece: pa.repeat(piece.is_proven, len(piece.records)),
            "damage": lambda piece: damage_array([piece.damage] * len(piece.records)),
            "tags_code": self._tags_codes,
            "key_hashes": _key_hashes,
            "light_places": lambda piece: pa.array([_light(record) for record in piece.records], type_),
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


def _test_of(conditions: RowConditions) -> Callable[[ScannedRecord], bool] | None:
    """Return what decides whether a record is asked for, None if all are."""
    tests: list[tuple[int, Callable[[Any], Any]]] = [
        (at, one.holds) for name, at in _PUSHED.items() for one in conditions.on(name)
    ]
    if not tests:
        return None
    return lambda record: all(holds(record[at]) for at, holds in tests)

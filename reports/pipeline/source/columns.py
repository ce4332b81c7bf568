"""Arrow arrays of what records hold, one column at a time, so that nothing is decoded that nobody asked for."""

from array import array
from collections.abc import Callable, Iterable, Mapping
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
from .damage import DAMAGE, damage_array, damage_of
from .records import CorruptBytes, SegmentSlice

MESSAGE_FIELDS = (
    pa.field("file", pa.string()),
    pa.field("position", pa.int64()),
    pa.field("physical_offset", pa.int64()),
    pa.field("size", pa.int32()),
    pa.field("topic", pa.string()),
    pa.field("queue_id", pa.int32()),
    pa.field("queue_offset", pa.int64()),
    pa.field("sys_flag", pa.int32()),
    pa.field("flag", pa.int32()),
    pa.field("born_timestamp_ms", pa.int64()),
    pa.field("born_host", pa.string()),
    pa.field("store_timestamp_ms", pa.int64()),
    pa.field("store_host", pa.string()),
    pa.field("reconsume_times", pa.int32()),
    pa.field("prepared_transaction_offset", pa.int64()),
    pa.field("body_crc", pa.int32()),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
    pa.field("body", pa.binary()),
    pa.field("is_proven", pa.bool_()),
    DAMAGE,
)
"""Columns of a message, in order."""
DERIVED_FIELDS = (
    pa.field("tags_code", pa.int64()),
    pa.field("key_hashes", pa.list_(pa.int32())),
    pa.field(
        "light_places",
        pa.list_(pa.struct([("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64())])),
    ),
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


class MessageColumns:
    """Makes record batches of some columns."""

    def __init__(self, fields: Iterable[pa.Field], delay_levels: str = DEFAULT_DELAY_LEVELS) -> None:
        self.schema = pa.schema(fields)
        self._delays_ms: Mapping[int, int] = parse_delay_levels(delay_levels)
        self._makers: list[tuple[pa.Field, Callable[[SegmentSlice], Any]]] = [
            (field, self._maker(field)) for field in self.schema
        ]

    def batch(self, piece: SegmentSlice) -> pa.RecordBatch:
        """Return the rows of some records."""
        return pa.RecordBatch.from_arrays([make(piece) for _, make in self._makers], schema=self.schema)

    def damage(self, damage: CorruptBytes) -> pa.RecordBatch:
        """Return the one row of bytes that are no record."""
        known = {"file": damage.segment.path, "position": damage.position, "damage": damage_of(damage.reason)}
        return pa.RecordBatch.from_pylist(
            [{name: known.get(name) for name in self.schema.names}], self.schema
        )

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
        [
            key_hashes(record.topic, record.properties) if may_have_keys(record) else ()
            for record in piece.records
        ],
        pa.list_(pa.int32()),
    )


def _light(record: ScannedRecord) -> list[tuple[str, int, int]]:
    return [(topic, queue_id, place) for (topic, queue_id), place in light_places(record).items()]

"""The table `queue_entries`: one row per consume queue entry, up to the last nonzero entry.

The reader skips whole files because of conditions on topic, queue_id and queue_offset. In a stream, the entries that
dispatch creates are computed for each record. docs/tables.md lists how they differ from those of the queue files.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....store.formats.consume_queue import BLANK_ENTRY, ENTRY_BYTES, tags_code
from ....store.formats.delay_level import DEFAULT_DELAY_LEVELS, SCHEDULE_TOPIC, parse_delay_levels, record_tags_code
from ....store.formats.light_queues import light_records
from ....store.formats.message import TRANSACTION_MASK
from ....store.formats.messages import is_storable_topic
from ....store.formats.properties import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_TAGS
from ....store.formats.scan import ScannedRecord
from ....store.queues.dispatch import UNDISPATCHED
from .columns import (
    DAMAGE,
    LOOKS_MAX,
    Reason,
    RowConditions,
    batch_of,
    damage_array,
    damage_batch,
    fields_of,
    pause_for_writes,
)
from .directory import QueueFile, StoreDirectory
from .log_ranges import LogRange
from .queue_array import ENTRY
from .records import RangeReader
from .segment_slice import Array, SegmentSlice
from .source_options import SourceOptions

_PLACE = "file string, position int64, topic string, queue_id int32, queue_offset int64"
FIELDS = (*fields_of(f"{_PLACE}, physical_offset int64, size int32, tags_code int64, is_blank bool"), DAMAGE)
_HOLE = Reason("entry", "an entry, because entries follow", "zeros")
_PARTITION_BYTES = 32 << 20
_ROWS_MAX = 1 << 16
_Array = Any


class QueueEntries:
    """The consume queues as a table."""

    condition_columns = frozenset({"topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code"})

    def __init__(self, options: SourceOptions) -> None:
        self.schema = pa.schema(options.chosen(FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[list[QueueFile]]:
        """Return the files that may have matching rows, in groups of about _PARTITION_BYTES."""
        groups: list[list[QueueFile]] = []
        room_bytes = 0
        for one in directory.queue_files():
            first = one.file.base_offset // ENTRY_BYTES
            last = first + one.file.size_bytes // ENTRY_BYTES
            if not (
                conditions.allow("topic", one.topic)
                and conditions.allow("queue_id", one.queue_id)
                and conditions.allow_some_of("queue_offset", first, last)
            ):
                continue
            if room_bytes <= 0:
                groups.append([])
                room_bytes = _PARTITION_BYTES
            groups[-1].append(one)
            room_bytes -= one.file.size_bytes
        return groups

    def batches(
        self, directory: StoreDirectory, partition: list[QueueFile], conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        for one in partition:
            entries, is_zero = _stable_entries(directory, one)
            count = len(entries)
            for start in range(0, count, _ROWS_MAX):
                rows = range(start, min(start + _ROWS_MAX, count))
                yield self._row_batch(one, entries, is_zero, rows, conditions)
            if one.file.size_bytes % ENTRY_BYTES and not conditions:
                yield self._wrong_size_damage(one)

    def _row_batch(
        self, one: QueueFile, entries: _Array, is_zero: _Array, wanted: range, conditions: RowConditions
    ) -> pa.RecordBatch:
        some = entries[wanted.start : wanted.stop]
        numbers = np.arange(wanted.start, wanted.stop, dtype=np.int64)
        columns: dict[str, Any] = {
            "queue_offset": one.file.base_offset // ENTRY_BYTES + numbers,
            "physical_offset": some["physical_offset"].astype(np.int64),
            "size": some["size"].astype(np.int32),
            "tags_code": some["tags_code"].astype(np.int64),
        }
        allowed = conditions.mask(columns, len(wanted))
        columns = {name: values[allowed] for name, values in columns.items()}
        rows = int(allowed.sum())
        zero = is_zero[wanted.start : wanted.stop][allowed]
        columns["is_blank"] = (
            (columns["physical_offset"] == BLANK_ENTRY.physical_offset)
            & (columns["size"] == BLANK_ENTRY.size_bytes)
            & (columns["tags_code"] == BLANK_ENTRY.tags_code)
        )
        columns["position"] = numbers[allowed] * ENTRY_BYTES
        columns["file"] = pa.repeat(one.file.path, rows)
        columns["topic"] = pa.repeat(one.topic, rows)
        columns["queue_id"] = pa.repeat(pa.scalar(one.queue_id, pa.int32()), rows)
        columns["damage"] = (
            damage_array([_HOLE if one else None for one in zero.tolist()])
            if zero.any()
            else pa.nulls(rows, DAMAGE.type)
        )
        return batch_of(self.schema, columns)

    def _wrong_size_damage(self, one: QueueFile) -> pa.RecordBatch:
        found = Reason("size", f"a multiple of {ENTRY_BYTES} bytes", str(one.file.size_bytes))
        position = one.file.size_bytes // ENTRY_BYTES * ENTRY_BYTES
        known = {"file": one.file.path, "position": position, "topic": one.topic, "queue_id": one.queue_id}
        return damage_batch(self.schema, found, **known)


def _stable_entries(directory: StoreDirectory, one: QueueFile) -> tuple[_Array, _Array]:
    """Return the entries up to the last nonzero entry, and a mask of the zero entries.

    Omits entries that a running store appends after the first read.
    """
    entries, is_zero = _entries(directory, one)
    for _ in range(LOOKS_MAX):
        if not len(entries) or not (is_zero.any() or entries["size"][-1] <= 0):
            break
        pause_for_writes()
        again, zero_again = _entries(directory, one, len(entries))
        if np.array_equal(again, entries):
            break
        entries, is_zero = again, zero_again
    return entries, is_zero


def _entries(directory: StoreDirectory, one: QueueFile, count: int | None = None) -> tuple[_Array, _Array]:
    raw = bytes(directory.content(one.file))  # a copy, because a memory-mapped file may change
    entries = np.frombuffer(raw, ENTRY, count=len(raw) // ENTRY_BYTES)
    is_zero = np.ones(len(entries), bool)
    for name in ENTRY.names or ():
        is_zero &= entries[name] == 0
    if count is None:
        (written,) = np.nonzero(~is_zero)
        count = int(written[-1]) + 1 if len(written) else 0
    return entries[:count], is_zero[:count]


_NOT_UTF8 = "\ufffd"
"""The replacement for bytes that are not UTF-8. The hash of a tag with such bytes needs the bytes of the record."""


class RecordEntries:
    """Makes rows of queue entries from log ranges."""

    def __init__(self, options: SourceOptions) -> None:
        self._delays_ms = parse_delay_levels(options.delay_levels or DEFAULT_DELAY_LEVELS)
        self.schema = pa.schema(options.chosen(FIELDS))

    def batches(
        self, directory: StoreDirectory, partition: LogRange, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        """Ignores `conditions`, because streams have none."""
        for piece in RangeReader(directory, partition).pieces():
            if not isinstance(piece, SegmentSlice):
                yield damage_batch(self.schema, piece.reason, file=piece.segment.path, position=piece.position)
                continue
            queued = piece.where(_is_queued_mask(piece))
            if len(queued):
                yield self._entry_batch(queued)

    def _entry_batch(self, piece: SegmentSlice) -> pa.RecordBatch:
        codes = _codes_of_tags(piece)
        odd = np.flatnonzero(_needs_decoding_mask(piece))
        light, light_rows = list[ScannedRecord](), list[int]()
        for row, record in zip(odd.tolist(), piece.where(odd).records, strict=True):
            codes[row] = record_tags_code(record, self._delays_ms)
            found = light_records(record, lmq=True)
            light += found
            light_rows += [row] * len(found)
        rows = np.append(np.arange(len(piece)), np.array(light_rows, np.int64))
        order = np.argsort(rows, kind="stable")  # the entry in the record's own queue comes first
        rows = rows[order]
        light_ids = np.array([one.queue_id for one in light], np.int64)
        light_places = np.array([one.queue_offset for one in light], np.int64)
        topics = pa.concat_arrays(
            [piece.topics.dictionary_decode(), pa.array([one.topic for one in light], pa.string())]
        )
        columns: dict[str, Any] = {
            "file": pa.repeat(piece.segment.path, len(rows)),
            "position": (piece.starts + piece.origin)[rows],
            "topic": topics.take(pa.array(order)),
            "queue_id": np.append(piece.number("queueId"), light_ids)[order].astype(np.int32),
            "queue_offset": np.append(piece.number("queueOffset"), light_places)[order],
            "physical_offset": piece.number("physicalOffset")[rows],
            "size": piece.number("totalSize")[rows].astype(np.int32),
            "tags_code": codes[rows],
            "is_blank": pa.repeat(False, len(rows)),
            "damage": damage_array([piece.damage]).take(pa.repeat(0, len(rows))),
        }
        return batch_of(self.schema, columns)


def _is_queued_mask(piece: SegmentSlice) -> Array:
    topics = piece.topics
    is_storable = np.array([is_storable_topic(one) for one in topics.dictionary.to_pylist()], bool)
    is_undispatched = np.isin(piece.number("sysFlag") & TRANSACTION_MASK, UNDISPATCHED)
    queued: Array = ~is_undispatched & (piece.number("queueId") >= 0) & is_storable[topics.indices.to_numpy()]
    return queued


def _needs_decoding_mask(piece: SegmentSlice) -> Array:
    """Return a mask of records that may have entries in other queues, or a tags code that is no hash of the decoded
    tag.
    """
    topics, entries, tags = piece.topics, piece.properties, piece.property(PROPERTY_TAGS)
    is_odd = pc.equal(topics.dictionary_decode(), SCHEDULE_TOPIC).to_numpy(zero_copy_only=False)
    is_odd |= pc.fill_null(pc.match_substring(tags, _NOT_UTF8), False).to_numpy(zero_copy_only=False)
    is_light = pc.equal(entries.names, PROPERTY_INNER_MULTI_DISPATCH).to_numpy(zero_copy_only=False)
    is_odd[entries.rows[is_light]] = True
    odd: Array = is_odd
    return odd


def _codes_of_tags(piece: SegmentSlice) -> Array:
    tags = pc.fill_null(piece.property(PROPERTY_TAGS), "").dictionary_encode()
    codes = np.array([tags_code(one) for one in tags.dictionary.to_pylist()], np.int64)
    found: Array = codes[tags.indices.to_numpy()]
    return found

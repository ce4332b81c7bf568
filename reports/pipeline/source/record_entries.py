"""Queue entries in a stream: computes the entries that dispatch creates for each record.

The rows are in log order and have the columns of the table `queue_entries`. Each entry appears once, possibly before
the queue file contains it. Blank entries do not appear. `file` and `position` are the segment of the record and its
position there. `tags_code` is computed from the record, even if the queue stores the address of an extension instead.
Queues named by INNER_MULTI_DISPATCH that start with %LMQ% have the queue id 0, as with `enableLmq`. Dispatch does not
check body checksums, so the entries of a record with a corrupt body have a value in the column `damage`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....store.formats.consume_queue import tags_code
from ....store.formats.delay_level import DEFAULT_DELAY_LEVELS, SCHEDULE_TOPIC, parse_delay_levels, record_tags_code
from ....store.formats.light_queues import light_records
from ....store.formats.message import TRANSACTION_MASK
from ....store.formats.messages import is_storable_topic
from ....store.formats.properties import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_TAGS
from ....store.formats.scan import ScannedRecord
from ....store.queues.dispatch import UNDISPATCHED
from .columns import RowConditions, batch_of, damage_array, damage_batch
from .directory import StoreDirectory
from .log_ranges import LogRange
from .queue_entries import FIELDS
from .records import RangeReader
from .segment_slice import Array, SegmentSlice
from .source_options import SourceOptions

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

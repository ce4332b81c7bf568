"""Entries of queues as a stream has them: those that dispatch makes of each record, in the log's order.

They have the columns of the table `queue_entries`. Each comes once, whatever becomes of queues: it is there before, or
though, the queue's own file does not have it. Blank entries have no record and do not come. file and position say where
the record is: the segment, and the place in it. tags_code is that of the record, also where a queue has an extension
and its entry an address. Of the queues that INNER_MULTI_DISPATCH names those that begin with %LMQ% have the number 0,
as with `enableLmq`. Records with a damaged body have entries, as dispatch looks at no checksum, and a `damage`.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ....store.formats.delay_level import DEFAULT_DELAY_LEVELS, parse_delay_levels, record_tags_code
from ....store.formats.scan import ScannedRecord
from ....store.queues.dispatch import is_queued
from ....store.queues.light_queues import LIGHT_MARK, light_records
from .columns import RowConditions, batch_of, damage_array, damage_batch
from .directory import StoreDirectory
from .log_ranges import LogRange
from .queue_entries import FIELDS
from .records import RangeReader
from .segment_slice import SegmentSlice
from .source_options import SourceOptions


class RecordEntries:
    """Entries of the records in ranges of the log."""

    def __init__(self, options: SourceOptions) -> None:
        self._delays_ms = parse_delay_levels(options.delay_levels or DEFAULT_DELAY_LEVELS)
        self.schema = pa.schema(options.chosen(FIELDS))

    def batches(
        self, directory: StoreDirectory, partition: LogRange, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the entries of the records of a range, and damage in it. Conditions are Spark's, in a stream."""
        for piece in RangeReader(directory, partition).pieces():
            if isinstance(piece, SegmentSlice):
                yield self._batch(piece)
            else:
                yield damage_batch(self.schema, piece.reason, file=piece.segment.path, position=piece.position)

    def _batch(self, piece: SegmentSlice) -> pa.RecordBatch:
        places, codes = list[ScannedRecord](), list[int]()
        for record in filter(is_queued, piece.records):
            light = light_records(record, lmq=True) if LIGHT_MARK in record.properties else []
            places += [record, *light]
            codes += [record_tags_code(record, self._delays_ms)] * (1 + len(light))
        columns: dict[str, Any] = {
            "file": pa.repeat(piece.segment.path, len(places)),
            "position": [one.physical_offset - piece.segment.base_offset for one in places],
            "topic": [one.topic for one in places],
            "queue_id": [one.queue_id for one in places],
            "queue_offset": [one.queue_offset for one in places],
            "physical_offset": [one.physical_offset for one in places],
            "size": [one.size_bytes for one in places],
            "tags_code": codes,
            "is_blank": pa.repeat(False, len(places)),
            "damage": damage_array([piece.damage] * len(places)),
        }
        return batch_of(self.schema, columns)

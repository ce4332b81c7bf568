"""Dispatch into queues with an extension: each record's unit first, then an entry that leads to it."""

from collections.abc import Mapping

from ..formats.consume_queue_ext import ExtUnit
from ..formats.delay_level import record_tags_code
from ..formats.scan import ScannedRecord
from .consume_queue_table import ConsumeQueueTable
from .dispatch import is_queued


class ExtendedQueueDispatcher:
    """Takes the place of `DispatchService.dispatch_to_queue` when queues are extended."""

    def __init__(self, queues: ConsumeQueueTable, delays_ms: Mapping[int, int]) -> None:
        self.bit_map = b""
        """Of the record dispatched next; whoever calculates it sets it before each."""
        self._queues = queues
        self._delays_ms = delays_ms

    def dispatch(self, record: ScannedRecord) -> None:
        """Make one record visible to consumers, if it takes a place in a queue."""
        if not is_queued(record):
            return
        queue = self._queues.find_or_create(record.topic, record.queue_id)
        unit = ExtUnit(record_tags_code(record, self._delays_ms), record.store_timestamp_ms, self.bit_map)
        queue.put_extended(record.physical_offset, record.size_bytes, unit, record.queue_offset)

"""Dispatch into light queues, after the message's own."""

from collections.abc import Mapping

from ..formats.delay_level import record_tags_code
from ..formats.scan import ScannedRecord
from .consume_queue_table import ConsumeQueueTable
from .dispatch import is_queued
from .light_queues import LIGHT_MARK, light_records


class LightQueueDispatcher:
    """A dispatcher that makes each record visible in the light queues it has places in."""

    def __init__(self, queues: ConsumeQueueTable, delays_ms: Mapping[int, int], *, lmq: bool) -> None:
        """lmq: `enable_lmq`."""
        self._queues = queues
        self._delays_ms = delays_ms
        self._lmq = lmq

    def dispatch(self, record: ScannedRecord) -> None:
        """Make one record visible in its light queues, if it has any."""
        if LIGHT_MARK not in record.properties or not is_queued(record):
            return
        code = record_tags_code(record, self._delays_ms)
        for seen in light_records(record, lmq=self._lmq):
            queue = self._queues.find_or_create(seen.topic, seen.queue_id)
            queue.put(record.physical_offset, record.size_bytes, code, seen.queue_offset)

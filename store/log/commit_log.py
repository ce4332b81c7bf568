"""Commit log: stores all messages of all topics in order of arrival.

Records are encoded outside the put lock. Inside it a record gets its physical offset, queue offset and store time, so
log order and queue order agree. Counters advance only after the bytes are placed.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats import message as record_format
from ..formats.message import MessageRecord, decode_record, encode_blank, place_records
from ..formats.messages import AppendMessageResult, Message, MessageBatch, PutMessageResult, PutMessageStatus
from ..marks import hit
from ..service import do_nothing
from ..stats import SlowCount, TopicTotals
from ..world import World
from .allocate import AllocateMappedFileService
from .flush import FlushCommitLogService
from .group_transfer import GroupTransfer
from .log_time import LogTime
from .put_encoder import EncodedPut, PutEncoder
from .put_wait import PutWait
from .segment import Segment
from .segment_queue import SegmentQueue


class CommitLog:
    """The write side of the log, and look-ups by physical offset.

    Invariant: in log order, store times never decrease and the offsets of each queue increase by one per record. For
    replicated records the master is responsible.
    """

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        queue: SegmentQueue,
        allocate: AllocateMappedFileService,
        flush: FlushCommitLogService,
    ) -> None:
        self.queue = queue
        self.allocate = allocate
        self.flush_service = flush
        self.topic_queue_table: dict[tuple[str, int], int] = {}
        """Next queue offset per (topic, queue id). Guarded by the put lock."""
        self.put_totals: dict[str, TopicTotals] = {}
        """Puts per topic, under the stored topic name. Guarded by the put lock."""
        self.puts_failed = 0
        """Puts that were admitted and did not reach the log."""
        self.time = LogTime(world.clock)
        self.last_store_timestamp_ms = 0
        self.begin_time_in_lock_ms = 0
        """When the current holder of the put lock took it, 0 if it is free. Read without the lock to detect stalls."""
        self.long_holds = SlowCount()
        """Puts that held the lock for long. Guarded by the put lock."""
        self.on_appended: Callable[[], None] = do_nothing
        """Called after records are in the page cache."""
        self.group_transfer: GroupTransfer | None = None
        """Pending replication of a SYNC_MASTER, else None."""
        self._world = world
        self._config = config
        self._put_lock = world.tasks.lock("put")
        self.encoder = PutEncoder(config, world.core)
        self._place_records = place_records if world.core is None else world.core.place
        self._closed = False

    # -- putting -----------------------------------------------------------------------------------

    def begin_put(
        self, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
    ) -> PutMessageResult | PutWait:
        """Store a message or batch. Returns a PutWait if the answer depends on a sync or a slave.

        on_known is called when the PutWait may have an answer. With None, some task must call its `wait`.
        """
        encoded = self.encoder.encode(message)
        if isinstance(encoded, PutMessageStatus):
            self.puts_failed += 1
            return PutMessageResult(encoded)
        result = self.append(encoded)
        self.on_appended()  # also after a failure: it may have written a blank record
        if isinstance(result, PutMessageStatus):
            self.puts_failed += 1
            return PutMessageResult(result)
        head = message.head if isinstance(message, MessageBatch) else message
        begin, waits = result.wrote_offset, head.wait_store_ok
        end, slaves, transfer = begin + result.wrote_bytes, self.group_transfer, None
        if slaves is not None and waits:
            transfer = slaves.submit(begin, end, on_known)
        flush = self.flush_service.begin_durable(end, wait=waits, on_known=on_known)
        if flush is None and transfer is None:
            return PutMessageResult(PutMessageStatus.PUT_OK, result)
        return PutWait(result, flush, slaves, transfer)

    def append(self, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
        """Append the records to the page cache."""
        with self._put_lock:
            if self._closed:
                return PutMessageStatus.SERVICE_NOT_AVAILABLE
            self.begin_time_in_lock_ms = self._world.clock.now_ms()
            began_ns = self._world.clock.monotonic_ns()
            try:
                return self._append_locked(encoded, self.time.take_ms())
            finally:
                self.begin_time_in_lock_ms = 0
                self.long_holds.note(self._world.clock.monotonic_ns() - began_ns)

    def _append_locked(self, encoded: EncodedPut, store_timestamp_ms: int) -> AppendMessageResult | PutMessageStatus:
        last_ms = self.last_store_timestamp_ms
        assert store_timestamp_ms >= last_ms, (store_timestamp_ms, last_ms)
        light = encoded.light
        if light is not None:
            most = self._config.max_lmq_consume_queue_num
            if self._config.enable_lmq and light.exceeds(self.topic_queue_table, most):
                return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
            encoded.buffer = light.take_places(self.topic_queue_table)
            if 0 in light.offsets:
                hit("light queue begins")
        size_bytes = len(encoded.buffer)
        place = self._place_for(size_bytes)
        if place is None:
            return PutMessageStatus.CREATE_MAPEDFILE_FAILED
        segment, position = place
        wrote_offset = segment.base_offset + position
        key = (encoded.topic, encoded.queue_id)
        queue_offset = self.topic_queue_table.get(key, 0) if encoded.counted else 0
        self._place_records(
            encoded.buffer, encoded.starts, queue_offset, wrote_offset, store_timestamp_ms, encoded.born_host_v6
        )
        segment.append(position, encoded.buffer)
        # Counters advance after the append, so that a failed put uses no queue offset.
        segment.store_timestamp_ms = store_timestamp_ms
        self.last_store_timestamp_ms = store_timestamp_ms
        if encoded.counted:
            self.topic_queue_table[key] = queue_offset + len(encoded.starts)
            if light is not None:
                light.count(self.topic_queue_table)
        totals = self.put_totals.get(encoded.topic)
        if totals is None:
            totals = self.put_totals[encoded.topic] = TopicTotals()
        totals.messages += len(encoded.starts)
        totals.size_bytes += size_bytes
        return AppendMessageResult(
            wrote_offset, size_bytes, queue_offset, store_timestamp_ms, encoded.store_host, encoded.starts
        )

    def _place_for(self, size_bytes: int) -> tuple[Segment, int] | None:
        """Return a segment and position with room for size_bytes and a blank record, or None if no segment can be
        allocated.

        If the last segment lacks room, it is closed.
        """
        segment = self.queue.last()
        if segment is not None:
            position = segment.wrote.get()
            room = segment.size_bytes - position
            if size_bytes + record_format.BLANK_BYTES <= room:
                return segment, position
            if room == record_format.BLANK_BYTES:
                hit("shortest blank")
            if room:
                segment.close_with(position, encode_blank(room))
        made = self.allocate.take(0 if segment is None else segment.end_offset)
        if made is None:
            return None
        assert size_bytes + record_format.BLANK_BYTES <= made.size_bytes, (size_bytes, made.size_bytes)
        return self.queue.add(made), 0

    def begin_at(self, last_store_timestamp_ms: int) -> None:
        """Continue store times after the last recovered record."""
        self.last_store_timestamp_ms = last_store_timestamp_ms
        self.time.begin_at(last_store_timestamp_ms)

    def append_replicated(self, offset: int, records: bytes | memoryview, store_timestamp_ms: int) -> bool:
        """Append whole records of one segment from a master at `offset`. store_timestamp_ms is that of the last one.

        An empty log begins at offset. Returns False, without a change, if offset is not the log's end, the log is
        closed, or no segment can be allocated.
        """
        with self._put_lock:
            if self._closed or not self._begins_at(offset):
                return False
            segment = self.queue.last()
            if segment is None or offset == segment.end_offset:
                made = self.allocate.take(offset - offset % self.queue.segment_bytes)
                if made is None:
                    return False
                segment = self.queue.add(made)
            assert segment.base_offset <= offset < segment.end_offset, (offset, segment.base_offset)
            segment.append(offset - segment.base_offset, records)
            segment.store_timestamp_ms = self.last_store_timestamp_ms = store_timestamp_ms
        self.on_appended()
        return True

    def _begins_at(self, offset: int) -> bool:
        """Return whether the log ends at offset. An empty log can begin at any segment boundary."""
        if self.queue.max_offset == 0 and offset % self.queue.segment_bytes == 0:
            if offset > 0:
                self.queue.forget_unused()
            return self.allocate.begin_at(offset)
        return offset == self.queue.max_offset

    def forget_queue(self, topic: str, queue_id: int, max_offset: int, remove: Callable[[], bool]) -> bool:
        """Remove a queue that ends at max_offset, and restart its offsets at 0. Puts are blocked meanwhile.

        Returns False if the queue has newer messages, or if `remove` fails; in both cases its counter stays.
        """
        with self._put_lock:
            key = (topic, queue_id)
            if self.topic_queue_table.get(key, max_offset) != max_offset:
                return False
            if not remove():
                return False
            self.topic_queue_table.pop(key, None)
            return True

    def close(self) -> None:
        """Wait for the current put, and refuse all later ones."""
        with self._put_lock:
            self._closed = True

    # -- looking up --------------------------------------------------------------------------------

    def record_bytes(self, physical_offset: int, size_bytes: int, limit: int) -> bytes | None:
        """Return size_bytes at physical_offset, or None unless they lie in one segment and below `limit`."""
        segment = self.queue.find(physical_offset)
        if segment is None or size_bytes <= 0:
            return None
        position = physical_offset - segment.base_offset
        end = position + size_bytes
        if end > min(segment.readable.get(), limit - segment.base_offset):
            return None
        return bytes(segment.file.view(position, end))

    def record_at(self, physical_offset: int, limit: int) -> MessageRecord | None:
        """Return the record at physical_offset, or None if no valid one ends by `limit`."""
        head = self.record_bytes(physical_offset, 8, limit)
        if head is None:
            return None
        raw = self.record_bytes(physical_offset, int.from_bytes(head[:4], "big", signed=True), limit)
        if raw is None:
            return None
        try:
            record = decode_record(raw, 0, file="commitlog", file_offset=physical_offset)
        except CorruptFileError:
            return None
        return record if record.physical_offset == physical_offset else None

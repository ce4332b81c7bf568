"""Commit log: stores all messages of all topics in order of arrival.

A put encodes its records before it acquires the put lock. Under the lock, it assigns physical offset, queue offset and
store time to each record, so records have the same order in the log and in their queue.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats import message as record_format
from ..formats.message import MessageRecord, decode_record, encode_blank, place_records
from ..formats.messages import PUT_OK, AppendMessageResult, Message, MessageBatch, PutMessageResult, PutMessageStatus
from ..marks import count_mark
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

_new_tuple = tuple.__new__
"""Creates a named tuple in half the time of a call of its class."""
_AT_FRONT = (0,)

StoreRecord = Callable[..., int]
"""See `NativeCore.store`."""


class CommitLog:
    """Appends records to the log, and reads records by physical offset.

    Invariant: in log order, store times never decrease, and consecutive records of a queue have consecutive queue
    offsets. On a slave, both come from the master.
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
        """Next queue offset per (topic, queue id). Protected by the put lock."""
        self.topic_put_totals: dict[str, TopicTotals] = {}
        """Totals by the topic name in the record. Protected by the put lock."""
        self.puts_failed = 0
        """Number of accepted puts that did not reach the log."""
        self.time = LogTime(world.clock)
        self.last_store_timestamp_ms = 0
        self.begin_time_in_lock_ms = 0
        """Time at which the put lock was acquired, 0 while the lock is free. Read without the lock to detect stalls."""
        self.long_holds = SlowCount()
        """Long holds of the put lock, which also protects this counter."""
        self.on_appended: Callable[[], None] = do_nothing
        self.group_transfer: GroupTransfer | None = None
        """Puts that wait for a slave; None unless the store is a SYNC_MASTER."""
        self._world = world
        self._config = config
        self._put_lock = world.tasks.lock("put")
        self.encoder = PutEncoder(config, world.core)
        self._place_records = place_records if world.core is None else world.core.place
        self._store_record: StoreRecord | None = None
        """Appends plain messages; None if each message must be encoded first."""
        if world.core is not None and not config.enable_multi_dispatch:
            self._store_record = world.core.store
        self._closed = False

    # -- putting -----------------------------------------------------------------------------------

    def begin_put(
        self, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
    ) -> PutMessageResult | PutWait:
        """Append a message or batch. Returns a PutWait if the put must wait for a sync or a slave.

        on_known: see `MessageStore.begin_put`.
        """
        result: AppendMessageResult | PutMessageStatus | None = None
        if self._store_record is not None and isinstance(message, Message):
            result = self._append_plain(message, self._store_record)
        if result is None:
            encoded = self.encoder.encode(message)
            if isinstance(encoded, PutMessageStatus):
                self.puts_failed += 1
                return PutMessageResult(encoded)
            result = self.append(encoded)
        self.on_appended()  # also called after a failed put, which may have appended a blank record
        if isinstance(result, PutMessageStatus):
            self.puts_failed += 1
            return PutMessageResult(result)
        head = message.head if isinstance(message, MessageBatch) else message
        begin, waits = result.wrote_offset, head.wait_store_ok
        end, slaves, transfer = begin + result.wrote_bytes, self.group_transfer, None
        if slaves is not None and waits:
            transfer = slaves.submit(begin, end, on_known)
        flush = self.flush_service.start_durability_wait(end, wait=waits, on_known=on_known)
        if flush is None and transfer is None:
            return _new_tuple(PutMessageResult, (PUT_OK, result))
        return PutWait(result, flush, slaves, transfer)

    def _append_plain(self, message: Message, store_record: StoreRecord) -> AppendMessageResult | None:
        """Append a message with one call of the C core. Returns None, with an unchanged log, if `append` must do it.

        begin_time_in_lock_ms stays 0: the core holds the interpreter lock while it writes, so no other thread could see
        a stall of the disk.
        """
        monotonic_ns, topic, queue_id = self._world.clock.monotonic_ns, message.topic, message.queue_id
        key = (topic, queue_id)
        with self._put_lock:
            segments, totals = self.queue.segments, self.topic_put_totals.get(topic)
            if self._closed or not segments or totals is None:
                return None
            segment = segments[-1]
            pages = segment.pages
            if pages is None:
                return None
            began_ns = monotonic_ns()
            stored_ms = self.time.next_ms()
            assert stored_ms >= self.last_store_timestamp_ms, (stored_ms, self.last_store_timestamp_ms)
            position = segment.wrote.get()
            wrote_offset = segment.base_offset + position
            queue_offset = self.topic_queue_table.get(key, 0)
            size_bytes = store_record(
                pages,
                position,
                self._config.max_message_size,
                topic,
                message.properties,
                message.body,
                queue_id,
                message.flag,
                message.sys_flag,
                message.born_timestamp_ms,
                message.born_host,
                message.store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                queue_offset,
                wrote_offset,
                stored_ms,
            )
            if size_bytes == 0:
                return None
            segment.wrote.set(position + size_bytes)
            segment.store_timestamp_ms = self.last_store_timestamp_ms = stored_ms
            self.topic_queue_table[key] = queue_offset + 1
            totals.messages += 1
            totals.size_bytes += size_bytes
            self.long_holds.count_if_slow(monotonic_ns() - began_ns)
        return _new_tuple(
            AppendMessageResult, (wrote_offset, size_bytes, queue_offset, stored_ms, message.store_host, _AT_FRONT)
        )

    def append(self, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
        with self._put_lock:
            if self._closed:
                return PutMessageStatus.SERVICE_NOT_AVAILABLE
            self.begin_time_in_lock_ms = self._world.clock.now_ms()
            began_ns = self._world.clock.monotonic_ns()
            try:
                return self._append_locked(encoded, self.time.next_ms())
            finally:
                self.begin_time_in_lock_ms = 0
                self.long_holds.count_if_slow(self._world.clock.monotonic_ns() - began_ns)

    def _append_locked(self, encoded: EncodedPut, store_timestamp_ms: int) -> AppendMessageResult | PutMessageStatus:
        last_ms = self.last_store_timestamp_ms
        assert store_timestamp_ms >= last_ms, (store_timestamp_ms, last_ms)
        light = encoded.light
        if light is not None:
            queues_max = self._config.max_lmq_consume_queue_num
            if self._config.enable_lmq and light.exceeds_queue_limit(self.topic_queue_table, queues_max):
                return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
            encoded.buffer = light.assign_offsets(self.topic_queue_table)
            if 0 in light.offsets:
                count_mark("first message in light queue")
        size_bytes = len(encoded.buffer)
        place = self._segment_with_room(size_bytes)
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
        # Queue offset counters advance after the append, so a failed put uses no queue offset.
        segment.store_timestamp_ms = store_timestamp_ms
        self.last_store_timestamp_ms = store_timestamp_ms
        if encoded.counted:
            self.topic_queue_table[key] = queue_offset + len(encoded.starts)
            if light is not None:
                light.count(self.topic_queue_table)
        totals = self.topic_put_totals.get(encoded.topic)
        if totals is None:
            totals = self.topic_put_totals[encoded.topic] = TopicTotals()
        totals.messages += len(encoded.starts)
        totals.size_bytes += size_bytes
        return AppendMessageResult(
            wrote_offset, size_bytes, queue_offset, store_timestamp_ms, encoded.store_host, encoded.starts
        )

    def _segment_with_room(self, size_bytes: int) -> tuple[Segment, int] | None:
        """Return a segment and a position with space for size_bytes and a blank record; None if no segment was created.

        If the last segment has too little space, it is closed with a blank record.
        """
        segment = self.queue.last_segment()
        if segment is not None:
            position = segment.wrote.get()
            room = segment.size_bytes - position
            if size_bytes + record_format.BLANK_BYTES <= room:
                return segment, position
            if room == record_format.BLANK_BYTES:
                count_mark("shortest blank record")
            if room:
                segment.close_with_blank(position, encode_blank(room))
        new = self.allocate.take_segment(0 if segment is None else segment.end_offset)
        if new is None:
            return None
        assert size_bytes + record_format.BLANK_BYTES <= new.size_bytes, (size_bytes, new.size_bytes)
        return self.queue.add(new), 0

    def continue_after(self, last_store_timestamp_ms: int) -> None:
        """Set log time so that new records are never older than the last recovered record."""
        self.last_store_timestamp_ms = last_store_timestamp_ms
        self.time.continue_after(last_store_timestamp_ms)

    def append_replicated(
        self, offset: int, records: bytes | memoryview, store_timestamp_ms: int, *, blank: bytes = b""
    ) -> bool:
        """Append complete records from a master at `offset`, all in one segment.

        If the log is empty, it begins at `offset`. store_timestamp_ms is the store time of the last record. blank: the
        blank record that ends the previous segment, if the log lacks it. Returns False, without a change, if the log
        ends elsewhere, is closed, or no segment can be created.
        """
        with self._put_lock:
            if self._closed or not self._can_append_at(offset - len(blank)):
                return False
            segment = self.queue.last_segment()
            if segment is None or offset == segment.end_offset:
                new = self.allocate.take_segment(offset - offset % self.queue.segment_bytes)
                if new is None:
                    return False
                if segment is not None and blank:
                    segment.close_with_blank(segment.size_bytes - len(blank), blank)
                segment = self.queue.add(new)
            assert segment.base_offset <= offset < segment.end_offset, (offset, segment.base_offset)
            segment.append(offset - segment.base_offset, records)
            segment.store_timestamp_ms = self.last_store_timestamp_ms = store_timestamp_ms
        self.on_appended()
        return True

    def _can_append_at(self, offset: int) -> bool:
        if self.queue.max_offset == 0 and offset % self.queue.segment_bytes == 0:
            if offset > 0:
                self.queue.remove_unused()
            return self.allocate.remove_segments_before(offset)
        return offset == self.queue.max_offset

    def forget_queue(self, topic: str, queue_id: int, max_offset: int, remove: Callable[[], bool]) -> bool:
        """Call `remove` under the put lock to remove a queue that ends at max_offset. Its offsets restart at 0.

        If the queue has newer messages or `remove` returns False, the offsets continue, and the result is False.
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
        with self._put_lock:
            self._closed = True

    # -- looking up --------------------------------------------------------------------------------

    def record_bytes(self, physical_offset: int, size_bytes: int, limit: int) -> bytes | None:
        """Return the bytes of a record; None unless they are in one segment and end at or before `limit`."""
        segment = self.queue.find(physical_offset)
        if segment is None or size_bytes <= 0:
            return None
        position = physical_offset - segment.base_offset
        end = position + size_bytes
        if end > min(segment.readable.get(), limit - segment.base_offset):
            return None
        return bytes(segment.file.view(position, end))

    def record_at(self, physical_offset: int, limit: int) -> MessageRecord | None:
        """Return the record at physical_offset; None unless it is valid and ends at or before `limit`."""
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

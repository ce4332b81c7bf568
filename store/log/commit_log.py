"""Commit log: every message of every topic, in the order of arrival, in one row of segments.

Encoding happens outside the put lock. Inside it a record gets its place: physical offset, queue offset, store time.
Log order and queue order are then one, and a counter moves only after the bytes it counts are placed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from ..config import StoreConfig
from ..delivery.redirect import DELAY_MARK, redirection
from ..errors import CorruptFileError, InvalidMessageError
from ..formats import message as record_format
from ..formats.batch import encode_batch_records
from ..formats.delay_level import delay_level, parse_delay_levels
from ..formats.host import IPV6_BYTES, Host
from ..formats.message import MessageRecord, decode_record, encode_blank, encode_record, place_records
from ..marks import hit
from ..message import (
    AppendMessageResult,
    Message,
    MessageBatch,
    PutMessageResult,
    PutMessageStatus,
    is_storable_topic,
)
from ..queues.light_queues import LIGHT_MARK, LightPut, light_put, without_offsets
from ..replication.group_transfer import GroupTransfer
from ..service import do_nothing
from ..stats import TopicTotals
from ..world import World
from .allocate import AllocateMappedFileService
from .flush import FlushCommitLogService
from .log_time import LogTime
from .segment import Segment
from .segment_queue import SegmentQueue

_QUEUE_ID_MAX = 0x7FFFFFFF
_UNCOUNTED = (record_format.TRANSACTION_PREPARED, record_format.TRANSACTION_ROLLBACK)


@dataclass(slots=True)
class EncodedPut:
    """Records ready to be placed: one buffer, contiguous, for one queue."""

    buffer: bytearray
    starts: tuple[int, ...]
    topic: str
    queue_id: int
    store_host: Host
    born_host_v6: bool
    counted: bool
    """Whether the records take queue offsets; prepared and rolled back ones do not."""
    light: LightPut | None = None
    """The light queues of a single message that has any."""


class CommitLog:
    """The log's write side and its look-up by physical offset.

    Invariant: in the order of the log, store times never fall and each queue's offsets rise by one for each record.
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
        """Next queue offset per (topic, queue id). Belongs to whoever holds the put lock."""
        self.put_totals: dict[str, TopicTotals] = {}
        """What was put per topic, as it is stored. Belongs to whoever holds the put lock."""
        self.puts_failed = 0
        """Puts that were not refused up front and are not in the log."""
        self.time = LogTime(world.clock)
        self.last_store_timestamp_ms = 0
        self.begin_time_in_lock_ms = 0
        """When the put that holds the lock got it, 0 if none does. Read without the lock, to notice a stall."""
        self.on_appended: Callable[[], None] = do_nothing
        """Called after records are in the page cache."""
        self.group_transfer: GroupTransfer | None = None
        """Who asks slaves for the puts of a SYNC_MASTER; None on any other."""
        self._world = world
        self._config = config
        self._put_lock = world.tasks.lock("put")
        self._delay_levels = len(parse_delay_levels(config.message_delay_level))
        self._multi_dispatch = config.enable_multi_dispatch
        self._closed = False

    # -- putting -----------------------------------------------------------------------------------

    def put(self, message: Message | MessageBatch) -> PutMessageResult:
        """Store one message or one batch and answer as flush_disk_type promises."""
        encoded = self.encode(message)
        if isinstance(encoded, PutMessageStatus):
            self.puts_failed += 1
            return PutMessageResult(encoded)
        result = self.append(encoded)
        self.on_appended()  # whatever came of it: a blank record may be in the log by now
        if isinstance(result, PutMessageStatus):
            self.puts_failed += 1
            return PutMessageResult(result)
        head = message.head if isinstance(message, MessageBatch) else message
        if self.group_transfer is not None and head.wait_store_ok:
            return PutMessageResult(self._flushed_and_replicated(self.group_transfer, result), result)
        end_offset = result.wrote_offset + result.wrote_bytes
        return PutMessageResult(self.flush_service.wait_durable(end_offset, wait=head.wait_store_ok), result)

    def _flushed_and_replicated(self, slaves: GroupTransfer, put: AppendMessageResult) -> PutMessageStatus:
        """Wait for the disk and for a slave, both from now on; what the slave has to say counts more."""
        end_offset = put.wrote_offset + put.wrote_bytes
        request = slaves.submit(put.wrote_offset, end_offset)
        flushed = self.flush_service.wait_durable(end_offset, wait=True)
        replicated = slaves.wait(request)
        return flushed if replicated is PutMessageStatus.PUT_OK else replicated

    def encode(self, message: Message | MessageBatch) -> EncodedPut | PutMessageStatus:
        """Turn what a producer handed in into records, or say why no record can hold it."""
        if isinstance(message, MessageBatch):
            return self._encode_batch(message)
        if DELAY_MARK in message.properties:
            return self._encode_delayed(message)
        return self._encode_single(message)

    def _encode_delayed(self, message: Message) -> EncodedPut | PutMessageStatus:
        """Encode what waits in a delayed message's place, if the message itself can be stored when it is due."""
        try:
            redirected = redirection(message, self._delay_levels)
        except InvalidMessageError:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if redirected is None:
            return self._encode_single(message)
        due = self._encode_single(redirected.due)
        return due if isinstance(due, PutMessageStatus) else self._encode_single(redirected.waiting)

    def _encode_single(self, message: Message) -> EncodedPut | PutMessageStatus:
        properties = message.properties.encode()
        if len(properties) > record_format.MAX_PROPERTIES_BYTES:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        if len(message.body) > self._config.max_message_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        sys_flag = _host_flags(message)
        if self._multi_dispatch and LIGHT_MARK in properties:
            return self._encode_light(message, sys_flag, without_offsets(properties))
        try:
            buffer = _encode_one(message, sys_flag, message.flag, message.body, properties)
        except InvalidMessageError:
            return PutMessageStatus.MESSAGE_ILLEGAL
        return self._checked(message, buffer, (0,), sys_flag)

    def _encode_light(self, message: Message, sys_flag: int, properties: bytes) -> EncodedPut | PutMessageStatus:
        """Encode a message that may name light queues, as long as its record can become."""
        encode = partial(_encode_one, message, sys_flag, message.flag, message.body)
        try:
            place, lmq = (message.topic, message.queue_id), self._config.enable_lmq
            light = light_put(*place, properties, encode, lmq=lmq)
            if light is not None:
                properties = light.widest_properties()
            if len(properties) > record_format.MAX_PROPERTIES_BYTES:
                return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
            encoded = self._checked(message, encode(properties), (0,), sys_flag)
        except InvalidMessageError:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if isinstance(encoded, EncodedPut):
            encoded.light = light
        return encoded

    def _encode_batch(self, batch: MessageBatch) -> EncodedPut | PutMessageStatus:
        head = batch.head
        sys_flag = _host_flags(head)
        shared = head.properties.encode()
        if sys_flag & record_format.TRANSACTION_MASK or delay_level(shared) > 0:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if len(batch.units) > self._config.max_message_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        is_light = self._multi_dispatch and LIGHT_MARK in shared + batch.units
        try:
            buffer, starts = encode_batch_records(
                batch.units,
                topic=_storable_topic(head),
                shared_properties=shared,
                queue_id=head.queue_id,
                sys_flag=sys_flag,
                born_timestamp_ms=head.born_timestamp_ms,
                born_host=head.born_host,
                store_host=head.store_host,
                reconsume_times=head.reconsume_times,
                clean=without_offsets if is_light else None,
            )
        except (CorruptFileError, InvalidMessageError):
            return PutMessageStatus.MESSAGE_ILLEGAL
        if not starts:
            return PutMessageStatus.MESSAGE_ILLEGAL
        return self._checked(head, buffer, starts, sys_flag)

    def _checked(
        self, head: Message, buffer: bytearray, starts: tuple[int, ...], sys_flag: int
    ) -> EncodedPut | PutMessageStatus:
        if len(buffer) + record_format.BLANK_BYTES > self._config.mapped_file_size_commit_log:
            return PutMessageStatus.MESSAGE_ILLEGAL  # no segment will ever hold it
        return EncodedPut(
            buffer,
            starts,
            head.topic,
            head.queue_id,
            head.store_host,
            bool(sys_flag & record_format.BORN_HOST_V6),
            sys_flag & record_format.TRANSACTION_MASK not in _UNCOUNTED,
        )

    def append(self, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
        """Place the records behind the last one, in the page cache."""
        with self._put_lock:
            if self._closed:
                return PutMessageStatus.SERVICE_NOT_AVAILABLE
            self.begin_time_in_lock_ms = self._world.clock.now_ms()
            try:
                return self._append_locked(encoded, self.time.take_ms())
            finally:
                self.begin_time_in_lock_ms = 0

    def _append_locked(self, encoded: EncodedPut, store_timestamp_ms: int) -> AppendMessageResult | PutMessageStatus:
        last_ms = self.last_store_timestamp_ms
        assert store_timestamp_ms >= last_ms, (store_timestamp_ms, last_ms)
        light = encoded.light
        if light is not None:
            most = self._config.max_lmq_consume_queue_num
            if self._config.enable_lmq and light.exceeds(self.topic_queue_table, most):
                return PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
            encoded.buffer = light.take_places(self.topic_queue_table)
        size_bytes = len(encoded.buffer)
        place = self._place_for(size_bytes)
        if place is None:
            return PutMessageStatus.CREATE_MAPEDFILE_FAILED
        segment, position = place
        wrote_offset = segment.base_offset + position
        key = (encoded.topic, encoded.queue_id)
        queue_offset = self.topic_queue_table.get(key, 0) if encoded.counted else 0
        place_records(
            encoded.buffer,
            encoded.starts,
            queue_offset=queue_offset,
            physical_offset=wrote_offset,
            store_timestamp_ms=store_timestamp_ms,
            born_host_v6=encoded.born_host_v6,
        )
        segment.append(position, encoded.buffer)
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
        """Return a segment and the position in it that has room for size_bytes and a blank record.

        The last segment is closed if it has none. None: there is no next one to be had.
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
        """Let store times go on from that of the last record that recovery has found."""
        self.last_store_timestamp_ms = last_store_timestamp_ms
        self.time.begin_at(last_store_timestamp_ms)

    def append_replicated(self, offset: int, records: bytes | memoryview, store_timestamp_ms: int) -> bool:
        """Place whole records that a master has at offset, all of one segment, in the page cache.

        An empty log begins at offset. False, and nothing changes, if offset is not where the log ends, the log is
        closed, or there is no segment to be had. store_timestamp_ms: of the last of them.
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
        """Return whether the next byte of the log is the one at offset; an empty log begins at that of any segment."""
        if self.queue.max_offset == 0 and offset % self.queue.segment_bytes == 0:
            if offset > 0:
                self.queue.forget_unused()
            return self.allocate.begin_at(offset)
        return offset == self.queue.max_offset

    def forget_queue(self, topic: str, queue_id: int, max_offset: int, remove: Callable[[], bool]) -> bool:
        """Remove a queue that ends at max_offset, and count its messages from 0 again; no put runs meanwhile.

        False, and nothing happens, if a message is on its way to the queue; the count stays, too, if remove says that
        it is not gone.
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
        """Let the put that holds the lock end, and refuse all later ones."""
        with self._put_lock:
            self._closed = True

    # -- looking up --------------------------------------------------------------------------------

    def record_bytes(self, physical_offset: int, size_bytes: int, limit: int) -> bytes | None:
        """Return size_bytes from physical_offset, None unless one segment has them all below limit."""
        segment = self.queue.find(physical_offset)
        if segment is None or size_bytes <= 0:
            return None
        position = physical_offset - segment.base_offset
        end = position + size_bytes
        if end > min(segment.readable.get(), limit - segment.base_offset):
            return None
        return bytes(segment.file.view(position, end))

    def record_at(self, physical_offset: int, limit: int) -> MessageRecord | None:
        """Return the record that begins at physical_offset, None if none does below limit."""
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


def _host_flags(message: Message) -> int:
    """Return sysFlag with the address bits that the hosts ask for, whatever the client claimed."""
    flags = message.sys_flag & ~record_format.HOST_V6_MASK
    if len(message.born_host.address) == IPV6_BYTES:
        flags |= record_format.BORN_HOST_V6
    if len(message.store_host.address) == IPV6_BYTES:
        flags |= record_format.STORE_HOST_V6
    return flags


def _encode_one(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    if b"\0" in properties:
        raise InvalidMessageError("properties: no NUL can be distinguished from a zeroed sector")
    return encode_record(
        topic=_storable_topic(head),
        properties=properties,
        body=body,
        queue_id=head.queue_id,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp_ms=head.born_timestamp_ms,
        born_host=head.born_host,
        store_timestamp_ms=0,
        store_host=head.store_host,
        reconsume_times=head.reconsume_times,
        prepared_transaction_offset=head.prepared_transaction_offset,
    )


def _storable_topic(message: Message) -> bytes:
    """Return a topic's bytes. Raises InvalidMessageError if no path or record can hold it or its queue id."""
    topic = _topic_bytes(message.topic)
    if topic is None or not 0 <= message.queue_id <= _QUEUE_ID_MAX:
        place = f"topic {message.topic!r}, queue {message.queue_id}"
        raise InvalidMessageError(f"{place}: no path or record can hold it")
    return topic


@lru_cache(maxsize=4096)
def _topic_bytes(topic: str) -> bytes | None:
    """Return a topic as its records spell it, None if no path or record can hold it."""
    raw = topic.encode()
    return raw if len(raw) <= record_format.MAX_TOPIC_BYTES and is_storable_topic(topic) else None

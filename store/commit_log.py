"""The commit log: every message of every topic, in the order of arrival, in one row of segments.

Encoding happens outside the put lock. Inside it a record gets its place: physical offset, queue offset, store time.
Log order and queue order are then one, and a counter moves only after the bytes it counts are placed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from .config import StoreConfig
from .errors import CorruptFileError, InvalidMessageError
from .flush import FlushCommitLogService
from .formats import message as record_format
from .formats.batch import decode_batch, join_properties
from .formats.delay_level import delay_level
from .formats.host import Host
from .formats.message import MessageRecord, decode_record, encode_blank, encode_record, place_record
from .message import Message, MessageBatch
from .put_result import AppendMessageResult, PutMessageResult, PutMessageStatus
from .segments.allocate import AllocateMappedFileService
from .segments.segment import Segment
from .segments.segment_queue import SegmentQueue
from .world import World

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


class CommitLog:
    """The log's write side and its look-up by physical offset."""

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
        self.last_store_timestamp_ms = 0
        self.begin_time_in_lock_ms = 0
        """When the put that holds the lock got it, 0 if none does. Read without the lock, to tell a stall."""
        self.on_appended: Callable[[], None] = _nobody
        """Called after a put's records are in the page cache."""
        self._world = world
        self._config = config
        self._put_lock = world.tasks.lock("put")
        self._closed = False

    # -- putting -----------------------------------------------------------------------------------

    def put(self, message: Message | MessageBatch) -> PutMessageResult:
        """Store one message or one batch and answer as flush_disk_type promises."""
        encoded = self.encode(message)
        if isinstance(encoded, PutMessageStatus):
            return PutMessageResult(encoded)
        result = self.append(encoded)
        self.on_appended()  # whatever came of it: a blank record may be in the log by now
        if isinstance(result, PutMessageStatus):
            return PutMessageResult(result)
        head = message.head if isinstance(message, MessageBatch) else message
        status = self.flush_service.wait_durable(
            result.wrote_offset + result.wrote_bytes, wait=head.wait_store_ok
        )
        return PutMessageResult(status, result)

    def encode(self, message: Message | MessageBatch) -> EncodedPut | PutMessageStatus:
        """Turn what a producer handed in into records, or say why no record can hold it."""
        if isinstance(message, MessageBatch):
            return self._encode_batch(message)
        properties = message.properties.encode()
        if len(properties) > record_format.MAX_PROPERTIES_BYTES:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        if len(message.body) > self._config.max_message_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        sys_flag = _host_flags(message)
        try:
            buffer = _encode_one(message, sys_flag, message.flag, message.body, properties)
        except InvalidMessageError:
            return PutMessageStatus.MESSAGE_ILLEGAL
        return self._checked(message, buffer, (0,), sys_flag)

    def _encode_batch(self, batch: MessageBatch) -> EncodedPut | PutMessageStatus:
        head = batch.head
        sys_flag = _host_flags(head)
        shared = head.properties.encode()
        if sys_flag & record_format.TRANSACTION_MASK or delay_level(shared) > 0:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if len(batch.units) > self._config.max_message_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        buffer, starts = bytearray(), []
        try:
            for unit in decode_batch(batch.units):
                starts.append(len(buffer))
                properties = join_properties(unit.properties, shared)
                buffer += _encode_one(head, sys_flag, unit.flag, unit.body, properties)
        except (CorruptFileError, InvalidMessageError):
            return PutMessageStatus.MESSAGE_ILLEGAL
        if not starts:
            return PutMessageStatus.MESSAGE_ILLEGAL
        return self._checked(head, buffer, tuple(starts), sys_flag)

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
            now_ms = self._world.clock.now_ms()
            self.begin_time_in_lock_ms = now_ms
            try:
                return self._append_locked(encoded, max(now_ms, self.last_store_timestamp_ms))
            finally:
                self.begin_time_in_lock_ms = 0

    def _append_locked(
        self, encoded: EncodedPut, store_timestamp_ms: int
    ) -> AppendMessageResult | PutMessageStatus:
        size_bytes = len(encoded.buffer)
        place = self._place_for(size_bytes)
        if place is None:
            return PutMessageStatus.CREATE_MAPEDFILE_FAILED
        segment, position = place
        wrote_offset = segment.base_offset + position
        key = (encoded.topic, encoded.queue_id)
        queue_offset = self.topic_queue_table.get(key, 0) if encoded.counted else 0
        for number, start in enumerate(encoded.starts):
            place_record(
                encoded.buffer,
                start,
                queue_offset=queue_offset + number,
                physical_offset=wrote_offset + start,
                store_timestamp_ms=store_timestamp_ms,
                born_host_v6=encoded.born_host_v6,
            )
        segment.append(position, encoded.buffer)
        segment.store_timestamp_ms = store_timestamp_ms
        self.last_store_timestamp_ms = store_timestamp_ms
        if encoded.counted:
            self.topic_queue_table[key] = queue_offset + len(encoded.starts)
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
            if room:
                segment.close_with(position, encode_blank(room))
        made = self.allocate.take(0 if segment is None else segment.end_offset)
        return None if made is None else (self.queue.add(made), 0)

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
    if message.born_host.is_ipv6:
        flags |= record_format.BORN_HOST_V6
    if message.store_host.is_ipv6:
        flags |= record_format.STORE_HOST_V6
    return flags


def _encode_one(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    topic = head.topic.encode()
    if not is_storable_topic(head.topic) or not 0 <= head.queue_id <= _QUEUE_ID_MAX or b"\0" in properties:
        raise InvalidMessageError(
            f"topic {head.topic!r}, queue {head.queue_id}: no path or record can hold it, or a property has a NUL"
        )
    return encode_record(
        topic=topic,
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


@lru_cache(maxsize=4096)
def is_storable_topic(topic: str) -> bool:
    """Return whether a topic can name a directory, as its queues need."""
    return bool(topic) and "/" not in topic and "\0" not in topic and topic not in (".", "..")


def _nobody() -> None:
    """Tell no one."""

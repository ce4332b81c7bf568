"""Put encoder: encodes the records of a put before the put lock is acquired.

The encoder converts delayed messages and messages for light queues to their stored form. It refuses messages that do
not fit into a record, segment or path, so these errors occur before the put lock is acquired.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache, partial

from ..config import StoreConfig
from ..errors import CorruptFileError, InvalidMessageError
from ..formats import message as record_format
from ..formats.batch import encode_batch_records
from ..formats.columns import NativeCore
from ..formats.delay_level import delay_level, parse_delay_levels
from ..formats.host import IPV4_BYTES, IPV6_BYTES, Host
from ..formats.light_queues import LIGHT_MARK, LightPut, light_put, without_offsets
from ..formats.message import encode_record
from ..formats.messages import Message, MessageBatch, PutMessageStatus, is_storable_topic
from ..formats.redirect import DELAY_MARK, redirect_delayed

_NO_RECORD = (CorruptFileError, InvalidMessageError, UnicodeEncodeError, struct.error)
"""Errors of the encoders for a message that does not fit into a record, for example because a number is too large.

The encoders raise errors, because checks before encoding would slow down every put.
"""
_QUEUE_ID_MAX = 0x7FFFFFFF
_HOST_FLAGS = {
    (IPV4_BYTES, IPV4_BYTES): 0,
    (IPV6_BYTES, IPV4_BYTES): record_format.BORN_HOST_V6,
    (IPV4_BYTES, IPV6_BYTES): record_format.STORE_HOST_V6,
    (IPV6_BYTES, IPV6_BYTES): record_format.HOST_V6_MASK,
}
_AT_FRONT = (0,)
_UNCOUNTED = (record_format.TRANSACTION_PREPARED, record_format.TRANSACTION_ROLLBACK)


@dataclass(slots=True)
class EncodedPut:
    """Encoded, adjacent records of one queue, still without offsets."""

    buffer: bytearray
    starts: tuple[int, ...]
    topic: str
    queue_id: int
    store_host: Host
    born_host_v6: bool
    counted: bool
    """Whether the records get queue offsets; False for prepared and rolled-back records."""
    light: LightPut | None = None


class PutEncoder:
    """Encodes plain messages with the C core if it was built, and all other messages in Python."""

    def __init__(self, config: StoreConfig, core: NativeCore | None) -> None:
        self._config = config
        self._core = core
        self._delay_levels = len(parse_delay_levels(config.message_delay_level))
        self._multi_dispatch = config.enable_multi_dispatch

    def encode(self, message: Message | MessageBatch) -> EncodedPut | PutMessageStatus:
        try:
            if isinstance(message, MessageBatch):
                return self._encode_batch(message)
            if DELAY_MARK in message.properties:
                return self._encode_delayed(message)
            return self._encode_single(message)
        except _NO_RECORD:
            return PutMessageStatus.MESSAGE_ILLEGAL

    def _encode_delayed(self, message: Message) -> EncodedPut | PutMessageStatus:
        """Encode a delayed message. Refuses the message if the copy for its delivery would not fit into a record."""
        redirected = redirect_delayed(message, self._delay_levels)
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
        sys_flag = _host_sys_flags(message)
        if self._multi_dispatch and LIGHT_MARK in properties:
            return self._encode_light(message, sys_flag, without_offsets(properties))
        buffer = None if self._core is None else self._encode_plain(self._core, message, sys_flag, properties)
        if buffer is None:
            buffer = _encode_record_of_message(message, sys_flag, message.flag, message.body, properties)
        return self._check_sizes(message, buffer, _AT_FRONT, sys_flag)

    def _encode_plain(self, core: NativeCore, message: Message, sys_flag: int, properties: bytes) -> bytearray | None:
        return core.encode(
            _storable_topic(message),
            properties,
            message.body,
            message.queue_id,
            message.flag,
            sys_flag,
            message.born_timestamp_ms,
            message.born_host,
            message.store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
        )

    def _encode_light(self, message: Message, sys_flag: int, properties: bytes) -> EncodedPut | PutMessageStatus:
        """Encode a light-queue message, with space for the longest possible light-queue offsets."""
        encode = partial(_encode_record_of_message, message, sys_flag, message.flag, message.body)
        queue, lmq = (message.topic, message.queue_id), self._config.enable_lmq
        light = light_put(*queue, properties, encode, lmq=lmq)
        if light is not None:
            properties = light.properties_with_widest_offsets()
        if len(properties) > record_format.MAX_PROPERTIES_BYTES:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        encoded = self._check_sizes(message, encode(properties), _AT_FRONT, sys_flag)
        if isinstance(encoded, EncodedPut):
            encoded.light = light
        return encoded

    def _encode_batch(self, batch: MessageBatch) -> EncodedPut | PutMessageStatus:
        head = batch.head
        sys_flag = _host_sys_flags(head)
        shared = head.properties.encode()
        if sys_flag & record_format.TRANSACTION_MASK or delay_level(shared) > 0:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if len(batch.units) > self._config.max_message_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        is_light = self._multi_dispatch and LIGHT_MARK in shared + batch.units
        topic = _storable_topic(head)
        encoded = None
        if self._core is not None and not is_light:
            encoded = self._encode_plain_batch(self._core, batch, topic, shared, sys_flag)
        buffer, starts = encoded or encode_batch_records(
            batch.units,
            topic=topic,
            shared_properties=shared,
            queue_id=head.queue_id,
            sys_flag=sys_flag,
            born_timestamp_ms=head.born_timestamp_ms,
            born_host=head.born_host,
            store_host=head.store_host,
            reconsume_times=head.reconsume_times,
            clean=without_offsets if is_light else None,
        )
        if not starts:
            return PutMessageStatus.MESSAGE_ILLEGAL
        return self._check_sizes(head, buffer, starts, sys_flag)

    def _encode_plain_batch(
        self, core: NativeCore, batch: MessageBatch, topic: bytes, shared: bytes, sys_flag: int
    ) -> tuple[bytearray, tuple[int, ...]] | None:
        head = batch.head
        return core.encode_batch(
            batch.units,
            topic,
            shared,
            head.queue_id,
            sys_flag,
            head.born_timestamp_ms,
            head.born_host,
            head.store_host,
            head.reconsume_times,
        )

    def _check_sizes(
        self, head: Message, buffer: bytearray, starts: tuple[int, ...], sys_flag: int
    ) -> EncodedPut | PutMessageStatus:
        if len(buffer) + record_format.BLANK_BYTES > self._config.mapped_file_size_commit_log:
            return PutMessageStatus.MESSAGE_ILLEGAL  # the batch is larger than any segment
        is_v6 = bool(sys_flag & record_format.BORN_HOST_V6)
        is_counted = sys_flag & record_format.TRANSACTION_MASK not in _UNCOUNTED
        return EncodedPut(buffer, starts, head.topic, head.queue_id, head.store_host, is_v6, is_counted)


def _host_sys_flags(message: Message) -> int:
    """Return sysFlag with the IPv6 bits of the message's hosts; the client's IPv6 bits are ignored."""
    sizes = len(message.born_host.address), len(message.store_host.address)
    flags = _HOST_FLAGS.get(sizes)
    if flags is None:
        raise InvalidMessageError(f"hosts: expected {IPV4_BYTES} or {IPV6_BYTES} bytes each, found {sizes}")
    return message.sys_flag & ~record_format.HOST_V6_MASK | flags


def _encode_record_of_message(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    if b"\0" in properties:
        raise InvalidMessageError("properties: expected no NUL, because a NUL looks like a zeroed sector")
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
    """Return the encoded topic. Raises InvalidMessageError if topic or queue id do not fit into a path or record."""
    topic = _topic_bytes(message.topic)
    if topic is None or not 0 <= message.queue_id <= _QUEUE_ID_MAX:
        place = f"topic {message.topic!r}, queue {message.queue_id}"
        raise InvalidMessageError(f"{place}: does not fit into a path or a record")
    return topic


@lru_cache(maxsize=4096)
def _topic_bytes(topic: str) -> bytes | None:
    raw = topic.encode()
    return raw if len(raw) <= record_format.MAX_TOPIC_BYTES and is_storable_topic(topic) else None

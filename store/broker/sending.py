"""Sending: fields of send requests, checks of messages, response codes of puts.

SEND_MESSAGE has words as field names; SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE have single letters.
Source: RocketMQ SendMessageRequestHeader, SendMessageRequestHeaderV2, AbstractSendMessageProcessor.msgCheck,
SendMessageProcessor.handlePutMessageResult.
"""

from functools import lru_cache
from typing import NamedTuple

from ..formats.batch import decode_batch
from ..formats.host import Host
from ..formats.message import MULTI_TAGS, TRANSACTION_MASK
from ..formats.messages import PUT_OK, Message, PutMessageStatus
from ..formats.properties import (
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELIVER_MS,
    decode_properties,
)
from ..formats.remoting.command import RemotingCommand
from .parts import BrokerParts
from .requests import ExtFields, RequestCode, RequestRefusedError, ResponseCode, refuse_request_if
from .router import Channel
from .topic_names import PERM_READ_WRITE, PERM_WRITE, RETRY_GROUP_PREFIX, is_broker_only_topic, topic_name_fault
from .topics import MULTI_TAG, TopicConfig, unit_sys_flag

_FIELDS = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch"),
)
"""Fields of a SEND_MESSAGE header. SEND_MESSAGE_V2 names them by letters, in this order from `a`."""
_NAMES = {name: name for name in _FIELDS}
LETTERS = dict(zip(_FIELDS, "abcdefghijklm", strict=True))
_LONG_NAMED = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
NO_LIMIT = -1

MAX_RECONSUME_TIMES_VERSION = 121
"""MQVersion of V3_4_9. Clients from this version on send the maximum number of retries."""

PUT_CODES = {
    PutMessageStatus.PUT_OK: ResponseCode.SUCCESS,
    PutMessageStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.CREATE_MAPEDFILE_FAILED: ResponseCode.SYSTEM_ERROR,
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.OS_PAGECACHE_BUSY: ResponseCode.SYSTEM_ERROR,
    PutMessageStatus.UNKNOWN_ERROR: ResponseCode.SYSTEM_ERROR,
    PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: ResponseCode.SYSTEM_ERROR,
}
assert PUT_CODES.keys() == set(PutMessageStatus)

_REMARKS = {
    PutMessageStatus.OS_PAGECACHE_BUSY: "[PC_SYNCHRONIZED] another put has held the lock of the log for too long",
    PutMessageStatus.SERVICE_NOT_AVAILABLE: "the store accepts no messages: this broker is a slave, its disk is full"
    " or has failed, or it is shutting down",
    PutMessageStatus.MESSAGE_ILLEGAL: "the message is too long, or has a field that cannot be stored",
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: "the properties are longer than 32767 bytes",
}
_TIMER_PROPERTIES = (PROPERTY_TIMER_DELAY_SEC, PROPERTY_TIMER_DELAY_MS, PROPERTY_TIMER_DELIVER_MS)
_TIMER_MARK = "TIMER_DEL"
_NO_TIMERS = "this broker does not support delivery times, only delay levels (setDelayTimeLevel)"
_UNKNOWN_HOST = b"\0\0\0\0"


class SendRequest(NamedTuple):
    """A send request."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    """A negative id lets the broker choose a queue."""
    sys_flag: int
    born_timestamp_ms: int
    flag: int
    properties: str
    reconsume_times: int
    unit_mode: bool
    max_reconsume_times: int
    """The consumer's maximum number of retries, or NO_LIMIT."""
    batch: bool

    @classmethod
    def from_request(cls, request: RemotingCommand) -> "SendRequest":
        """Raises RequestRefusedError for a missing or invalid field."""
        fields = ExtFields(request.ext_fields)
        names = _NAMES if request.code in _LONG_NAMED else LETTERS
        return cls(
            fields.text(names["producerGroup"]),
            fields.text(names["topic"]),
            fields.text(names["defaultTopic"]),
            fields.int32(names["defaultTopicQueueNums"]),
            fields.int32(names["queueId"]),
            fields.int32(names["sysFlag"]),
            fields.int64(names["bornTimestamp"]),
            fields.int32(names["flag"]),
            fields.text(names["properties"], ""),
            fields.int32(names["reconsumeTimes"], 0),
            fields.boolean(names["unitMode"], False),
            fields.int32(names["maxReconsumeTimes"], NO_LIMIT),
            fields.boolean(names["batch"], False),
        )


assert all(name.startswith(_TIMER_MARK) for name in _TIMER_PROPERTIES)


def put_status_remark(status: PutMessageStatus) -> str | None:
    return None if status is PUT_OK else _REMARKS.get(status, status.value)


@lru_cache(maxsize=16_384)
def born_host(address: str) -> Host:
    """Convert `host:port` to the format of records.

    A host that is not an IP address becomes 0.0.0.0.
    """
    try:
        return Host.of_address(address)
    except ValueError:
        port = address.rpartition(":")[2]
        return Host(_UNKNOWN_HOST, int(port) if port.isascii() and port.isdecimal() else 0)


def refuse_timer_properties(properties: str) -> None:
    """Refuse a delivery time from a 5.x client. RocketMQ 4.9 would deliver the message at once."""
    if _TIMER_MARK not in properties:
        return
    named = decode_properties(properties)
    for name in _TIMER_PROPERTIES:
        if name in named:
            raise RequestRefusedError(f"property {name}: {_NO_TIMERS}", ResponseCode.MESSAGE_ILLEGAL)


def refuse_timer_properties_in_batch(body: bytes) -> None:
    """Refuse a batch in which a message has a delivery time. Raises CorruptFileError for an invalid body."""
    if _TIMER_MARK.encode() in body:
        for unit in decode_batch(body):
            refuse_timer_properties(unit.properties.decode(errors="replace"))


class SendChecks:
    """Checks send requests, and finds their topics."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._store_host = parts.config.store_host

    def check_writeable(self) -> None:
        """Refuse sends while the store is busy or before the configured start time."""
        parts = self._parts
        if parts.store.is_os_page_cache_busy or parts.store.is_transient_store_pool_deficient:
            remark = "[REJECTREQUEST] the store is busy: send it again later"
            raise RequestRefusedError(remark, ResponseCode.SYSTEM_BUSY)
        begin_ms = parts.config.start_accept_send_request_time_stamp_ms
        if parts.world.clock.now_ms() < begin_ms:
            raise RequestRefusedError(f"this broker accepts no messages before {begin_ms} ms since 1970")

    def check_queues(self, topic: TopicConfig) -> None:
        """Refuse a topic without write queues."""
        if topic.write_queue_nums <= 0:
            found = f"expected 1 or more, found {topic.write_queue_nums}"
            raise RequestRefusedError(f"writeQueueNums of topic {topic.topic!r}: {found}")

    def find_or_create_topic(self, send: SendRequest) -> TopicConfig:
        known, name = self._parts.topics.get(send.topic), send.topic
        if known is None:
            refuse_request_if(topic_name_fault(name))
        if is_broker_only_topic(name):
            remark = f"topic {name}: only the broker may send to this topic"
            raise RequestRefusedError(remark, ResponseCode.NO_PERMISSION)
        config = known or self._create_missing_topic(send)
        if config is None:
            raise RequestRefusedError(f"topic {name!r} does not exist", ResponseCode.TOPIC_NOT_EXIST)
        if config.order and not self._parts.config.broker_permission & PERM_WRITE:
            remark = f"topic {name!r} is ordered, and this broker does not permit writes"
            raise RequestRefusedError(remark, ResponseCode.NO_PERMISSION)
        self.check_queues(config)
        if send.queue_id >= config.queue_nums:
            found = f"expected less than {config.queue_nums}, found {send.queue_id}"
            raise RequestRefusedError(f"queueId of topic {name!r}: {found}")
        return config

    def _create_missing_topic(self, send: SendRequest) -> TopicConfig | None:
        topics = self._parts.topics
        is_retry = send.topic.startswith(RETRY_GROUP_PREFIX)
        flag = unit_sys_flag(unit=send.unit_mode and not is_retry, has_unit_sub=send.unit_mode and is_retry)
        topic = topics.create_by_example(send.topic, send.default_topic, send.default_topic_queue_nums, flag)
        if topic is None and is_retry:
            topic = topics.create(send.topic, 1, PERM_READ_WRITE, flag)
        return topic

    def build_message(self, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel) -> Message:
        """Return the message without properties. For a negative queue id, choose a queue in round robin."""
        assert topic.write_queue_nums > 0, topic
        # Clear the transaction flags, because only the broker may set them.
        flag = send.sys_flag & ~TRANSACTION_MASK
        return Message(
            send.topic,
            body,
            send.queue_id if send.queue_id >= 0 else self._parts.next_round_robin_queue_id(topic.write_queue_nums),
            "",
            send.flag,
            flag | MULTI_TAGS if topic.filter_type == MULTI_TAG else flag,
            send.born_timestamp_ms,
            born_host(channel.remote_address),
            self._store_host,
            max(0, send.reconsume_times),
        )

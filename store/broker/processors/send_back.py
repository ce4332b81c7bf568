"""CONSUMER_SEND_MSG_BACK: a consumer could not deal with a message, and will be given it again after a while.

The message is put once more, to the group's retry topic by way of a delay that grows with each time; when it has come
back too often, or the consumer says that it is hopeless, to the group's dead letters.
Source: RocketMQ SendMessageProcessor.asyncConsumerSendMsgBack.
"""

from ...formats.host import encode_message_id
from ...formats.message import MessageRecord
from ...formats.properties import (
    PROPERTY_DELAY,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    decode_properties,
    rebuild_properties,
)
from ...formats.remoting.command import RemotingCommand
from ...message import Message, PutMessageStatus
from ..channel import Channel
from ..ext_fields import ExtFields
from ..parts import BrokerParts
from ..permissions import PERM_WRITE
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to
from ..sending import MAX_RECONSUME_TIMES_VERSION, SendChecks
from ..subscription_groups import SubscriptionGroupConfig
from ..topic_names import dlq_topic, is_closed_topic, retry_topic
from ..topics import TopicConfig, unit_flag

FIRST_DELAY_LEVEL = 3


class SendBackProcessor:
    """Answers when the message is as durable as settings promise."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._checks = SendChecks(parts)

    def __call__(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Put a message again."""
        self._checks.check_writeable()
        if not self._parts.config.broker_permission & PERM_WRITE:
            raise RequestRefusedError(ResponseCode.NO_PERMISSION, "this broker may not be sent to")
        fields = ExtFields(request.ext_fields)
        group = self._group(fields.text("group"))
        level = fields.int32("delayLevel")
        if group.retry_queue_nums <= 0:
            return response_to(request, ResponseCode.SUCCESS)
        record = self._record(fields.int64("offset"))
        most = group.retry_max_times
        if request.version >= MAX_RECONSUME_TIMES_VERSION:
            most = fields.int32("maxReconsumeTimes", most)
        if level < 0 or record.reconsume_times >= most:
            message = self._again(record, self._topic(dlq_topic(group.group), 1, 0), 0)
        else:
            unit = unit_flag(has_unit_sub=fields.boolean("unitMode", False))
            topic = self._topic(retry_topic(group.group), group.retry_queue_nums, unit)
            message = self._again(record, topic, level or FIRST_DELAY_LEVEL + record.reconsume_times)
        result = self._parts.store.put_message(message)
        if result.status is PutMessageStatus.PUT_OK:
            return response_to(request, ResponseCode.SUCCESS)
        return response_to(request, ResponseCode.SYSTEM_ERROR, result.status.value)

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._parts.groups.find(name)
        if group is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group {name[:255]!r}: there is none"
            )
        return group

    def _record(self, offset: int) -> MessageRecord:
        record = self._parts.store.look_message_by_offset(offset)
        if record is None or is_closed_topic(record.topic):
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"offset: expected that of a message, found {offset}"
            )
        return record

    def _topic(self, name: str, queues: int, flag: int) -> TopicConfig:
        topic = self._parts.topics.create(name, queues, sys_flag=flag)
        if topic is None:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, f"topic {name!r}: there can be none")
        if not topic.perm & PERM_WRITE:
            raise RequestRefusedError(ResponseCode.NO_PERMISSION, f"topic {name!r} may not be sent to")
        self._checks.check_queues(topic)
        return topic

    def _again(self, record: MessageRecord, topic: TopicConfig, level: int) -> Message:
        """Return a record as it is put again; level: of its delay, 0 for none."""
        text = record.properties.encode(errors="surrogateescape").decode(errors="replace")
        properties = decode_properties(text)
        properties.setdefault(PROPERTY_RETRY_TOPIC, record.topic)
        own_id = encode_message_id(record.store_host, record.physical_offset)
        properties.setdefault(PROPERTY_ORIGIN_MESSAGE_ID, own_id)
        properties[PROPERTY_DELAY] = str(level)
        return Message(
            topic.topic,
            record.body,
            self._parts.next_turn(topic.write_queue_nums),
            rebuild_properties(properties),
            record.flag,
            record.sys_flag,
            record.born_timestamp_ms,
            record.born_host,
            self._parts.config.store_host,
            record.reconsume_times + 1,
        )

"""What operators ask of topics: to make, change and remove them, which there are, and what is in their queues.

    UPDATE_AND_CREATE_TOPIC  DELETE_TOPIC_IN_BROKER  GET_ALL_TOPIC_CONFIG  GET_TOPIC_STATS_INFO
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER

Source: RocketMQ AdminBrokerProcessor, CreateTopicRequestHeader, TopicConfigSerializeWrapper, TopicStatsTable.
"""

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue, encode_json_body
from ..channel import Channel
from ..ext_fields import ExtFields, refuse_field
from ..parts import BrokerParts
from ..permissions import PERM_INHERIT, PERM_READ_WRITE
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to
from ..topic_names import topic_fault
from ..topics import MULTI_TAG, QUEUES_MAX, SINGLE_TAG, TopicConfig


class TopicAdminProcessor:
    """Answers operators."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def update(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Make a topic, or change one."""
        fields = ExtFields(request.ext_fields)
        topic = self._changeable(fields)
        perm, filter_type = fields.int32("perm"), fields.text("topicFilterType", SINGLE_TAG)
        if not 0 <= perm <= PERM_READ_WRITE | PERM_INHERIT:
            refuse_field("perm", f"0 to {PERM_READ_WRITE | PERM_INHERIT}", str(perm))
        if filter_type not in (SINGLE_TAG, MULTI_TAG):
            refuse_field("topicFilterType", f"{SINGLE_TAG} or {MULTI_TAG}", filter_type)
        config = TopicConfig(
            topic,
            _queues(fields, "readQueueNums"),
            _queues(fields, "writeQueueNums"),
            perm,
            filter_type,
            fields.int32("topicSysFlag", 0),
            fields.boolean("order", False),
        )
        self._parts.topics.put(topic, config)
        return response_to(request, ResponseCode.SUCCESS)

    def delete(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Remove a topic. Its messages stay where they are until their time is over, should the topic be made again."""
        self._parts.topics.remove(self._changeable(ExtFields(request.ext_fields)))
        return response_to(request, ResponseCode.SUCCESS)

    def _changeable(self, fields: ExtFields) -> str:
        """Return the topic that is to be changed, refused if operators may not."""
        topic, config = fields.text("topic"), self._parts.config
        fault = topic_fault(topic)
        if fault is None and topic == config.broker_cluster_name:
            fault = "topic: expected another name than that of the cluster"
        if (
            fault is None
            and self._parts.topics.is_system(topic)
            and config.validate_system_topic_when_update_topic
        ):
            fault = f"topic: expected none of the system's, found {topic!r}"
        if fault is not None:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, fault)
        return topic

    def all_configs(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return all topics."""
        body = encode_json_body(self._parts.topics.members)
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def stats(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return where each queue of a topic begins and ends, and when its last message was stored."""
        parts, topic = self._parts, ExtFields(request.ext_fields).text("topic")
        config = parts.topics.get(topic)
        if config is None:
            raise RequestRefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic {topic[:255]!r}: there is none")
        table = {}
        for queue_id in range(config.write_queue_nums):
            end = parts.max_offset(topic, queue_id)
            table[MessageQueue(topic, parts.config.broker_name, queue_id)] = {
                "lastUpdateTimestamp": max(0, parts.store_time(topic, queue_id, end - 1)),
                "maxOffset": end,
                "minOffset": parts.min_offset(topic, queue_id),
            }
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body({"offsetTable": table}))

    def system_topics(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the topics that this broker has for its own purposes."""
        table = self._parts.topics
        topics = [topic for topic in sorted(table.table) if table.is_system(topic)]
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body({"topicList": topics}))


def _queues(fields: ExtFields, name: str) -> int:
    queues = fields.int32(name)
    if not 0 < queues <= QUEUES_MAX:
        refuse_field(name, f"1 to {QUEUES_MAX}", str(queues))
    return queues

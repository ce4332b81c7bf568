"""What operators ask of consumers' progress: how far groups are, and to have them go on elsewhere.

    GET_CONSUME_STATS  INVOKE_BROKER_TO_RESET_OFFSET  GET_ALL_CONSUMER_OFFSET  GET_ALL_DELAY_OFFSET

Source: RocketMQ AdminBrokerProcessor, Broker2Client.resetOffset, ConsumeStats, ResetOffsetBody.
"""

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue, encode_json_body
from ..channel import Channel
from ..ext_fields import ExtFields
from ..parts import BrokerParts
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to

NOW = -1
"""As a time: behind the last message."""


class ProgressAdminProcessor:
    """Answers operators, and slaves that copy the progress of delivery."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def consume_stats(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return how far a group is in the queues of one topic, or of every topic that it has an offset in."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        group, topic = fields.text("consumerGroup"), fields.text("topic", "")
        info = parts.consumers.group(group)
        table = {}
        for name in [topic] if topic.strip() else parts.offsets.topics_of(group):
            config = parts.topics.get(name)
            if config is None or (info is not None and info.subscriptions and name not in info.subscriptions):
                continue
            for queue_id in range(config.read_queue_nums):
                offset = max(0, parts.offsets.query_offset(group, name, queue_id))
                table[MessageQueue(name, parts.config.broker_name, queue_id)] = {
                    "brokerOffset": parts.max_offset(name, queue_id),
                    "consumerOffset": offset,
                    "lastTimestamp": max(0, parts.store_time(name, queue_id, offset - 1)),
                }
        body = {"consumeTps": parts.pull_rates.messages_per_second(group), "offsetTable": table}
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body(body))

    def reset_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Have a group go on in a topic with what was stored at a time; only back, unless that is forced."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        topic, group = fields.text("topic"), fields.text("group")
        timestamp_ms, is_forced = fields.int64("timestamp"), fields.boolean("isForce", False)
        config, info = parts.topics.get(topic), parts.consumers.group(group)
        if config is None:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, f"topic {topic[:255]!r}: there is none")
        offsets = {}
        for queue_id in range(config.write_queue_nums):
            own = parts.offsets.query_offset(group, topic, queue_id)
            if timestamp_ms == NOW:
                wanted = parts.max_offset(topic, queue_id)
            else:
                wanted = max(0, parts.offset_by_time(topic, queue_id, timestamp_ms))
            queue = MessageQueue(topic, parts.config.broker_name, queue_id)
            offsets[queue] = wanted if is_forced or wanted < own or own < 0 else own
        if info is None:
            raise RequestRefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"group {group[:255]!r}: nobody consumes for it"
            )
        told = {"topic": topic, "group": group, "timestamp": str(timestamp_ms), "isForce": "false"}
        for each in info.clients:
            parts.pushes.reset_offsets(each, told, offsets)
        body = encode_json_body({"offsetTable": offsets})
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def all_consumer_offsets(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return how far every group is."""
        body = encode_json_body(self._parts.offsets.members)
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def all_delay_offsets(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return how far delivery of delayed messages is."""
        offsets = dict(sorted(self._parts.own_store.schedule.offsets.items()))
        body = encode_json_body({"offsetTable": offsets})
        return response_to(request, ResponseCode.SUCCESS, body=body)

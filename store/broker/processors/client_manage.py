"""Client management: processor of heartbeats, members, offsets and queue locks.

    HEART_BEAT  UNREGISTER_CLIENT  CHECK_CLIENT_CONFIG
    GET_CONSUMER_LIST_BY_GROUP  QUERY_CONSUMER_OFFSET  UPDATE_CONSUMER_OFFSET
    LOCK_BATCH_MQ  UNLOCK_BATCH_MQ

Source: RocketMQ ClientManageProcessor, ConsumerManageProcessor, AdminBrokerProcessor, LockBatchRequestBody,
LockBatchResponseBody.
"""

from typing import NamedTuple

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue, decode_json_body
from ..clients import ClientChannelInfo
from ..parts import BrokerParts
from ..requests import ExtFields, RequestRefusedError, ResponseCode, refuse_request_if, success_response
from ..router import Channel
from ..subscriptions import ConsumerData, HeartbeatData, SubscriptionData
from ..topic_names import PERM_READ_WRITE, retry_topic
from ..topics import SubscriptionGroupConfig, unit_sys_flag

_LOCKED_QUEUES_MAX = 65_536


class LockRequest(NamedTuple):
    """Body of a request to lock or unlock queues."""

    group: str
    client_id: str
    queues: list[MessageQueue]

    @classmethod
    def from_request(cls, request: RemotingCommand) -> "LockRequest":
        """Raises CorruptFileError."""
        body = decode_json_body(request.body)
        queues = [
            MessageQueue(each.text("topic"), each.text("brokerName"), each.integer("queueId", bits=32))
            for each in body.objects("mqSet", _LOCKED_QUEUES_MAX)
        ]
        return cls(body.text("consumerGroup"), body.text("clientId"), queues)


class ClientManageProcessor:
    """Processor of requests from clients."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def heartbeat(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Register a client, and create the retry topics of its consumer groups."""
        parts = self._parts
        heartbeat = HeartbeatData.decode(request.body)
        for consumer in heartbeat.consumers:
            refuse_request_if(parts.group_name_fault(consumer.group))
        now_ns = parts.world.clock.monotonic_ns()
        client = (channel, heartbeat.client_id, request.language, request.version, now_ns)
        for consumer in heartbeat.consumers:
            self._register_consumer(consumer, ClientChannelInfo(*client))
        for group in heartbeat.producer_groups:
            parts.producers.register(group, ClientChannelInfo(*client))
        if not channel.is_open:  # if the connection ended before the registration, no later event removes the client
            parts.channel_closed(channel)
        return success_response(request)

    def _register_consumer(self, consumer: ConsumerData, client: ClientChannelInfo) -> None:
        parts, group = self._parts, self._parts.groups.find(consumer.group)
        if group is not None:
            flag = unit_sys_flag(has_unit_sub=consumer.unit_mode)
            parts.topics.create(retry_topic(consumer.group), group.retry_queue_nums, PERM_READ_WRITE, flag)
        parts.consumers.register(consumer, client, notify=self._should_notify_members(group))

    def _should_notify_members(self, group: SubscriptionGroupConfig | None) -> bool:
        return group is None or group.notify_consumer_ids_changed_enable

    def unregister_client(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        parts, fields = self._parts, ExtFields(request.ext_fields)
        fields.text("clientID")
        producer_group = fields.text("producerGroup", "")
        if producer_group:
            parts.producers.unregister(producer_group, channel)
        consumer_group = fields.text("consumerGroup", "")
        if consumer_group:
            notify = self._should_notify_members(parts.groups.get(consumer_group))
            parts.consumers.unregister(consumer_group, channel, notify=notify)
        return success_response(request)

    def check_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        subscription = SubscriptionData.from_json_members(
            decode_json_body(request.body).inner_object("subscriptionData")
        )
        self._parts.require_filter_is_enabled(subscription)
        subscription.check_expression()
        return success_response(request)

    def consumer_list(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        group = ExtFields(request.ext_fields).text("consumerGroup")
        info = self._parts.consumers.find_group(group)
        if info is None:
            raise RequestRefusedError(f"group {group[:255]!r} has no connected consumer")
        return success_response(request, {"consumerIdList": info.client_ids})

    def query_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """For a group without an offset, return 0 if the queue begins at 0 and its first message is in memory."""
        fields = ExtFields(request.ext_fields)
        group, topic = fields.text("consumerGroup"), fields.text("topic")
        queue_id = fields.int32("queueId")
        offset = self._parts.offsets.query_offset(group, topic, queue_id)
        if offset < 0 and not self._starts_at_zero_in_memory(topic, queue_id):
            remark = f"group {group[:255]!r} has no offset in {topic[:255]!r}"
            raise RequestRefusedError(remark, ResponseCode.QUERY_NOT_FOUND)
        return success_response(request, offset=max(0, offset))

    def _starts_at_zero_in_memory(self, topic: str, queue_id: int) -> bool:
        parts = self._parts
        if not parts.has_queue(topic, queue_id):
            return True
        if parts.store.get_min_offset_in_queue(topic, queue_id) > 0:
            return False
        return not parts.store.get_message(topic, queue_id, 0, 1).suggest_pulling_from_slave

    def update_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Commit an offset, which may be lower than the old one."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        group, topic = fields.text("consumerGroup"), fields.text("topic")
        queue_id, offset = fields.int32("queueId"), fields.int64("commitOffset")
        refuse_request_if(parts.group_name_fault(group))
        if offset < 0:
            raise RequestRefusedError(f"commitOffset: expected 0 or more, found {offset}")
        if not parts.has_queue(topic, queue_id):
            remark = f"topic {topic[:255]!r} has no queue {queue_id}"
            raise RequestRefusedError(remark, ResponseCode.TOPIC_NOT_EXIST)
        parts.offsets.commit_offset(group, topic, queue_id, offset)
        return success_response(request)

    def lock_queues(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        wanted = LockRequest.from_request(request)
        existing = [queue for queue in wanted.queues if self._parts.has_queue(queue.topic, queue.queue_id)]
        locked = self._parts.locks.try_lock(wanted.group, existing, wanted.client_id)
        return success_response(request, {"lockOKMQSet": locked})

    def unlock_queues(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        wanted = LockRequest.from_request(request)
        self._parts.locks.unlock(wanted.group, wanted.queues, wanted.client_id)
        return success_response(request)

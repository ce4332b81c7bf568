"""HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG: clients say who they are, that they go, how they want to filter.

Source: RocketMQ ClientManageProcessor.
"""

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import decode_json_body
from ..channel import Channel
from ..clients import ClientChannelInfo
from ..ext_fields import ExtFields
from ..heartbeats import ConsumerData, HeartbeatData
from ..parts import BrokerParts
from ..permissions import PERM_READ_WRITE
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to
from ..subscriptions import SubscriptionData
from ..topic_names import retry_topic
from ..topics import unit_flag


class ClientManageProcessor:
    """Keeps track of who is connected."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def heartbeat(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Note who a client is. Its groups get their retry topics."""
        parts = self._parts
        heartbeat = HeartbeatData.decode(request.body)
        for consumer in heartbeat.consumers:
            fault = parts.group_fault(consumer.group)
            if fault is not None:
                raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, fault)
        now_ns = parts.world.clock.monotonic_ns()
        for consumer in heartbeat.consumers:
            self._consumer(consumer, ClientChannelInfo.of(channel, heartbeat.client_id, request, now_ns))
        for group in heartbeat.producer_groups:
            parts.producers.register(
                group, ClientChannelInfo.of(channel, heartbeat.client_id, request, now_ns)
            )
        if (
            not channel.is_open
        ):  # whoever is told of closed connections may have been told before this was noted
            parts.channel_closed(channel)
        return response_to(request, ResponseCode.SUCCESS)

    def _consumer(self, consumer: ConsumerData, client: ClientChannelInfo) -> None:
        parts = self._parts
        group = parts.groups.find(consumer.group)
        if group is not None:
            parts.topics.create(
                retry_topic(consumer.group),
                group.retry_queue_nums,
                PERM_READ_WRITE,
                unit_flag(has_unit_sub=consumer.unit_mode),
            )
        notify = group is None or group.notify_consumer_ids_changed_enable
        notify = notify and parts.config.notify_consumer_ids_changed_enable
        parts.consumers.register(consumer, client, notify=notify)

    def unregister(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Forget a client in the groups it names."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        fields.text("clientID")
        producer_group = fields.text("producerGroup", "")
        if producer_group:
            parts.producers.unregister(producer_group, channel)
        consumer_group = fields.text("consumerGroup", "")
        if consumer_group:
            group = parts.groups.get(consumer_group)
            notify = group is None or group.notify_consumer_ids_changed_enable
            notify = notify and parts.config.notify_consumer_ids_changed_enable
            parts.consumers.unregister(consumer_group, channel, notify=notify)
        return response_to(request, ResponseCode.SUCCESS)

    def check_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Say whether messages can be filtered as a client wants to."""
        members = decode_json_body(request.body).inner("subscriptionData")
        subscription = SubscriptionData.of(members)
        if not subscription.is_tag and not self._parts.config.enable_property_filter:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"expressionType {subscription.expression_type}: enablePropertyFilter is false on this broker",
            )
        subscription.check()
        return response_to(request, ResponseCode.SUCCESS)

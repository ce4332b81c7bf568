"""What operators ask of groups: their settings, who is in them, how far they are, and where they are to go on.

    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP  GET_ALL_SUBSCRIPTIONGROUP_CONFIG  DELETE_SUBSCRIPTIONGROUP
    GET_CONSUMER_CONNECTION_LIST  GET_PRODUCER_CONNECTION_LIST  GET_ALL_PRODUCER_INFO  QUERY_TOPIC_CONSUME_BY_WHO

Source: RocketMQ AdminBrokerProcessor, ConsumerConnection, ProducerConnection, GroupList, ProducerTableInfo.
"""

from typing import Any

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import decode_json_body, encode_json_body
from ..channel import Channel
from ..clients import ClientChannelInfo
from ..ext_fields import ExtFields, refuse_field
from ..parts import BrokerParts
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to
from ..subscription_groups import SubscriptionGroupConfig
from ..topic_names import group_fault
from ..topics import QUEUES_MAX

_NS_PER_MS = 1_000_000


class GroupAdminProcessor:
    """Answers operators."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    # -- settings ----------------------------------------------------------------------------------

    def update(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Make a group, or change one."""
        config = SubscriptionGroupConfig.of("", decode_json_body(request.body))
        fault = group_fault(config.group)
        if fault is not None:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, fault)
        if not 0 <= config.retry_queue_nums <= QUEUES_MAX:
            refuse_field("retryQueueNums", f"0 to {QUEUES_MAX}", str(config.retry_queue_nums))
        self._parts.groups.put(config.group, config)
        return response_to(request, ResponseCode.SUCCESS)

    def delete(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Remove a group, and if asked to, how far it was."""
        fields = ExtFields(request.ext_fields)
        group = fields.text("groupName")
        self._parts.groups.remove(group)
        if fields.boolean("removeOffset", False):
            self._parts.offsets.remove_group(group)
        return response_to(request, ResponseCode.SUCCESS)

    def all_configs(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return all groups."""
        body = encode_json_body(self._parts.groups.members)
        return response_to(request, ResponseCode.SUCCESS, body=body)

    # -- members -----------------------------------------------------------------------------------

    def consumer_connections(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return who consumes for a group, and what."""
        group = ExtFields(request.ext_fields).text("consumerGroup")
        info = self._parts.consumers.group(group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"group {group[:255]!r}: nobody consumes for it"
            )
        body = {
            "connectionSet": [client.members for client in info.clients.values()],
            "consumeFromWhere": info.consume_from_where,
            "consumeType": info.consume_type,
            "messageModel": info.message_model,
            "subscriptionTable": {topic: each.members for topic, each in info.subscriptions.items()},
        }
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body(body))

    def producer_connections(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return who produces for a group."""
        group = ExtFields(request.ext_fields).text("producerGroup")
        clients = self._parts.producers.clients(group)
        if not clients:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"group {group[:255]!r}: nobody produces for it"
            )
        body = {"connectionSet": [client.members for client in clients]}
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body(body))

    def all_producers(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return who produces, for every group."""
        groups = self._parts.producers.groups
        data = {group: [self._producer(client) for client in clients] for group, clients in groups.items()}
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body({"data": data}))

    def _producer(self, client: ClientChannelInfo) -> dict[str, Any]:
        clock = self._parts.world.clock
        silent_ms = (clock.monotonic_ns() - client.heartbeat_ns) // _NS_PER_MS
        connection = client.members
        return {
            "clientId": client.client_id,
            "language": connection["language"],
            "lastUpdateTimestamp": clock.now_ms() - silent_ms,
            "remoteIP": client.channel.remote_address.rpartition(":")[0],
            "version": client.version,
        }

    def consumed_by(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the groups that consume a topic now, or have done so."""
        topic = ExtFields(request.ext_fields).text("topic")
        groups = {*self._parts.consumers.groups_of(topic), *self._parts.offsets.groups_of(topic)}
        return response_to(
            request, ResponseCode.SUCCESS, body=encode_json_body({"groupList": sorted(groups)})
        )

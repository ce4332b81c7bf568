"""Group admin: processor of requests about settings, members and offsets of groups.

    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP  GET_ALL_SUBSCRIPTIONGROUP_CONFIG  DELETE_SUBSCRIPTIONGROUP
    GET_CONSUMER_CONNECTION_LIST  GET_PRODUCER_CONNECTION_LIST  GET_ALL_PRODUCER_INFO  QUERY_TOPIC_CONSUME_BY_WHO
    GET_CONSUME_STATS  INVOKE_BROKER_TO_RESET_OFFSET  GET_ALL_CONSUMER_OFFSET  GET_ALL_DELAY_OFFSET
    GET_CONSUMER_RUNNING_INFO  CONSUME_MESSAGE_DIRECTLY  CLONE_GROUP_OFFSET  INVOKE_BROKER_TO_GET_CONSUMER_STATUS

Slaves also send some of these requests, to copy offsets. The broker returns the response of a called consumer
unchanged.
Source: RocketMQ AdminBrokerProcessor, ConsumerConnection, ProducerConnection, GroupList, ProducerTableInfo,
Broker2Client.resetOffset and getConsumeStatus, ConsumeStats, ResetOffsetBody, MessageQueueForC, GetConsumerStatusBody,
GetConsumerRunningInfoRequestHeader.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...errors import CorruptFileError
from ...formats.java_text import is_java_blank, java_trim
from ...formats.message import encode_message_record
from ...formats.remoting.command import LANGUAGES, RemotingCommand
from ...formats.remoting.json_body import MessageQueue, decode_json_body, decode_queue_offsets, encode_json_body
from ..clients import ClientChannelInfo, ConsumerGroupInfo
from ..parts import BrokerParts
from ..requests import (
    ExtFields,
    RequestCode,
    RequestRefusedError,
    ResponseCode,
    refuse_field,
    refuse_request_if,
    response_to,
    success_response,
)
from ..router import Channel
from ..topic_names import group_name_fault
from ..topics import QUEUES_MAX, SubscriptionGroupConfig

_NS_PER_MS = 1_000_000

_CPP = LANGUAGES.index("CPP")
NOW = -1
"""Timestamp that stands for the end of the queue."""


class GroupAdminProcessor:
    """Processor of operators' requests about groups."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def update_group(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        config = SubscriptionGroupConfig.from_json_members("", decode_json_body(request.body))
        refuse_request_if(group_name_fault(config.group))
        if not 0 <= config.retry_queue_nums <= QUEUES_MAX:
            refuse_field("retryQueueNums", f"0 to {QUEUES_MAX}", str(config.retry_queue_nums))
        self._parts.groups.put(config.group, config)
        return success_response(request)

    def delete_group(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        group = fields.text("groupName")
        self._parts.groups.remove(group)
        if fields.boolean("removeOffset", False):
            self._parts.offsets.remove_group(group)
        return success_response(request)

    def consumer_connections(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        info = self._group_with_members(ExtFields(request.ext_fields).text("consumerGroup"))
        body = {
            "connectionSet": [client.json_members for client in info.clients.values()],
            "consumeFromWhere": info.newest_heartbeat.consume_from_where,
            "consumeType": info.newest_heartbeat.consume_type,
            "messageModel": info.newest_heartbeat.message_model,
            "subscriptionTable": {topic: each.json_members for topic, each in info.subscriptions.items()},
        }
        return success_response(request, body)

    def _group_with_members(self, group: str) -> ConsumerGroupInfo:
        info = self._parts.consumers.find_group(group)
        if info is None:
            remark = f"group {group[:255]!r} has no connected consumer"
            raise RequestRefusedError(remark, ResponseCode.CONSUMER_NOT_ONLINE)
        return info

    def producer_connections(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        group = ExtFields(request.ext_fields).text("producerGroup")
        clients = self._parts.producers.clients_of_group(group)
        if not clients:
            raise RequestRefusedError(f"group {group[:255]!r} has no connected producer")
        return success_response(request, {"connectionSet": [client.json_members for client in clients]})

    def all_producers(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        groups = self._parts.producers.groups
        data = {group: [self._producer_members(client) for client in clients] for group, clients in groups.items()}
        return success_response(request, {"data": data})

    def _producer_members(self, client: ClientChannelInfo) -> dict[str, Any]:
        clock = self._parts.world.clock
        silent_ms = (clock.monotonic_ns() - client.heartbeat_ns) // _NS_PER_MS
        return {
            "clientId": client.client_id,
            "language": client.json_members["language"],
            "lastUpdateTimestamp": clock.now_ms() - silent_ms,
            "remoteIP": f"/{client.channel.remote_address}",  # as Java writes a socket address
            "version": client.version,
        }

    def groups_consuming_topic(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the groups that subscribe to a topic or have offsets in it."""
        topic = ExtFields(request.ext_fields).text("topic")
        groups = {*self._parts.consumers.groups_of(topic), *self._parts.offsets.groups_of(topic)}
        return success_response(request, {"groupList": sorted(groups)})

    def consume_stats(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the group's progress in one topic, or in all topics where it has offsets."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        group, topic = fields.text("consumerGroup"), fields.text("topic", "")
        info = parts.consumers.find_group(group)
        table: dict[MessageQueue, dict[str, int]] = {}
        tps = 0.0
        for name in [topic] if not is_java_blank(topic) else parts.offsets.topics_of(group):
            config = parts.topics.get(name)
            if config is None or (info is not None and info.subscriptions and name not in info.subscriptions):
                continue
            table |= parts.consume_progress(group, name, config.read_queue_nums)
            tps += parts.statistics.delivered_per_second(name, group)
        return success_response(request, {"consumeTps": tps, "offsetTable": table})

    def reset_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Move a group to the messages stored at a given time. Without `isForce`, move only backwards.

        For an operator with a C++ client, members receive a list of offsets instead of a map: ResetOffsetBodyForC.
        """
        parts, fields = self._parts, ExtFields(request.ext_fields)
        topic, group = fields.text("topic"), fields.text("group")
        timestamp_ms, is_forced = fields.int64("timestamp"), fields.boolean("isForce", False)
        config = parts.topics.get(topic)
        if config is None:
            raise RequestRefusedError(f"topic {topic[:255]!r} does not exist")
        offsets = {}
        for queue_id in range(config.write_queue_nums):
            own = parts.offsets.query_offset(group, topic, queue_id)
            if timestamp_ms == NOW:
                wanted = parts.max_offset(topic, queue_id)
            else:
                wanted = max(0, parts.offset_by_time(topic, queue_id, timestamp_ms))
            assert wanted >= 0, (topic, queue_id, wanted)
            queue = MessageQueue(topic, parts.config.broker_name, queue_id)
            offsets[queue] = wanted if is_forced or wanted < own or own < 0 else own
        pushed = {"topic": topic, "group": group, "timestamp": str(timestamp_ms), "isForce": "false"}
        body = encode_json_body({"offsetTable": offsets})
        notice = body
        if request.language == _CPP:
            notice = encode_json_body({"offsetTable": [_listed_offset(*each) for each in offsets.items()]})
        for each in self._group_with_members(group).clients:
            parts.pushes.push(each, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, pushed, notice)
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def clone_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        parts, fields = self._parts, ExtFields(request.ext_fields)
        source, target = fields.text("srcGroup"), fields.text("destGroup")
        refuse_request_if(parts.group_name_fault(target))
        topic = java_trim(fields.text("topic", ""))
        if source == target:  # copying offsets that a member commits at the same time would undo the commit
            return success_response(request)
        for name in [topic] if topic else parts.offsets.topics_of(source):
            config = parts.topics.get(name)
            for queue_id in range(0 if config is None else config.queue_nums):
                offset = parts.offsets.query_offset(source, name, queue_id)
                if offset >= 0:
                    parts.offsets.commit_offset(target, name, queue_id, offset)
        return success_response(request)

    def consumer_status(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Ask a group's members for their offsets. The result contains only members that respond."""
        fields = ExtFields(request.ext_fields)
        topic, group, only = fields.text("topic"), fields.text("group"), java_trim(fields.text("clientAddr", ""))
        clients = {each.channel: each.client_id for each in self._group_with_members(group).clients.values()}
        wanted = [each for each, client_id in clients.items() if only in ("", client_id)]
        query = {"topic": topic, "group": group}
        answers = self._parts.calls.call_clients(wanted, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, query)
        table = {}
        for each, answer in answers.items():
            if answer.code == ResponseCode.SUCCESS and answer.body:
                with suppress(CorruptFileError):
                    table[clients[each]] = decode_queue_offsets(answer.body, "messageQueueTable")
        return success_response(request, {"consumerTable": table, "messageQueueTable": {}})

    def forward_to_consumer(self, request: RemotingCommand, _: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        group, client_id = fields.text("consumerGroup"), fields.text("clientId")
        info = self._parts.consumers.find_group(group)
        clients = [] if info is None else list(info.clients.values())
        found = next((client for client in clients if client.client_id == client_id), None)
        if found is None:
            raise RequestRefusedError(
                f"client {client_id[:255]!r} is not a connected consumer of group {group[:255]!r}"
            )
        answer = self._parts.calls.call_client(found.channel, request.code, request.ext_fields, request.body)
        return response_to(request, answer.code, answer.remark, answer.ext_fields, answer.body)

    def consume_message_directly(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        record = self._parts.store.look_message_by_offset(fields.message_offset("msgId"))
        if record is None:
            refuse_field("msgId", "the id of a message", fields.text("msgId"))
        return self.forward_to_consumer(replace(request, body=encode_message_record(record)), channel)


def _listed_offset(queue: MessageQueue, offset: int) -> dict[str, str | int]:
    return {"brokerName": queue.broker_name, "offset": offset, "queueId": queue.queue_id, "topic": queue.topic}

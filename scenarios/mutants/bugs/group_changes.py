"""Bugs of changes that a broker must announce, keep or undo: groups, producers, resets, settings, decisions."""

from dataclasses import replace

from ....store.broker.client_calls import ClientPushes
from ....store.broker.clients import ClientChannelInfo, ConsumerManager, ProducerManager
from ....store.broker.processors.broker_admin import BrokerAdminProcessor
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.group_admin import GroupAdminProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import ExtFields, ResponseCode, response_to
from ....store.broker.router import Channel
from ....store.broker.sending import SendRequest
from ....store.broker.subscriptions import ConsumerData, SubscriptionData
from ....store.broker.topics import SubscriptionGroupConfig, TopicConfig
from ....store.formats.message import TRANSACTION_NONE, TRANSACTION_ROLLBACK, MessageRecord
from ....store.formats.messages import Message
from ....store.formats.remoting.command import LANGUAGES, RemotingCommand
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_GROUPS = SCENARIOS["group-members"].ranges.replace(broker={"group_operators": (1,)})
_EXPIRED = SCENARIOS["consumer-offset-expired"].ranges.replace(broker={"group_operators": (1,)})
_TRANSACTIONS = SCENARIOS["transaction-check-resumed"].ranges
_RETRIES = SCENARIOS["consumer-dead-letters"].ranges
_OPERATED = SCENARIOS["operator-changes"].ranges
_SEVERAL_TOPICS = SCENARIOS["orderly-consumers"].ranges.replace(broker={"group_operators": (1,)}, topics=(2,))


def _with_field(request: RemotingCommand, name: str, text: str) -> RemotingCommand:
    return replace(request, ext_fields={**request.ext_fields, name: text})


# -- clients -----------------------------------------------------------------------------------------------------------


@bug("topic-change-not-announced", ConsumerManager, "register", found_by=("LIVE",))
@needs(_GROUPS)
def register_quietly(self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool) -> None:
    """If a member subscribes to other topics than before, the other members are not notified."""
    info = self.find_group(consumer.group)
    is_known = info is not None and client.channel in info.clients
    topics = {each.topic for each in consumer.subscriptions}
    bit(is_known and notify and info is not None and topics != info.subscriptions.keys())
    register_quietly.original(self, consumer, client, notify=notify and not is_known)


@bug("left-topic-stays-subscribed", ConsumerManager, "register", found_by=("LIVE", "STATUS", "META"))
@needs(_GROUPS)
def register_in_addition(
    self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool
) -> None:
    """A topic to which a group no longer subscribes stays in its subscriptions."""
    info = self.find_group(consumer.group)
    before = {} if info is None else info.subscriptions
    register_in_addition.original(self, consumer, client, notify=notify)
    info = self.find_group(consumer.group)
    assert info is not None, consumer.group
    bit(bool(before.keys() - info.subscriptions.keys()))
    info.subscriptions = before | info.subscriptions


@bug("group-stays-as-first-heartbeat", ConsumerManager, "register", found_by=("LIVE", "STATUS"))
@needs(_GROUPS)
def register_as_before(
    self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool
) -> None:
    """Type and model of a group stay those of its first heartbeat."""
    info = self.find_group(consumer.group)
    first = None if info is None else info.newest_heartbeat
    register_as_before.original(self, consumer, client, notify=notify)
    info = self.find_group(consumer.group)
    if first is not None and info is not None:
        bit(first.message_model != consumer.message_model)
        info.newest_heartbeat = first


@bug("second-group-of-connection-stays", ConsumerManager, "remove_channel", found_by=("LIVE", "QUIET"))
@needs(_GROUPS)
def remove_from_first(self: ConsumerManager, channel: Channel) -> None:
    """The end of a connection removes its client from one group only."""
    groups = [name for name, info in self._groups.items() if channel in info.clients]
    bit(len(groups) > 1)
    for group in groups[:1]:
        self.unregister(group, channel, notify=True)


@bug("producer-leaves-all-groups", ProducerManager, "unregister", found_by=("LIVE",))
@needs(_GROUPS)
def leave_all(self: ProducerManager, group: str, channel: Channel) -> None:
    """A producer that leaves one group leaves all."""
    bit(sum(channel in each for each in self._groups.values()) > 1)
    self.remove_channel(channel)


@bug("ended-producer-stays", ProducerManager, "remove_channel", found_by=("LIVE",))
@needs(_GROUPS)
def remove_nowhere(self: ProducerManager, channel: Channel) -> None:
    """A producer stays in its groups after the end of its connection."""
    bit(any(channel in each for each in self._groups.values()))


@bug("setting-of-group-not-heeded", ClientManageProcessor, "_should_notify_members", found_by=("LIVE",))
@needs(_GROUPS)
def notify_always(self: ClientManageProcessor, group: SubscriptionGroupConfig | None) -> bool:
    """The setting notifyConsumerIdsChangedEnable of a group has no effect."""
    bit(group is not None and not group.notify_consumer_ids_changed_enable)
    return True


@bug("notice-names-first-group", ClientPushes, "notify_consumer_ids_changed", found_by=("LIVE",))
@needs(_GROUPS)
def name_first(self: ClientPushes, group: str, channels: list[Channel]) -> None:
    """Each notice names the group that was announced first."""
    first = vars(self).setdefault("first", group)
    bit(first != group)
    name_first.original(self, first, channels)


@bug("broadcast-against-setting", PullMessageProcessor, "_registered_subscription", found_by=("STATUS",))
@needs(_GROUPS)
def find_for_any_model(
    self: PullMessageProcessor, group: SubscriptionGroupConfig, topic: str, version: int
) -> SubscriptionData:
    """A group without consumeBroadcastEnable may pull in broadcasting mode."""
    info = self._parts.consumers.find_group(group.group)
    is_broadcasting = info is not None and info.newest_heartbeat.message_model == "BROADCASTING"
    bit(is_broadcasting and not group.consume_broadcast_enable)
    return find_for_any_model.original(self, replace(group, consume_broadcast_enable=True), topic, version)


# -- operators ---------------------------------------------------------------------------------------------------------


@bug("forced-reset-only-moves-back", GroupAdminProcessor, "reset_offset", found_by=("META",))
@needs(_GROUPS)
def reset_without_force(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A forced reset of offsets does not move a group forward."""
    bit(request.ext_fields.get("isForce") == "true")
    return reset_without_force.original(self, _with_field(request, "isForce", "false"), channel)


@bug("unforced-reset-moves-on", GroupAdminProcessor, "reset_offset", found_by=("META",))
@needs(_GROUPS)
def force_reset_to_time(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A reset to a time moves a group to later messages, although it is not forced."""
    if bit(request.ext_fields["timestamp"] != "-1" and request.ext_fields.get("isForce") != "true"):
        request = _with_field(request, "isForce", "true")
    return force_reset_to_time.original(self, request, channel)


@bug("reply-stored-against-setting", SendMessageProcessor, "_reply", found_by=("STATUS", "PREFIX", "ISO"))
@needs(_GROUPS, broker_settings={"store_reply_message_enable": (False,)})
def reply_and_store(
    self: SendMessageProcessor, request: RemotingCommand, send: SendRequest, channel: Channel
) -> RemotingCommand:
    """A broker stores replies although storeReplyMessageEnable is off."""
    parts, config = self._parts, self._parts.config
    bit(not config.store_reply_message_enable)
    parts.config = replace(config, store_reply_message_enable=True)
    try:
        return reply_and_store.original(self, request, send, channel)
    finally:
        parts.config = config


# Found in this store.
@bug("reset-by-cpp-has-a-map", GroupAdminProcessor, "reset_offset", found_by=("LIVE",))
@needs(_GROUPS)
def reset_as_java(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """Members receive a map of offsets although the operator's client is a C++ program, so C++ members ignore it."""
    bit(request.language == LANGUAGES.index("CPP"))
    return reset_as_java.original(self, replace(request, language=0), channel)


@bug("reset-to-end-is-a-time", GroupAdminProcessor, "reset_offset", found_by=("META",))
@needs(_GROUPS)
def reset_to_time(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A reset to the end of a queue counts -1 as a time, and leads to the begin."""
    if bit(request.ext_fields.get("timestamp") == "-1"):
        request = _with_field(request, "timestamp", "0")
    return reset_to_time.original(self, request, channel)


@bug("clone-copies-first-topic", GroupAdminProcessor, "clone_offset", found_by=("META",))
@needs(_SEVERAL_TOPICS)
def clone_first(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A clone of a group without a named topic copies the offsets of one topic."""
    fields = ExtFields(request.ext_fields)
    topics = self._parts.offsets.topics_of(fields.text("srcGroup"))
    if not fields.text("topic", "") and topics:
        bit(len(topics) > 1)
        request = _with_field(request, "topic", topics[0])
    return clone_first.original(self, request, channel)


@bug("progress-of-first-topic", GroupAdminProcessor, "consume_stats", found_by=("META",))
@needs(_SEVERAL_TOPICS)
def show_first(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """Without a named topic, an operator sees the progress of a group in one topic."""
    fields = ExtFields(request.ext_fields)
    topics = self._parts.offsets.topics_of(fields.text("consumerGroup"))
    if not fields.text("topic", "") and topics:
        bit(len(topics) > 1)
        request = _with_field(request, "topic", topics[0])
    return show_first.original(self, request, channel)


@bug("deleted-group-loses-members", GroupAdminProcessor, "delete_group", found_by=("LIVE", "STATUS", "META"))
@needs(_GROUPS)
def delete_with_members(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """The deletion of a group's settings also removes its connected members."""
    response, group = delete_with_members.original(self, request, channel), request.ext_fields["groupName"]
    info = self._parts.consumers.find_group(group)
    for each in () if info is None else list(info.clients):
        bit(True)
        self._parts.consumers.unregister(group, each, notify=True)
    return response


@bug("flag-of-topic-lost", BrokerAdminProcessor, "update_topic", found_by=("META",))
@needs(_OPERATED)
def update_without_flag(self: BrokerAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A topic does not get the topicSysFlag of an operator."""
    bit(request.ext_fields.get("topicSysFlag", "0") != "0")
    return update_without_flag.original(self, _with_field(request, "topicSysFlag", "0"), channel)


@bug("expired-begin-counts-as-zero", ClientManageProcessor, "_starts_at_zero_in_memory", found_by=("META",))
@needs(_EXPIRED)
def start_at_zero(self: ClientManageProcessor, topic: str, queue_id: int) -> bool:
    """A group without an offset gets 0, although the first messages of the queue have expired."""
    bit(not start_at_zero.original(self, topic, queue_id))
    return True


# -- decisions and retries ---------------------------------------------------------------------------------------------


@bug("unknown-decision-rolls-back", SendMessageProcessor, "end_transaction", found_by=("TX", "LIVE"))
@needs(_TRANSACTIONS)
def end_unknown(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
    """A message is rolled back if its producer does not know its decision yet."""
    if bit(request.ext_fields["commitOrRollback"] == str(TRANSACTION_NONE)):
        request = _with_field(request, "commitOrRollback", str(TRANSACTION_ROLLBACK))
    return end_unknown.original(self, request, channel)


@bug("repeated-decision-refused", SendMessageProcessor, "end_transaction", found_by=("TX",))
@needs(_TRANSACTIONS)
def end_once(self: SendMessageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
    """A producer that repeats its decision gets an error."""
    ended: set[str] = vars(self).setdefault("ended", set())
    response, half = end_once.original(self, request, channel), request.ext_fields["commitLogOffset"]
    if response is None or response.code != ResponseCode.SUCCESS:
        return response
    if bit(half in ended):
        return response_to(request, ResponseCode.SYSTEM_ERROR, "the transaction has ended")
    ended.add(half)
    return response


@bug("retry-queue-by-setting-of-group", SendMessageProcessor, "_retry_message", found_by=("SCHED",))
@needs(_RETRIES)
def retry_by_setting(self: SendMessageProcessor, record: MessageRecord, topic: TopicConfig, level: int) -> Message:
    """After a group gets more retry queues, its retries go to queues that its retry topic does not have."""
    message = retry_by_setting.original(self, record, topic, level)
    group = self._parts.groups.get(topic.topic.removeprefix("%RETRY%"))
    if group is not None and bit(group.retry_queue_nums > topic.write_queue_nums):
        message.queue_id = group.retry_queue_nums - 1
    return message

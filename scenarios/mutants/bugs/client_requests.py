"""Bugs of single requests of clients: heartbeats, subscriptions, offsets, locks, filters."""

from collections.abc import Iterable
from dataclasses import replace

from ....store.broker import clients
from ....store.broker.clients import RebalanceLockManager
from ....store.broker.parts import BrokerParts
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.group_admin import GroupAdminProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.requests import ExtFields, RequestRefusedError, success_response
from ....store.broker.router import Channel
from ....store.broker.subscriptions import SubscriptionData
from ....store.broker.topics import SubscriptionGroupConfig
from ....store.filters.message_filter import MessageFilter, TagFilter
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue
from ....store.services.consumer_filter import ConsumerFilterData
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_ORDERLY = SCENARIOS["orderly-consumers"].ranges
_OPERATED = SCENARIOS["operator-changes"].ranges


@bug("unregistered-from-all-groups", ClientManageProcessor, "unregister_client", found_by=("LIVE",))
@needs(_OPERATED)
def unregister_from_all(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A client that leaves one of its groups leaves all of them."""
    own = [name for name, info in self._parts.consumers._groups.items() if channel in info.clients]
    response = unregister_from_all.original(self, request, channel)
    bit(len(own) > 1)
    self._parts.producers.remove_channel(channel)
    self._parts.consumers.remove_channel(channel)
    return response


@bug("older-subscription-kept", clients, "_choose_newer_subscription", found_by=("STATUS",))
@needs(_OPERATED)
def choose_received(known: dict[str, SubscriptionData], received: SubscriptionData) -> SubscriptionData:
    """A late heartbeat with an older subscription replaces the newer one."""
    before = known.get(received.topic, received)
    bit(received.version < before.version and received.expression != before.expression)
    return received


@bug("first-subscription-stays", clients, "_choose_newer_subscription", found_by=("STATUS",))
@needs(_OPERATED)
def choose_first(known: dict[str, SubscriptionData], received: SubscriptionData) -> SubscriptionData:
    """A group's first subscription stays although a heartbeat has a newer one."""
    first = known.get(received.topic, received)
    bit(first.expression != received.expression)
    return first


@bug("unlock-releases-all-queues", RebalanceLockManager, "unlock", found_by=("LOCK",))
@needs(_ORDERLY)
def unlock_all_own(self: RebalanceLockManager, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
    """A client that unlocks one queue loses all its locks in the group."""
    named = list(queues)
    with self._lock:
        own = [queue for queue, held in self._groups.get(group, {}).items() if held.client_id == client_id]
    bit(any(queue not in named for queue in own))
    unlock_all_own.original(self, group, own, client_id)


@bug("offset-never-lowered", ClientManageProcessor, "update_offset", found_by=("META",))
@needs(_OPERATED)
def update_offset_upwards(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A commit of a lower offset, as after a reset, is answered with SUCCESS and ignored."""
    fields = ExtFields(request.ext_fields)
    place = fields.text("consumerGroup"), fields.text("topic"), fields.int32("queueId")
    if bit(0 <= fields.int64("commitOffset") < self._parts.offsets.query_offset(*place)):
        return success_response(request)
    return update_offset_upwards.original(self, request, channel)


@bug("pull-ignores-maximum", PullMessageProcessor, "_pull", found_by=("READ",))
@needs(BROKER, consumers=(1, 2), messages_each=(8,), broker={"pull_messages_max": (1,)})
def pull_many(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A pull returns up to 32 messages, however few the client asks for."""
    bit(int(request.ext_fields.get("maxMsgNums", "32")) < 32)
    more = replace(request, ext_fields={**request.ext_fields, "maxMsgNums": "32"})
    return pull_many.original(self, more, channel, may_hold=may_hold)


@bug("invalid-filter-matches-all", SubscriptionData, "check_expression", found_by=("STATUS",))
@needs(_OPERATED)
def accept_expression(self: SubscriptionData) -> None:
    """A pull with an invalid filter expression gets all messages."""
    bit(self._expression_fault is not None)


@accept_expression.also(SubscriptionData, "message_filter")
def _filter_without_fault(self: SubscriptionData, registered: ConsumerFilterData | None = None) -> MessageFilter:
    if self._expression_fault is not None:
        return TagFilter.parse(None)
    return _filter_without_fault.original(self, registered)


@bug("check-accepts-invalid-filter", ClientManageProcessor, "check_config", found_by=("STATUS",))
@needs(_OPERATED)
def accept_config(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """The check of a client's configuration accepts an invalid filter expression, which each of its pulls then fails
    with."""
    try:
        return accept_config.original(self, request, channel)
    except RequestRefusedError:
        bit()
        return success_response(request)


@bug("deleted-group-keeps-offsets", GroupAdminProcessor, "delete_group", found_by=("META",))
@needs(_OPERATED)
def delete_group_alone(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """The offsets of a deleted group stay although the operator asks to remove them."""
    bit(request.ext_fields.get("removeOffset", "") == "true")
    kept = replace(request, ext_fields={**request.ext_fields, "removeOffset": "false"})
    return delete_group_alone.original(self, kept, channel)


# alibaba/rocketmq issue 316, apache/rocketmq issue 1465: operators lower writeQueueNums first, then readQueueNums.
@bug("read-only-queue-missing", BrokerParts, "has_queue", found_by=("STATUS", "LOCK"))
@needs(_OPERATED, queues_per_topic=(2,))
def has_written_queue(self: BrokerParts, topic: str, queue_id: int) -> bool:
    """While an operator lets consumers drain a queue, they can neither commit an offset in it nor lock it."""
    found = has_written_queue.original(self, topic, queue_id)
    config = self.topics.get(topic)
    return found and not bit(config is not None and queue_id >= config.write_queue_nums)


# apache/rocketmq-client-go issues 491 and 1080.
@bug("expired-lock-ends-others", RebalanceLockManager, "forget_expired", found_by=("LOCK",))
@needs(SCENARIOS["group-members"].ranges)
def forget_groups(self: RebalanceLockManager) -> None:
    """When the lock of one queue expires, all members of the group lose their locks."""
    with self._lock:
        now_ns = self._clock.monotonic_ns()
        for group, locks in list(self._groups.items()):
            expired = [clients._is_expired(held, now_ns) for held in locks.values()]
            if any(expired):
                bit(not all(expired))
                del self._groups[group]


# apache/rocketmq issues 92, 370 and 588.
@bug("newer-pull-gets-older-filter", PullMessageProcessor, "_registered_subscription", found_by=("STATUS",))
@needs(_OPERATED)
def find_any_version(
    self: PullMessageProcessor, group: SubscriptionGroupConfig, topic: str, version: int
) -> SubscriptionData:
    """A consumer that pulls for a further tag before its heartbeat skips the messages with this tag."""
    info = self._parts.consumers.find_group(group.group)
    known = None if info is None else info.subscriptions.get(topic)
    if known is not None and bit(known.version < version):
        version = known.version
    return find_any_version.original(self, group, topic, version)

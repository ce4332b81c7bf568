"""Bugs of a broker's answers to clients: queue locks, members of groups, and lookups."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import cast

from ....store.broker import clients
from ....store.broker.clients import ClientChannelInfo, ConsumerGroupInfo, ConsumerManager, RebalanceLockManager
from ....store.broker.late_answers import LateAnswerService
from ....store.broker.parts import BrokerParts
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.request_pool import PooledRequest
from ....store.broker.requests import success_response
from ....store.broker.router import Channel
from ....store.broker.server import RemotingServer
from ....store.broker.server_counts import RequestRefusal
from ....store.broker.session import Session
from ....store.broker.subscriptions import ConsumerData
from ....store.formats.message import MessageRecord
from ....store.formats.messages import PutMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue
from ....store.formats.scan import ScannedRecord
from ....store.index.key_query import QueryMessageResult
from ....store.message_store import MessageStore
from ....store.services.consumer_filter import ConsumerFilterManager
from ....store.world import Clock, World
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_ORDERLY = SCENARIOS["orderly-consumers"].ranges.replace(
    heals=(True,), broker={"leave_chance": (0.3,), "client_death_chance": (0.3,), "rest_ms_max": (150_000,)}
)
_RECONNECTING = SCENARIOS["group-members"].ranges.replace(broker={"reconnect_chance": (1.0,)})


@bug("lock-never-expires", clients, "_is_expired", found_by=("LOCK", "LIVE"))
@needs(_ORDERLY)
def never_expire(held: clients._QueueLock, now_ns: int) -> bool:
    """The queue lock of a client that died or fell silent stays for ever."""
    bit(never_expire.original(held, now_ns))
    return False


@bug("lock-not-renewed", RebalanceLockManager, "try_lock", found_by=("LOCK",))
@needs(_ORDERLY)
def lock_without_renewal(
    self: RebalanceLockManager, group: str, queues: Iterable[MessageQueue], client_id: str
) -> list[MessageQueue]:
    """A queue lock expires after its first request, although its holder renews it."""
    before = dict(self._groups.get(group, {}))
    got = lock_without_renewal.original(self, group, queues, client_id)
    for queue in got:
        held = before.get(queue)
        if bit(held is not None and held.client_id == client_id) and held is not None:
            self._groups[group][queue] = held
    return got


@bug("lock-released-by-another", RebalanceLockManager, "unlock", found_by=("LOCK",))
@needs(_ORDERLY)
def unlock_for_all(self: RebalanceLockManager, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
    """A client's request to unlock a queue removes the lock of another client."""
    with self._lock:
        locks = self._groups.get(group, {})
        for queue in queues:
            held = locks.pop(queue, None)
            bit(held is not None and held.client_id != client_id)
        self._drop_group_if_empty(group)


@bug("lock-granted-to-all", RebalanceLockManager, "try_lock", found_by=("LOCK", "META"))
@needs(_ORDERLY)
def grant_every_lock(
    self: RebalanceLockManager, group: str, queues: Iterable[MessageQueue], client_id: str
) -> list[MessageQueue]:
    """A request to lock queues is granted for queues that another client holds, too."""
    wanted = list(queues)
    bit(len(grant_every_lock.original(self, group, wanted, client_id)) < len(wanted))
    return wanted


class _WallClock:
    """A clock with the wall clock's time as its monotonic time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ns = self._wall_ns() - clock.monotonic_ns()

    def monotonic_ns(self) -> int:
        now_ns = self._wall_ns()
        bit(abs(now_ns - self._clock.monotonic_ns() - self._ahead_ns) > 1_000_000)
        return now_ns

    def _wall_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000


@bug("locks-by-wall-clock", RebalanceLockManager, "__init__", found_by=("LOCK", "LIVE"))
@needs(
    SCENARIOS["group-members"].ranges,
    disturbances={"clock_step_chance": (0.3,), "clock_step_ms_max": (60_000, 600_000)},
)
def make_locks_by_wall_clock(self: RebalanceLockManager, world: World) -> None:
    """Queue locks expire by the wall clock. A step forward gives the lock of a live member to another one, a step back
    keeps the lock of a dead one."""
    make_locks_by_wall_clock.original(self, world)
    self._clock = cast(Clock, _WallClock(world.clock))


_LOOKING = SCENARIOS["broker-lookups"].ranges.replace(broker={"rest_ms_max": (15_000,)})


@bug("query-ignores-maximum", MessageStore, "query_message", found_by=("IDX",))
@needs(_LOOKING)
def query_all_messages(
    self: MessageStore, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int
) -> QueryMessageResult:
    """A query by key returns more messages than the client asked for."""
    wide = query_all_messages.original(self, topic, key, 64, begin_ms, end_ms)
    bit(len(wide.records) > max_messages)
    return wide


@bug("query-ignores-times", MessageStore, "query_message", found_by=("IDX",))
@needs(_LOOKING)
def query_without_times(
    self: MessageStore, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int
) -> QueryMessageResult:
    """A query by key returns messages from outside of the requested times."""
    bit(begin_ms > 0)
    return query_without_times.original(self, topic, key, max_messages, 0, 1 << 62)


@bug("time-search-one-late", BrokerParts, "offset_by_time", found_by=("READ",))
@needs(_LOOKING)
def offset_after_nearest(self: BrokerParts, topic: str, queue_id: int, timestamp_ms: int) -> int:
    """A search by time returns the message after the nearest one."""
    found = offset_after_nearest.original(self, topic, queue_id, timestamp_ms)
    last = self.max_offset(topic, queue_id) - 1
    bit(found < last)
    return min(found + 1, max(last, 0))


@bug("min-offset-of-last-message", BrokerParts, "min_offset", found_by=("READ",))
@needs(_LOOKING)
def min_offset_of_last(self: BrokerParts, topic: str, queue_id: int) -> int:
    """The minimum offset of a queue is that of its last message."""
    last = self.max_offset(topic, queue_id) - 1
    bit(last > 0)
    return max(last, 0)


@bug("max-offset-of-last-message", BrokerParts, "max_offset", found_by=("READ",))
@needs(_LOOKING)
def max_offset_of_last(self: BrokerParts, topic: str, queue_id: int) -> int:
    """The maximum offset of a queue is that of its last message, not the next one."""
    end = max_offset_of_last.original(self, topic, queue_id)
    bit(end > 0)
    return max(end - 1, 0)


@bug("earliest-time-is-zero", BrokerParts, "store_time", found_by=("READ",))
@needs(_LOOKING)
def store_time_of_nothing(self: BrokerParts, topic: str, queue_id: int, offset: int) -> int:
    """A broker answers that a queue has no earliest store time although the queue has messages."""
    bit(store_time_of_nothing.original(self, topic, queue_id, offset) >= 0)
    return -1


@bug("id-finds-next-message", MessageStore, "look_message_by_offset", found_by=("READ",))
@needs(_LOOKING)
def look_at_next_record(self: MessageStore, physical_offset: int) -> MessageRecord | None:
    """A lookup by an id with a wrong offset returns the message that follows the offset."""
    found = look_at_next_record.original(self, physical_offset)
    end = min(self.max_phy_offset, physical_offset + 2_000)
    for offset in range(physical_offset + 1, end if found is None and physical_offset >= 0 else 0):
        if (found := look_at_next_record.original(self, offset)) is not None:
            bit()
            return found
    return found


_MEMBERS = SCENARIOS["group-members"].ranges


@bug("unregistered-member-stays", ClientManageProcessor, "unregister_client", found_by=("LIVE",))
@needs(_MEMBERS)
def unregister_nobody(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A consumer that unregisters remains a member of its group."""
    bit()
    return success_response(request)


@bug("leave-not-announced", ConsumerManager, "unregister", found_by=("LIVE",))
@needs(_MEMBERS)
def unregister_quietly(self: ConsumerManager, group: str, channel: Channel, *, notify: bool) -> None:
    """A broker does not announce to a group that a member has left or died."""
    bit(notify and len(getattr(self.find_group(group), "clients", ())) > 1)
    unregister_quietly.original(self, group, channel, notify=False)


@bug("join-announced-to-newcomer", ConsumerManager, "register", found_by=("LIVE",))
@needs(_MEMBERS)
def register_notifying_newcomer(
    self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool
) -> None:
    """A broker announces a new member only to the new member itself."""
    before, on_changed = getattr(self.find_group(consumer.group), "clients", ()), self.on_changed
    register_notifying_newcomer.original(self, consumer, client, notify=False)
    if client.channel not in before and notify:
        bit(len(before) > 0)
        on_changed(consumer.group, [client.channel])


@bug("silent-member-stays", ConsumerManager, "close_expired", found_by=("LIVE",))
@needs(_MEMBERS)
def close_nobody(self: ConsumerManager) -> None:
    """A consumer that sends no heartbeat for two minutes remains a member of its group."""
    silent_ns = self._clock.monotonic_ns() - clients.CHANNEL_EXPIRED_MS * 1_000_000
    infos = list(self._groups.values())
    bit(any(client.heartbeat_ns < silent_ns for info in infos for client in info.clients.values()))


@bug("heartbeat-not-renewed", ConsumerManager, "register", found_by=("LIVE",))
@needs(_MEMBERS)
def register_with_first_time(
    self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool
) -> None:
    """A member leaves its group two minutes after its first heartbeat, although it sends further ones."""
    known = getattr(self.find_group(consumer.group), "clients", {}).get(client.channel)
    if bit(known is not None) and known is not None:
        client.heartbeat_ns = known.heartbeat_ns
    register_with_first_time.original(self, consumer, client, notify=notify)


@bug("member-list-of-one", ConsumerGroupInfo, "client_ids", found_by=("LIVE",))
@needs(_MEMBERS)
def newest_client_id(self: ConsumerGroupInfo) -> list[str]:
    """The list of a group's members has only the newest member."""
    found = newest_client_id.original(self)
    bit(len(found) > 1)
    return found[-1:]


@bug(
    "late-answer-to-newest-request", LateAnswerService, "_answer_completed", found_by=("QOFF", "DUR", "READ", "STATUS")
)
@needs(SCENARIOS["requests-in-flight"].ranges, sync_flush=(True,))
def answer_newest_of_connection(self: LateAnswerService) -> None:
    """If several sends of one connection wait for a flush, an answer goes to the newest of them."""
    with self._lock:
        for request, late in self._waiting.values():
            opaques = [each.command.opaque for each, _ in self._waiting.values() if each.session is request.session]
            if bit(opaques[-1] != request.command.opaque):
                late.respond = partial(_respond_to, late.respond, opaques[-1])
    answer_newest_of_connection.original(self)


def _respond_to(
    respond: Callable[[PutMessageResult], RemotingCommand], opaque: int, put: PutMessageResult
) -> RemotingCommand:
    return replace(respond(put), opaque=opaque)


@bug("refused-request-stays-counted", RemotingServer, "_refuse_request", found_by=("LIVE", "QUIET"))
@needs(SCENARIOS["requests-in-flight"].ranges)
def refuse_and_count_again(self: RemotingServer, request: PooledRequest, refusal: RequestRefusal, remark: str) -> None:
    """A request that is refused because it waited for too long still counts as pending. After some overloads the
    broker reads no more from its client."""
    refuse_and_count_again.original(self, request, refusal, remark)
    if bit(refusal is RequestRefusal.TOO_OLD):
        request.session.count_request_begun(request.size_bytes)


@bug("paused-client-stays-paused", Session, "count_request_done", found_by=("LIVE",))
@needs(SCENARIOS["requests-in-flight"].ranges, broker={"pending_requests_max": (1,)}, heals=(True,))
def end_request_of_paused(self: Session, size_bytes: int) -> None:
    """A broker that stopped reading from a client with many pending requests does not continue after their end."""
    if bit(self._is_paused):
        self._is_paused = False
    end_request_of_paused.original(self, size_bytes)


@bug("locks-of-all-groups", RebalanceLockManager, "try_lock", found_by=("LOCK",))
@needs(SCENARIOS["operator-changes"].ranges, broker={"group_members": (2,)})
def lock_without_group(
    self: RebalanceLockManager, group: str, queues: Iterable[MessageQueue], client_id: str
) -> list[MessageQueue]:
    """Two consumer groups exclude each other from queues."""
    bit(any(other != group for other in self._groups))
    return lock_without_group.original(self, next(iter(self._groups), group), queues, client_id)


@bug("new-group-has-no-offset", ClientManageProcessor, "_starts_at_zero_in_memory", found_by=("META",))
@needs(SCENARIOS["consumer-order"].ranges)
def never_start_at_zero(self: ClientManageProcessor, topic: str, queue_id: int) -> bool:
    """A new group gets no offset, so its consumers begin at the end of the queue and skip the messages before."""
    bit(never_start_at_zero.original(self, topic, queue_id))
    return False


@bug("filter-bits-not-set", ConsumerFilterManager, "bit_map_of", found_by=("READ", "LIVE"))
@needs(
    SCENARIOS["filtered-and-delayed-delivery"].ranges,
    consuming={"filtered": (True,)},
    settings={"enable_consume_queue_ext": (True,)},
    broker={"registers_filters": (True,)},
)
def map_without_bits(self: ConsumerFilterManager, record: ScannedRecord) -> bytes:
    """A message that a registered expression matches gets no bit, so its group never receives it."""
    bits = map_without_bits.original(self, record)
    bit(any(bits))
    return bytes(len(bits))


# apache/rocketmq issue 11039.
@bug("reconnected-member-stays", ConsumerManager, "register", found_by=("LIVE",))
@needs(SCENARIOS["client-failover"].ranges)
def register_and_watch_new_ids(
    self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool
) -> None:
    """After a consumer reconnects, the end of its new connection does not end its membership."""
    info = self.find_group(consumer.group)
    members = [] if info is None else list(info.clients.values())
    register_and_watch_new_ids.original(self, consumer, client, notify=notify)
    if not any(each.client_id == client.client_id for each in members):
        vars(self).setdefault("_watched", {}).setdefault(client.channel, {})[consumer.group] = None


@register_and_watch_new_ids.also(ConsumerManager, "remove_channel")
def _remove_watched_channel(self: ConsumerManager, channel: Channel) -> None:
    watched = vars(self).get("_watched", {}).pop(channel, {})
    with self._lock:
        bit(any(channel in info.clients for name, info in self._groups.items() if name not in watched))
    for group in watched:
        self.unregister(group, channel, notify=True)


# RocketMQ: apache/rocketmq issues 6810 and 7073.
@bug("old-connection-removes-client", ConsumerManager, "remove_channel", found_by=("LIVE",))
@needs(_RECONNECTING)
def remove_client(self: ConsumerManager, channel: Channel) -> None:
    """The end of a client's old connection removes the client from its groups, although it has a newer connection."""
    with self._lock:
        ended = []
        for name, info in self._groups.items():
            if channel in info.clients:
                gone = info.clients[channel].client_id
                ended += [(name, each) for each, client in info.clients.items() if client.client_id == gone]
    bit(any(each is not channel for _, each in ended))
    for name, each in ended:
        self.unregister(name, each, notify=True)

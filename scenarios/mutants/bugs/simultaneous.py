"""Bugs that need two requests at the same time: code that trusts shared state which it read before it took the lock."""

from collections.abc import Iterable

from ....store.broker import clients
from ....store.broker.clients import (
    ClientChannelInfo,
    ConsumerGroupInfo,
    ConsumerManager,
    ProducerManager,
    RebalanceLockManager,
)
from ....store.broker.kv_config import KVConfig
from ....store.broker.name_server import NameServer
from ....store.broker.processors.group_admin import GroupAdminProcessor
from ....store.broker.requests import ExtFields, success_response
from ....store.broker.router import Channel
from ....store.broker.subscriptions import ConsumerData
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.broker_services import LOCK_RACES
from ..mutant import bit, bug, needs

_AT_ONCE = SCENARIOS["simultaneous-changes"].ranges
_RACES = SCENARIOS["group-members"].ranges.replace(**LOCK_RACES)
_NAMES_AT_ONCE = SCENARIOS["name-server-answers"].ranges


# After apache/rocketmq#10698 and #5479.
@bug("group-ends-during-a-heartbeat", ConsumerManager, "register", found_by=("LIVE",))
@needs(_AT_ONCE)
def register_in_two_steps(
    self: ConsumerManager, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool
) -> None:
    """A heartbeat looks up its group, and adds the member in a second step, when the group may be gone."""
    with self._lock:
        info = self._groups.setdefault(consumer.group, ConsumerGroupInfo(consumer))
    with self._lock:
        bit(self._groups.get(consumer.group) is not info)
        info.newest_heartbeat = consumer
        known = info.clients.get(client.channel)
        changed = known is None or known.client_id != client.client_id
        if known is None or changed:
            info.clients = {**info.clients, client.channel: client}
        else:
            known.heartbeat_ns = client.heartbeat_ns
        before = info.subscriptions
        info.subscriptions = {
            each.topic: clients._choose_newer_subscription(before, each) for each in consumer.subscriptions
        }
        changed = changed or before.keys() != info.subscriptions.keys()
        channels, is_new = list(info.clients), info.subscriptions != before
    if is_new:
        self.on_registered(consumer.group, consumer.subscriptions)
    if changed and notify:
        self.on_changed(consumer.group, channels)


@bug("member-leaves-with-another", ConsumerManager, "unregister", found_by=("LIVE",))
@needs(_AT_ONCE)
def unregister_with_old_members(self: ConsumerManager, group: str, channel: Channel, *, notify: bool) -> None:
    """A leave computes the remaining members before it takes the lock, so it removes a member that joins meanwhile."""
    info = self._groups.get(group)
    if info is None or channel not in info.clients:
        return
    left = {each: client for each, client in info.clients.items() if each is not channel}
    with self._lock:
        bit(left.keys() != info.clients.keys() - {channel})
        info.clients = left
        if not left:
            self._groups.pop(group, None)
    if not left:
        self.on_gone(group)
    elif notify:
        self.on_changed(group, list(left))


@bug("producer-group-from-old-table", ProducerManager, "register", found_by=("LIVE",))
@needs(_AT_ONCE)
def register_producer_with_old_members(self: ProducerManager, group: str, client: ClientChannelInfo) -> None:
    """A heartbeat of a producer replaces the group's members with those before it took the lock, and itself."""
    before = dict(self._groups.get(group, {}))
    with self._lock:
        bit(before.keys() != self._groups.get(group, {}).keys())
        self._groups[group] = {**before, client.channel: client}


# After RocketMQ's RebalanceLockManager.tryLockBatch, which looks a second time with the lock.
@bug("two-members-find-one-queue-free", RebalanceLockManager, "try_lock", found_by=("LOCK",))
@needs(_AT_ONCE)
def lock_what_was_free(
    self: RebalanceLockManager, group: str, queues: Iterable[MessageQueue], client_id: str
) -> list[MessageQueue]:
    """A request for locks looks for free queues before it takes the manager's own lock, and does not look again."""
    now_ns, known = self._clock.monotonic_ns(), self._groups.get(group, {})

    def is_free(held: clients._QueueLock | None) -> bool:
        return held is None or held.client_id == client_id or clients._is_expired(held, now_ns)

    free = [queue for queue in queues if is_free(known.get(queue))]
    with self._lock:
        locks = self._groups.setdefault(group, {})
        bit(not all(is_free(locks.get(queue)) for queue in free))
        locks.update((queue, clients._QueueLock(client_id, now_ns)) for queue in free)
    return free


@bug("commit-replaces-queues-of-a-topic", ConsumerOffsetManager, "commit_offset", found_by=("META",))
@needs(_AT_ONCE, queues_per_topic=(2,))
def commit_to_a_copy(self: ConsumerOffsetManager, group: str, topic: str, queue_id: int, offset: int) -> None:
    """A commit copies the offsets of its topic before it takes the lock, so it undoes a commit to another queue."""
    before = dict(self._offsets.get(f"{topic}@{group}", {}))
    with self._lock:
        bit(before != self._offsets.get(f"{topic}@{group}", {}))
        self._offsets[f"{topic}@{group}"] = {**before, queue_id: offset}


@bug("clone-onto-itself-undoes-a-commit", GroupAdminProcessor, "clone_offset", found_by=("META",))
@needs(_AT_ONCE)
def clone_onto_itself(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A clone of a group onto itself reads each offset and commits it again, also if a member commits in between."""
    fields, parts = ExtFields(request.ext_fields), self._parts
    source, topic = fields.text("srcGroup"), fields.text("topic", "")
    if source != fields.text("destGroup"):
        return clone_onto_itself.original(self, request, channel)
    for name in [topic] if topic else parts.offsets.topics_of(source):
        config = parts.topics.get(name)
        for queue_id in range(0 if config is None else config.queue_nums):
            offset = parts.offsets.query_offset(source, name, queue_id)
            if offset >= 0:
                bit(parts.offsets.query_offset(source, name, queue_id) != offset)
                parts.offsets.commit_offset(source, name, queue_id, offset)
    return success_response(request)


@bug("end-of-broker-undoes-a-registration", NameServer, "channel_closed", found_by=("QUIET",))
@needs(_NAMES_AT_ONCE)
def close_channel_in_old_table(self: NameServer, channel: Channel) -> None:
    """The end of a connection removes brokers from a table read before the lock, so others that register vanish."""
    left = {key: each for key, each in self._others.items() if each.channel is not channel}
    with self._lock:
        now = {key: each for key, each in self._others.items() if each.channel is not channel}
        bit(left.keys() != now.keys())
        self._others = left
        self._drop_unused_read_only()


@bug("key-undoes-another", KVConfig, "put", found_by=("META",))
@needs(_NAMES_AT_ONCE, broker={"key_operators": (1,)})
def put_in_old_table(self: KVConfig, namespace: str, key: str, value: str) -> None:
    """A name server sets a key in a table that it read before it took the lock, so a change of another key is lost."""
    before = self._namespaces
    changed = {**before, namespace: {**before.get(namespace, {}), key: value}}
    with self._lock:
        bit(self._namespaces is not before)
        self._store_namespaces(changed)
    self.on_changed(namespace)


# After etcd-io/etcd#14758, in which a lease is renewed between the two steps of its revocation.
@bug("renewed-lock-expires", RebalanceLockManager, "forget_expired", found_by=("LOCK",))
@needs(_RACES)
def forget_expired_in_two_steps(self: RebalanceLockManager) -> None:
    """The broker looks for expired locks, and removes them in a second step, also if a client has locked them since."""
    with self._lock:
        now_ns = self._clock.monotonic_ns()
        expired = [
            (group, queue)
            for group, locks in self._groups.items()
            for queue, held in locks.items()
            if clients._is_expired(held, now_ns)
        ]
    for group, queue in expired:
        with self._lock:
            held = self._groups.get(group, {}).pop(queue, None)
            bit(held is not None and not clients._is_expired(held, now_ns))
            self._drop_group_if_empty(group)

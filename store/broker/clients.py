"""Registry of connected clients: producers and consumers by group, and queue locks.

A client belongs to a group from its first heartbeat until it unregisters, its connection ends, or it sends no heartbeat
for two minutes. After a change in a consumer group the broker notifies the other members, which rebalance the queues. A
client that consumes a queue in order locks the queue, and renews the lock. The registry is only in memory: after a
restart clients register and lock again.
Source: RocketMQ ClientChannelInfo, Connection, ProducerManager, ConsumerManager, ConsumerGroupInfo,
DefaultConsumerIdsChangeListener, RebalanceLockManager.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..formats.remoting.command import LANGUAGES, OTHER_LANGUAGE
from ..formats.remoting.json_body import MessageQueue
from ..world import World
from .router import Channel
from .subscriptions import ConsumerData, SubscriptionData

CHANNEL_EXPIRED_MS = 120_000  # RocketMQ ProducerManager.CHANNEL_EXPIRED_TIMEOUT
"""After this time without a heartbeat the broker removes a client and closes its connection."""
LOCK_MS_MAX = 60_000  # RocketMQ RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME
"""Time after which a lock without renewal expires."""
_NS_PER_MS = 1_000_000


@dataclass(slots=True, eq=False)
class ClientChannelInfo:
    """A client and its connection."""

    channel: Channel
    client_id: str
    language: int
    version: int
    heartbeat_ns: int
    """Time of the last heartbeat on the monotonic clock."""
    joined: int = 0
    """A number that grows with each join of a producer group."""

    @property
    def json_members(self) -> dict[str, Any]:
        known = 0 <= self.language < len(LANGUAGES)
        return {
            "clientAddr": self.channel.remote_address,
            "clientId": self.client_id,
            "language": LANGUAGES[self.language if known else OTHER_LANGUAGE],
            "version": self.version,
        }


def _find_expired_channels(groups: Iterable[Mapping[Channel, ClientChannelInfo]], now_ns: int) -> list[Channel]:
    silent_ns = now_ns - CHANNEL_EXPIRED_MS * _NS_PER_MS
    clients = (client for group in groups for client in group.values())
    return list(dict.fromkeys(client.channel for client in clients if client.heartbeat_ns < silent_ns))


class ProducerManager:
    """All producer groups. Thread-safe."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._lock = world.tasks.lock("producers")
        self._groups: dict[str, dict[Channel, ClientChannelInfo]] = {}
        self._turn = 0
        self._joins = 0

    def clients_of_group(self, group: str) -> list[ClientChannelInfo]:
        with self._lock:
            return list(self._groups.get(group, {}).values())

    @property
    def groups(self) -> Mapping[str, list[ClientChannelInfo]]:
        with self._lock:
            return {group: list(clients.values()) for group, clients in sorted(self._groups.items())}

    @property
    def channels(self) -> list[Channel]:
        """Takes no lock, so the result may miss concurrent changes."""
        return [channel for clients in list(self._groups.values()) for channel in list(clients)]

    def pick_available_channel(self, group: str) -> Channel | None:
        """Return an open connection in round robin, or None."""
        with self._lock:
            channels = [channel for channel in self._groups.get(group, {}) if channel.is_open]
            if not channels:
                return None
            self._turn += 1
            return channels[self._turn % len(channels)]

    def find_channel(self, client_id: str) -> Channel | None:
        """Return the open connection of a client that joined a group last, or None."""
        with self._lock:
            clients = [client for group in self._groups.values() for client in group.values()]
        found = [each for each in clients if each.client_id == client_id and each.channel.is_open]
        return max(found, key=lambda each: each.joined).channel if found else None

    def register(self, group: str, client: ClientChannelInfo) -> None:
        with self._lock:
            clients = self._groups.setdefault(group, {})
            known = clients.get(client.channel)
            if known is None or known.client_id != client.client_id:
                self._joins += 1
                clients[client.channel] = replace(client, joined=self._joins)
            else:
                known.heartbeat_ns = client.heartbeat_ns

    def unregister(self, group: str, channel: Channel) -> None:
        with self._lock:
            self._remove_member(group, channel)

    def remove_channel(self, channel: Channel) -> None:
        with self._lock:
            for group in list(self._groups):
                self._remove_member(group, channel)

    def _remove_member(self, group: str, channel: Channel) -> None:
        clients = self._groups.get(group, {})
        if clients.pop(channel, None) is not None and not clients:
            del self._groups[group]

    def close_expired(self) -> None:
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            expired = _find_expired_channels(self._groups.values(), now_ns)
        for channel in expired:  # without the lock, because `channel.close` calls this object
            channel.close()
            self.remove_channel(channel)


@dataclass(slots=True, eq=False)
class ConsumerGroupInfo:
    """A consumer group with members. Writers need the manager's lock.

    Readers need no lock, because a change replaces a whole attribute.
    """

    newest_heartbeat: ConsumerData
    """The group's part of its newest heartbeat."""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """Topic -> subscription"""
    clients: dict[Channel, ClientChannelInfo] = field(default_factory=dict)
    """Connection -> client"""

    @property
    def client_ids(self) -> list[str]:
        """Client ids without duplicates."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))


GroupListener = Callable[[str, Iterable[Channel]], None]
"""Called after the members or topics of a group changed, with the group and the connections of its members."""


class ConsumerManager:
    """All consumer groups. Thread-safe."""

    def __init__(self, world: World) -> None:
        self.on_changed: GroupListener = lambda group, channels: None
        self.on_registered: Callable[[str, tuple[SubscriptionData, ...]], None] = lambda group, wanted: None
        """Receives a group and its subscriptions after a possible change."""
        self.on_gone: Callable[[str], None] = lambda group: None
        """Receives a group after the removal of its last member."""
        self._clock = world.clock
        self._lock = world.tasks.lock("consumers")
        self._groups: dict[str, ConsumerGroupInfo] = {}

    def find_group(self, name: str) -> ConsumerGroupInfo | None:
        return self._groups.get(name)

    @property
    def channels(self) -> list[Channel]:
        """Takes no lock, so the result may miss concurrent changes."""
        return [channel for info in list(self._groups.values()) for channel in list(info.clients)]

    def member_count_by_group(self) -> dict[str, int]:
        with self._lock:
            return {name: len(info.clients) for name, info in self._groups.items()}

    def groups_of(self, topic: str) -> list[str]:
        with self._lock:
            return sorted(name for name, info in self._groups.items() if topic in info.subscriptions)

    def register(self, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool) -> None:
        """Register a client in a group, or renew its heartbeat. `notify`: announce a change to the group."""
        with self._lock:
            info = self._groups.setdefault(consumer.group, ConsumerGroupInfo(consumer))
            info.newest_heartbeat = consumer
            known = info.clients.get(client.channel)
            changed = known is None or known.client_id != client.client_id
            if known is None or changed:
                info.clients = {**info.clients, client.channel: client}
            else:
                known.heartbeat_ns = client.heartbeat_ns
            before = info.subscriptions
            info.subscriptions = {
                each.topic: _choose_newer_subscription(before, each) for each in consumer.subscriptions
            }
            changed = changed or before.keys() != info.subscriptions.keys()
            channels = list(info.clients)
            assert client.channel in channels, client
            is_new = info.subscriptions != before
        # Call the listeners without the lock, because they may take other locks and may send.
        if is_new:
            self.on_registered(consumer.group, consumer.subscriptions)
        if changed and notify:
            self.on_changed(consumer.group, channels)

    def unregister(self, group: str, channel: Channel, *, notify: bool) -> None:
        with self._lock:
            info = self._groups.get(group)
            if info is None or channel not in info.clients:
                return
            info.clients = {each: client for each, client in info.clients.items() if each is not channel}
            if not info.clients:
                del self._groups[group]
            channels = list(info.clients)
            assert channel not in channels, channel
        if not channels:
            self.on_gone(group)
        elif notify:
            self.on_changed(group, channels)

    def remove_channel(self, channel: Channel) -> None:
        with self._lock:
            groups = [name for name, info in self._groups.items() if channel in info.clients]
        for group in groups:
            self.unregister(group, channel, notify=True)

    def close_expired(self) -> None:
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            expired = _find_expired_channels((info.clients for info in self._groups.values()), now_ns)
        for channel in expired:
            channel.close()
            self.remove_channel(channel)


def _choose_newer_subscription(known: dict[str, SubscriptionData], received: SubscriptionData) -> SubscriptionData:
    """Return the subscription with the higher version, or the known one if both are equal."""
    before = known.get(received.topic)
    return received if before is None or received.version > before.version else before


class _QueueLock(NamedTuple):
    client_id: str
    renewed_ns: int


class RebalanceLockManager:
    """The queue locks of all groups. Thread-safe."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._lock = world.tasks.lock("rebalance locks")
        self._groups: dict[str, dict[MessageQueue, _QueueLock]] = {}

    def try_lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock queues or renew their locks. Return the queues that this client has locked."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            locks = self._groups.setdefault(group, {})
            locked = []
            for queue in queues:
                held = locks.get(queue)
                if held is None or held.client_id == client_id or _is_expired(held, now_ns):
                    locks[queue] = _QueueLock(client_id, now_ns)
                    locked.append(queue)
            return locked

    def holders_of(self, group: str) -> Mapping[MessageQueue, str]:
        """Return the client of each lock, also of expired ones. Takes no lock, so concurrent changes may be missing."""
        return {queue: held.client_id for queue, held in self._groups.get(group, {}).items()}

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Unlock queues, except those that another client has locked."""
        with self._lock:
            locks = self._groups.get(group, {})
            for queue in queues:
                if queue in locks and locks[queue].client_id == client_id:
                    del locks[queue]
            self._drop_group_if_empty(group)

    def forget_expired(self) -> None:
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            for group, locks in list(self._groups.items()):
                for queue in [queue for queue, held in locks.items() if _is_expired(held, now_ns)]:
                    del locks[queue]
                self._drop_group_if_empty(group)

    def _drop_group_if_empty(self, group: str) -> None:
        if not self._groups.get(group, True):
            del self._groups[group]


def _is_expired(held: _QueueLock, now_ns: int) -> bool:
    return now_ns - held.renewed_ns > LOCK_MS_MAX * _NS_PER_MS

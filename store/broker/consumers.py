"""Who consumes for which group, and what: RocketMQ's ConsumerManager.

A client belongs to a group from its first heartbeat to its last word, the end of its connection, or two minutes of
silence. The others of the group are told of each change, for they have to divide the queues anew.
Source: RocketMQ ConsumerManager, ConsumerGroupInfo, DefaultConsumerIdsChangeListener.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..world import World
from .channel import Channel
from .clients import ClientChannelInfo
from .heartbeats import ConsumerData
from .subscriptions import SubscriptionData


@dataclass(slots=True, eq=False)
class ConsumerGroupInfo:
    """One group that has members. Changed with the manager's lock held; others read what is replaced as a whole."""

    group: str
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    """By topic. Replaced as a whole."""
    clients: dict[Channel, ClientChannelInfo] = field(default_factory=dict)
    """In order of arrival. Replaced as a whole."""

    @property
    def client_ids(self) -> list[str]:
        """Return its members, each once."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))


GroupListener = Callable[[str, Iterable[Channel]], None]
"""Told of a group whose members or topics changed, and of its members' connections."""


class ConsumerManager:
    """All groups. Any task may call it."""

    def __init__(self, world: World) -> None:
        self.on_changed: GroupListener = _nobody
        self.on_registered: Callable[[str, tuple[SubscriptionData, ...]], None] = _nobody_subscribes
        """Told of what a group wants, when that may be new."""
        self.on_gone: Callable[[str], None] = _nobody_goes
        """Told of a group that has lost its last member."""
        self._clock = world.clock
        self._lock = world.tasks.lock("consumers")
        self._groups: dict[str, ConsumerGroupInfo] = {}

    # -- asking ------------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroupInfo | None:
        """Return a group that has members, None if it has none."""
        return self._groups.get(name)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that want a topic, in order of the alphabet."""
        with self._lock:
            return sorted(name for name, info in self._groups.items() if topic in info.subscriptions)

    # -- telling -----------------------------------------------------------------------------------

    def register(self, consumer: ConsumerData, client: ClientChannelInfo, *, notify: bool) -> None:
        """Note what a heartbeat says of one group; notify: whether the group is told if that changes it."""
        with self._lock:
            info = self._groups.setdefault(consumer.group, ConsumerGroupInfo(consumer.group))
            info.consume_type = consumer.consume_type
            info.message_model = consumer.message_model
            info.consume_from_where = consumer.consume_from_where
            known = info.clients.get(client.channel)
            changed = known is None or known.client_id != client.client_id
            if known is None or changed:
                info.clients = {**info.clients, client.channel: client}
            else:
                known.heartbeat_ns = client.heartbeat_ns
            before = info.subscriptions
            info.subscriptions = {each.topic: _newer(before, each) for each in consumer.subscriptions}
            changed = changed or before.keys() != info.subscriptions.keys()
            channels = list(info.clients)
            wants = info.subscriptions != before
        if wants:
            self.on_registered(consumer.group, consumer.subscriptions)
        if changed and notify:
            self.on_changed(consumer.group, channels)

    def unregister(self, group: str, channel: Channel, *, notify: bool) -> None:
        """Forget a client in one group."""
        with self._lock:
            info = self._groups.get(group)
            if info is None or channel not in info.clients:
                return
            info.clients = {each: client for each, client in info.clients.items() if each is not channel}
            if not info.clients:
                del self._groups[group]
            channels = list(info.clients)
        if not channels:
            self.on_gone(group)
        elif notify:
            self.on_changed(group, channels)

    def close(self, channel: Channel) -> None:
        """Forget the client of a connection that has ended, in all groups; the others are told."""
        with self._lock:
            groups = [name for name, info in self._groups.items() if channel in info.clients]
        for group in groups:
            self.unregister(group, channel, notify=True)

    def close_expired(self) -> int:
        """Forget the clients that have been silent for too long, and end their connections; return how many."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            expired = {
                channel: None
                for info in self._groups.values()
                for channel, client in info.clients.items()
                if client.is_expired(now_ns)
            }
        for channel in expired:
            channel.close()
            self.close(channel)
        return len(expired)


def _newer(known: dict[str, SubscriptionData], said: SubscriptionData) -> SubscriptionData:
    """Return what counts of a subscription: the one said last, unless the other is newer."""
    before = known.get(said.topic)
    return said if before is None or said.version > before.version else before


def _nobody(group: str, channels: Iterable[Channel]) -> None:
    """Do nothing."""


def _nobody_subscribes(group: str, subscriptions: tuple[SubscriptionData, ...]) -> None:
    """Do nothing."""


def _nobody_goes(group: str) -> None:
    """Do nothing."""

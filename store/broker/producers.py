"""Who produces for which group, so that a group can be asked about its transactions: RocketMQ's ProducerManager.

Source: RocketMQ ProducerManager.
"""

from collections.abc import Mapping

from ..world import World
from .channel import Channel
from .clients import ClientChannelInfo


class ProducerManager:
    """All groups. Any task may call it."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._lock = world.tasks.lock("producers")
        self._groups: dict[str, dict[Channel, ClientChannelInfo]] = {}
        self._turn = 0

    def clients(self, group: str) -> list[ClientChannelInfo]:
        """Return a group's members, in order of arrival."""
        with self._lock:
            return list(self._groups.get(group, {}).values())

    @property
    def groups(self) -> Mapping[str, list[ClientChannelInfo]]:
        """Return all groups, in order of the alphabet, with their members."""
        with self._lock:
            return {group: list(clients.values()) for group, clients in sorted(self._groups.items())}

    def available_channel(self, group: str) -> Channel | None:
        """Return the connection of a member that can be asked something: each in its turn. None if there is none."""
        with self._lock:
            channels = [channel for channel in self._groups.get(group, {}) if channel.is_open]
            if not channels:
                return None
            self._turn += 1
            return channels[self._turn % len(channels)]

    def find_channel(self, client_id: str) -> Channel | None:
        """Return the connection of a client, the newest if there are several; None if it is not known."""
        with self._lock:
            found = [
                client.channel
                for clients in self._groups.values()
                for client in clients.values()
                if client.client_id == client_id and client.channel.is_open
            ]
        return found[-1] if found else None

    def register(self, group: str, client: ClientChannelInfo) -> None:
        """Note what a heartbeat says of one group."""
        with self._lock:
            clients = self._groups.setdefault(group, {})
            known = clients.get(client.channel)
            if known is None or known.client_id != client.client_id:
                clients[client.channel] = client
            else:
                known.heartbeat_ns = client.heartbeat_ns

    def unregister(self, group: str, channel: Channel) -> None:
        """Forget a client in one group."""
        with self._lock:
            self._forget(group, channel)

    def close(self, channel: Channel) -> None:
        """Forget the client of a connection that has ended, in all groups."""
        with self._lock:
            for group in list(self._groups):
                self._forget(group, channel)

    def _forget(self, group: str, channel: Channel) -> None:
        clients = self._groups.get(group, {})
        if clients.pop(channel, None) is not None and not clients:
            del self._groups[group]

    def close_expired(self) -> int:
        """Forget the clients that have been silent for too long, and end their connections; return how many."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            expired = {
                channel: None
                for clients in self._groups.values()
                for channel, client in clients.items()
                if client.is_expired(now_ns)
            }
        for channel in expired:
            channel.close()
            self.close(channel)
        return len(expired)

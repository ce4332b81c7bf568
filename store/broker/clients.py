"""Clients by the connection they came over: what producers and consumers of a group have in common.

Source: RocketMQ ClientChannelInfo, Connection.
"""

from dataclasses import dataclass
from typing import Any

from ..formats.remoting.command import LANGUAGES, OTHER_LANGUAGE, RemotingCommand
from .channel import Channel

CHANNEL_EXPIRED_MS = 120_000
"""After so long without a heartbeat a client counts as dead, and its connection is closed."""
_NS_PER_MS = 1_000_000


@dataclass(slots=True, eq=False)
class ClientChannelInfo:
    """One client over one connection."""

    channel: Channel
    client_id: str
    language: int
    version: int
    heartbeat_ns: int
    """When it was last heard of, by the monotonic clock."""

    @classmethod
    def of(
        cls, channel: Channel, client_id: str, request: RemotingCommand, now_ns: int
    ) -> "ClientChannelInfo":
        """Return who sent a request."""
        return cls(channel, client_id, request.language, request.version, now_ns)

    def is_expired(self, now_ns: int) -> bool:
        """Return whether it has been silent for too long."""
        return now_ns - self.heartbeat_ns > CHANNEL_EXPIRED_MS * _NS_PER_MS

    @property
    def members(self) -> dict[str, Any]:
        """Return it as an object."""
        known = 0 <= self.language < len(LANGUAGES)
        return {
            "clientAddr": self.channel.remote_address,
            "clientId": self.client_id,
            "language": LANGUAGES[self.language if known else OTHER_LANGUAGE],
            "version": self.version,
        }

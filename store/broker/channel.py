"""The joint between the server, which moves frames, and the processors, which know what they mean.

The server calls a processor in a task of the processor's pool, so a processor may wait: for a sync, for a slave.
"""

from collections.abc import Callable
from typing import Protocol

from ..formats.remoting.command import RemotingCommand


class Channel(Protocol):
    """One client's connection, as processors see it. Any task may use it."""

    @property
    def remote_address(self) -> str:
        """Return the client as `host:port`."""

    @property
    def local_address(self) -> str:
        """Return what the client has connected to, as `host:port`."""

    @property
    def is_open(self) -> bool:
        """Return whether anything can still be sent."""

    def send(self, command: RemotingCommand) -> bool:
        """Have a command sent, never waiting; False if it never will be: closed, or the client does not read."""

    def close(self) -> None:
        """End the connection."""


Processor = Callable[[RemotingCommand, Channel], RemotingCommand | None]
"""Answers one request. None: nothing to answer now; a held pull is answered later by `channel.send`.

What it raises becomes SYSTEM_ERROR with the text of the exception. A one-way request's answer is dropped.
"""

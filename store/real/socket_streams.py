"""What a connection's bytes go through on their way between a program and a socket: nothing, or TLS.

Nothing here waits: what would have to raises BlockingIOError. One thread at a time calls a stream.
"""

import socket
from typing import Protocol


class ByteStream(Protocol):
    """Both directions of one connection."""

    @property
    def holds_bytes(self) -> bool:
        """Return whether bytes that have come may be held here, where no waiting on the socket finds them."""

    @property
    def owes_bytes(self) -> bool:
        """Return whether something, of a handshake say, is held here until the socket has room."""

    def receive(self, carrier: socket.socket, bytes_max: int) -> bytes:
        """Return what has come, b"" at the end of the other's stream."""

    def send(self, carrier: socket.socket, data: memoryview) -> int:
        """Take bytes; return how many, at least one."""

    def flush(self, carrier: socket.socket) -> None:
        """Hand over what is owed, as much as the socket has room for."""

    def end(self, carrier: socket.socket) -> None:
        """Say goodbye, where there is a word for it."""


class PlainStream:
    """Bytes as they are."""

    __slots__ = ()

    holds_bytes = False
    owes_bytes = False

    def receive(self, carrier: socket.socket, bytes_max: int) -> bytes:
        """Return what has come, b"" at the end of the other's stream."""
        return carrier.recv(bytes_max)

    def send(self, carrier: socket.socket, data: memoryview) -> int:
        """Take bytes; return how many, at least one."""
        return carrier.send(data)

    def flush(self, carrier: socket.socket) -> None:
        """Owe nothing."""

    def end(self, carrier: socket.socket) -> None:
        """Let the socket's end say it."""

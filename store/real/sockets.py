"""Socket basics: addresses, byte streams over a socket, shared sockets.

Streams never block: they raise BlockingIOError instead. A stream is not thread-safe. A shared socket closes its
descriptor after its last user has left. With an earlier close, a new socket could get the same number, and a thread
that waits on the number would read from another connection.
"""

import errno
import fcntl
import os
import select
import socket
import threading
import time
from contextlib import suppress
from typing import Protocol

from ..network import bracket_ipv6

_PORT_MAX = 65_535


SocketAddress = tuple[socket.AddressFamily, tuple[str | int | bytes, ...]]
"""Address family, and address argument of bind and connect."""


def split_address(address: str) -> tuple[str, int]:
    """Parse `host:port`. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address: expected an IPv6 host in brackets, found {address!r}")
    is_port = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
    if not colon or not host or not is_port:
        raise ValueError(f"address: expected host:port with a port up to {_PORT_MAX}, found {address!r}")
    return host, int(port)


def join_address(place: tuple[str | int, ...]) -> str:
    """Return `host:port` of a result of getsockname, getpeername or accept."""
    host, port = str(place[0]), place[1]
    return f"{bracket_ipv6(host)}:{port}"


def find_addresses(address: str) -> list[SocketAddress]:
    """Return all addresses of `host:port`, the resolver's preferred one first.

    Raises OSError (socket.gaierror) for an unknown host. The look-up has no timeout.
    """
    host, port = split_address(address)
    found = [(each[0], each[4]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    internet = (socket.AF_INET, socket.AF_INET6)
    return [(family, (str(at[0]), *at[1:])) for family, at in found if family in internet]


def grow_descriptor_table(count: int) -> None:
    """Make the kernel enlarge this process's descriptor table to count entries.

    Otherwise the kernel doubles the table as connections arrive. In a process with threads, such an `accept` waits
    until no processor uses the old table: up to 120 ms on two busy processors.
    """
    assert count > 0, count
    with open(os.devnull, "rb") as lowest:
        os.close(fcntl.fcntl(lowest, fcntl.F_DUPFD_CLOEXEC, count - 1))


class ByteStream(Protocol):
    """Byte streams in both directions of a connection."""

    @property
    def has_unread_bytes(self) -> bool:
        """Whether the stream's buffer may have received bytes. A poll of the socket does not report buffered bytes."""

    @property
    def has_unsent_bytes(self) -> bool:
        """Whether the stream has bytes to send, such as a handshake, that did not fit into the socket."""

    def receive(self, carrier: socket.socket, bytes_max: int) -> bytes:
        """Return received bytes, b"" at the end of the peer's stream."""

    def send(self, carrier: socket.socket, data: memoryview) -> int:
        """Return the number of sent bytes, at least one."""

    def flush(self, carrier: socket.socket) -> None:
        """Send as many pending bytes as the socket accepts."""

    def end_sending(self, carrier: socket.socket) -> None:
        """Send the end message of the stream's protocol, if there is one."""


class PlainStream:
    """A stream without encryption."""

    __slots__ = ()

    has_unread_bytes = False
    has_unsent_bytes = False

    def receive(self, carrier: socket.socket, bytes_max: int) -> bytes:
        return carrier.recv(bytes_max)

    def send(self, carrier: socket.socket, data: memoryview) -> int:
        return carrier.send(data)

    def flush(self, carrier: socket.socket) -> None:
        """No-op: plain text is never buffered."""

    def end_sending(self, carrier: socket.socket) -> None:
        """No-op: plain text has no end message."""


class SharedSocket:
    """A non-blocking socket. Its users enter `with` blocks, which raise ConnectionError after a close.

    Invariant: the descriptor is open until `close` is called and all users have left.
    """

    __slots__ = ("_is_closed", "_lock", "_socket", "_users", "descriptor")

    def __init__(self, opened: socket.socket) -> None:
        opened.setblocking(False)
        self.descriptor = opened.fileno()
        self._socket = opened
        self._lock = threading.Lock()
        self._users = 0
        self._is_closed = False

    def __enter__(self) -> socket.socket:
        with self._lock:
            if self._is_closed:
                self.check_open()
            self._users += 1
        return self._socket

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            assert self._users >= 0, self._users
            is_last = self._is_closed and not self._users
        if is_last:
            self._socket.close()

    def check_open(self) -> None:
        if self._is_closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, "closed by this process")

    def close(self) -> None:
        """Reject new users, and wake up waiting users."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._users += 1  # count this call as a user, so that the descriptor stays open until the shutdown below
        with suppress(OSError):  # the socket is not connected
            self._socket.shutdown(socket.SHUT_RDWR)
        self.__exit__()


class Deadline:
    """The time at which a wait ends; None: never."""

    __slots__ = ("_due_ns",)

    def __init__(self, timeout_ms: int | None) -> None:
        self._due_ns = None if timeout_ms is None else time.monotonic_ns() + timeout_ms * 1_000_000

    def wait(self, descriptor: int, events: int) -> None:
        """Wait until poll reports an event or an error. Raises TimeoutError."""
        left_ms: float | None = None
        if self._due_ns is not None:
            left_ms = (self._due_ns - time.monotonic_ns()) / 1_000_000
            if left_ms <= 0:
                raise TimeoutError("no data in time")
        waiter = select.poll()
        waiter.register(descriptor, events)
        waiter.poll(left_ms)

"""Socket basics: addresses, byte streams over a socket (plain here, TLS in `tls`), and sockets that threads share.

Nothing a stream does waits: what would have to raises BlockingIOError. One thread at a time calls a stream. A shared
socket's number is given back to the system when no thread uses it any more: a closed descriptor's number goes to the
next socket that is made, and a thread that still waits on it would then wait on, or read from, another connection.
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

from ..network import in_brackets

_PORT_MAX = 65_535


SocketAddress = tuple[socket.AddressFamily, tuple[str | int | bytes, ...]]
"""The family of one place that a name leads to, and what bind and connect take."""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`. ValueError if it is nothing of the kind."""
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
    """Return `host:port` of what getsockname, getpeername and accept give."""
    host, port = str(place[0]), place[1]
    return f"{in_brackets(host)}:{port}"


def find_addresses(address: str) -> list[SocketAddress]:
    """Return all that `host:port` leads to, in the system's order of preference; names are looked up.

    Raises OSError (socket.gaierror) if there is no such host. A look-up takes as long as the system lets it.
    """
    host, port = split_address(address)
    found = [(each[0], each[4]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    internet = (socket.AF_INET, socket.AF_INET6)
    return [(family, (str(at[0]), *at[1:])) for family, at in found if family in internet]


def grow_descriptor_table(count: int) -> None:
    """Have the kernel make the process's table of descriptors large enough for so many.

    Otherwise it doubles the table as connections come, and where there are threads, the task that accepts waits each
    time until no processor uses the old table: up to 120 ms on two busy ones.
    """
    assert count > 0, count
    with open(os.devnull, "rb") as lowest:
        os.close(fcntl.fcntl(lowest, fcntl.F_DUPFD_CLOEXEC, count - 1))


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


class SharedSocket:
    """One socket that never blocks; to be used in `with` blocks, which raise ConnectionError once it is closed.

    Invariant: the descriptor is open while anyone is inside, or while it is not closed.
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
            self.check_open()
            self._users += 1
        return self._socket

    def __exit__(self, *_: object) -> None:
        self._leave()

    def check_open(self) -> None:
        """Raise ConnectionError if it is closed."""
        if self._is_closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, "closed at this end")

    def close(self) -> None:
        """Close it: nobody gets in any more, and who waits inside is woken."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._users += 1  # this call counts as a user, so the descriptor stays open until the shutdown below
        with suppress(OSError):  # it is not connected, or not any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            assert self._users >= 0, self._users
            is_last = self._is_closed and not self._users
        if is_last:
            self._socket.close()


class Deadline:
    """Until when somebody waits; None: for ever."""

    __slots__ = ("_due_ns",)

    def __init__(self, timeout_ms: int | None) -> None:
        self._due_ns = None if timeout_ms is None else time.monotonic_ns() + timeout_ms * 1_000_000

    def wait(self, descriptor: int, events: int) -> None:
        """Wait until one of poll's events is there, or an error. TimeoutError when time is up."""
        left_ms: float | None = None
        if self._due_ns is not None:
            left_ms = (self._due_ns - time.monotonic_ns()) / 1_000_000
            if left_ms <= 0:
                raise TimeoutError("nothing came in time")
        waiter = select.poll()
        waiter.register(descriptor, events)
        waiter.poll(left_ms)

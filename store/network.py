"""Network protocol of the store: byte streams, and a poller for many.

No call blocks longer than its timeout. Bytes that `send` took arrive in order or the connection breaks. The protocol
does not say when they arrive, or whether the peer has read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of a listening socket and of the connections it accepts. Linux doubles both buffer sizes."""

    backlog: int = 4096
    """Connections that may wait for accept."""
    send_buffer_bytes: int = 128 * 1024
    """Per connection; RocketMQ uses 64 KiB.

    By default Linux gives 4 MiB to a client that never reads, and a few hundred of those exhaust the memory of a
    machine for TCP.
    """
    receive_buffer_bytes: int = 0
    """Per connection, before a task receives; 0: the system chooses."""


def in_brackets(host: str) -> str:
    """Return a host as written before a port: an IPv6 address in brackets.

    >>> in_brackets("::1"), in_brackets("[::1]"), in_brackets("127.0.0.1")
    ('[::1]', '[::1]', '127.0.0.1')
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class Connection(Protocol):
    """One stream in each direction between two ends."""

    @property
    def local_address(self) -> str:
        """Return this end as `host:port`, an IPv6 host in brackets."""

    @property
    def remote_address(self) -> str:
        """Return the other end as `host:port`."""

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        """Return 1 to bytes_max received bytes; b"" after the end of the peer's stream.

        Waits for timeout_ms (None: for ever), then TimeoutError; 0 does not wait. ConnectionError if the connection
        broke or this end was closed meanwhile.
        """

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Send bytes; return how many the network took, at least one. Waits and fails like receive.

        After a TimeoutError none was taken, but the next send must begin with the same bytes: encryption may have
        begun.
        """

    def close(self) -> None:
        """Close this end. Bytes already sent are still delivered, and waiting tasks wake up. May be called again."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def address(self) -> str:
        """Return `host:port`, with the assigned port if 0 was requested."""

    def accept(self, timeout_ms: int | None) -> Connection:
        """Return the next connection. TimeoutError after timeout_ms, ConnectionError once it is closed."""

    def close(self) -> None:
        """Stop accepting and wake waiting tasks. May be called again."""


Ready = tuple[Connection | Listener, bool, bool]
"""A ready connection or listener; whether receive (or accept) has bytes, the end or an error; whether send has room or
an error.
"""


class Poller(Protocol):
    """Waits for many connections at once. One task waits; any task may call the other methods."""

    def watch(self, what: Connection | Listener, *, receives: bool, sends: bool) -> None:
        """Watch an object, or change the operations of interest. With neither it stays known but is not waited for."""

    def forget(self, what: Connection | Listener) -> None:
        """Stop watching; call it before closing the object. No effect if it is not watched."""

    def wait(self, timeout_ms: int | None) -> Sequence[Ready]:
        """Return the ready objects in the order of first watching; empty after timeout_ms or a wake.

        A ready object may still give no data (half a TLS record, for example): use it with a timeout of 0.
        """

    def wake(self) -> None:
        """Make the present or next wait return."""

    def close(self) -> None:
        """Release it. The watched objects stay open."""


class Network(Protocol):
    """The source of a machine's connections."""

    def listen(self, address: str) -> Listener:
        """Listen at `host:port`. OSError: EADDRINUSE, EADDRNOTAVAIL, EACCES."""

    def connect(self, address: str, timeout_ms: int) -> Connection:
        """Connect. TimeoutError without an answer in time; ConnectionRefusedError or another OSError at once."""

    def poller(self) -> Poller:
        """Make a poller."""


def send_all(connection: Connection, data: bytes | memoryview, timeout_ms: int) -> None:
    """Send all of data. TimeoutError without progress for timeout_ms, ConnectionError if broken."""
    left = memoryview(data)
    while left:
        taken = connection.send(left, timeout_ms)
        assert 0 < taken <= len(left), (taken, len(left))
        left = left[taken:]

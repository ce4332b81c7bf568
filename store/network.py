"""Network protocol of the store: byte streams, and a poller for many.

No call blocks longer than its timeout. Sent bytes arrive in order, or the connection breaks. A sender does not know
when sent bytes arrive or whether the peer has read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of a listening socket and of the connections that the socket accepts. Linux doubles both buffer sizes."""

    backlog: int = 4096
    """Maximum number of connections that wait for `accept`."""
    send_buffer_bytes: int = 128 * 1024
    """Per connection; RocketMQ uses 64 KiB.

    Linux's default of 4 MiB for a client that never reads would let a few hundred such clients exhaust a machine's
    TCP memory.
    """
    receive_buffer_bytes: int = 0
    """Per connection; 0: the operating system chooses."""


def bracket_ipv6(host: str) -> str:
    """Return a host as written before a port: an IPv6 address in brackets.

    >>> bracket_ipv6("::1"), bracket_ipv6("[::1]"), bracket_ipv6("127.0.0.1")
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

        Raises TimeoutError after timeout_ms (None: no timeout, 0: no wait), ConnectionError if the connection broke or
        this end was closed.
        """

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Send bytes. Return the number of sent bytes, at least one. Timeout and errors as for `receive`.

        After a TimeoutError no byte counts as sent, but the next send must begin with the same bytes, because they may
        be encrypted already.
        """

    def close(self) -> None:
        """Close this end. Sent bytes are still delivered, and waiting tasks wake up. Later calls have no effect."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def address(self) -> str:
        """Return `host:port`, with the assigned port if 0 was requested."""

    def accept(self, timeout_ms: int | None) -> Connection:
        """Return the next connection.

        Raises TimeoutError after timeout_ms, ConnectionError if the listener is closed.
        """

    def close(self) -> None:
        """Stop listening and wake waiting tasks. Later calls have no effect."""


ReadyEndpoint = tuple[Connection | Listener, bool, bool]
"""A connection or listener; whether `receive` (or `accept`) would not wait; whether `send` would not wait."""


class Poller(Protocol):
    """Waits for many connections at once. One task waits; any task may call the other methods."""

    def watch(self, what: Connection | Listener, *, receives: bool, sends: bool) -> None:
        """Watch an object, or change which operations to wait for.

        An object watched for no operation keeps its place in the order.
        """

    def forget(self, what: Connection | Listener) -> None:
        """Stop watching an object; call this before the object is closed. No effect if the object is not watched."""

    def wait(self, timeout_ms: int | None) -> Sequence[ReadyEndpoint]:
        """Return the ready objects in the order of first watching; none after timeout_ms or `wake`.

        A ready object may still have no data, for example after half a TLS record: use it with a timeout of 0."""

    def wake(self) -> None:
        """Make the current or next wait return."""

    def close(self) -> None:
        """Stop watching all objects. The objects stay open."""


class Network(Protocol):
    """The source of a machine's connections."""

    def listen(self, address: str) -> Listener:
        """Listen at `host:port`. OSError: EADDRINUSE, EADDRNOTAVAIL, EACCES."""

    def connect(self, address: str, timeout_ms: int) -> Connection:
        """Connect. Raises TimeoutError if there is no answer in time, ConnectionRefusedError or another OSError."""

    def poller(self) -> Poller: ...


def send_all(connection: Connection, data: bytes | memoryview, timeout_ms: int) -> None:
    """Raises TimeoutError after timeout_ms without progress, ConnectionError if the connection breaks."""
    left = memoryview(data)
    while left:
        taken = connection.send(left, timeout_ms)
        assert 0 < taken <= len(left), (taken, len(left))
        left = left[taken:]

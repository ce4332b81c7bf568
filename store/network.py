"""Network protocol of the store: byte streams, and a poller for many streams.

No call blocks longer than its timeout. Sent bytes arrive in order, or the connection breaks. A sender does not know
when or whether the peer reads the bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of a listening socket and its accepted connections. Linux doubles both buffer sizes."""

    backlog: int = 4096
    """Maximum number of connections that wait for `accept`."""
    send_buffer_bytes: int = 128 * 1024
    """Send buffer per connection. RocketMQ uses 64 KiB.

    With Linux's default of 4 MiB, a few hundred clients that never read would exhaust the machine's TCP memory.
    """
    receive_buffer_bytes: int = 0
    """Receive buffer per connection; 0: the operating system chooses."""


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

        After a TimeoutError no byte counts as sent, but the next send must begin with the same bytes, because TLS may
        have encrypted them.
        """

    def close(self) -> None:
        """Close this end, and wake waiting tasks. Sent bytes are still delivered. Later calls have no effect."""


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
"""(connection or listener, whether `receive` or `accept` would return at once, whether `send` would return at once)."""


class Poller(Protocol):
    """Waits for many connections at once. One task may call `wait`, any task the other methods."""

    def watch(self, what: Connection | Listener, *, receives: bool, sends: bool) -> None:
        """Watch an object, or change which operations to wait for.

        An object that is watched for no operation keeps its position in the order.
        """

    def forget(self, what: Connection | Listener) -> None:
        """Stop watching an object, if it is watched. Call this before closing the object."""

    def wait(self, timeout_ms: int | None) -> Sequence[ReadyEndpoint]:
        """Return the ready objects in the order of their first `watch`; none after timeout_ms or `wake`.

        A ready object may still lack data, for example after half a TLS record, so use a timeout of 0.
        """

    def wake(self) -> None:
        """Make the current or next wait return."""

    def close(self) -> None:
        """Stop watching all objects. The objects stay open."""


class Network(Protocol):
    """Makes a machine's connections."""

    def listen(self, address: str) -> Listener:
        """Listen at `host:port`. OSError: EADDRINUSE, EADDRNOTAVAIL, EACCES."""

    def connect(self, address: str, timeout_ms: int) -> Connection:
        """Connect. Raises TimeoutError without an answer in time, ConnectionRefusedError or another OSError."""

    def poller(self) -> Poller: ...


def send_all(connection: Connection, data: bytes | memoryview, timeout_ms: int) -> None:
    """Send all bytes. Raises TimeoutError after timeout_ms without progress, ConnectionError at a break."""
    unsent = memoryview(data)
    while unsent:
        sent_bytes = connection.send(unsent, timeout_ms)
        assert 0 < sent_bytes <= len(unsent), (sent_bytes, len(unsent))
        unsent = unsent[sent_bytes:]

"""Network protocol of the store: streams of bytes between `host:port`s, and a poller that waits for many of them.

Nothing here blocks longer than its time-out, and nothing is lost but by an error: what `send` took arrives in order,
or the connection breaks. It says nothing about when, nor whether the other side has seen what was taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Options of a listening socket, and of the connections that it accepts. Linux doubles both buffer sizes."""

    backlog: int = 4096
    """Connections that were made and are not accepted yet."""
    send_buffer_bytes: int = 128 * 1024
    """Of each connection; RocketMQ's is 64 KiB. By default Linux gives 4 MiB to a client that never reads, and a few
    hundred of those exhaust the memory that a machine has for TCP."""
    receive_buffer_bytes: int = 0
    """Of each connection, before a task receives; 0: the system chooses."""


def in_brackets(host: str) -> str:
    """Return a host as it stands before a port: an IPv6 one in brackets.

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
        """Return what has come, at least a byte and at most bytes_max; b"" once the other end has ended its stream.

        Waits for timeout_ms (None: for ever), then TimeoutError; 0 does not wait. ConnectionError if it is broken,
        also when it was closed at this end meanwhile.
        """

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Hand bytes to the network; return how many it took, at least one. Waits, and fails, as receive does.

        After a TimeoutError none was taken, but what is sent next begins with the same bytes: a cipher may have begun.
        """

    def close(self) -> None:
        """Give it up: what was taken is still delivered, whoever waits on it is woken. May be called again."""


class Listener(Protocol):
    """Where others connect to."""

    @property
    def address(self) -> str:
        """Return `host:port`, with the port that was given where 0 was asked for."""

    def accept(self, timeout_ms: int | None) -> Connection:
        """Return the next connection. TimeoutError after timeout_ms, ConnectionError once it is closed."""

    def close(self) -> None:
        """Accept no more, and end whoever waits. May be called again."""


Ready = tuple[Connection | Listener, bool, bool]
"""One connection or listener that need not be waited for; whether receive (or accept) has something to tell: bytes, an
end, an error; and whether send has room, or an error to raise."""


class Poller(Protocol):
    """Waits for many connections at once. One task waits; any task may call the others."""

    def watch(self, what: Connection | Listener, *, receives: bool, sends: bool) -> None:
        """Wait for this too, or for something else of it than before; with neither it is kept but not waited for."""

    def forget(self, what: Connection | Listener) -> None:
        """Wait for it no more. To be called before it is closed; nothing happens if it is not watched."""

    def wait(self, timeout_ms: int | None) -> Sequence[Ready]:
        """Return what is ready, in the order it was first watched; nothing after timeout_ms, or when woken.

        What is said to be ready may still have nothing to give (half a TLS record, say): use it with a timeout of 0.
        """

    def wake(self) -> None:
        """Have the wait that is under way, or else the next one, return."""

    def close(self) -> None:
        """Give it back. What it watched stays open."""


class Network(Protocol):
    """Where a machine's connections come from."""

    def listen(self, address: str) -> Listener:
        """Listen at `host:port`. OSError (EADDRINUSE, EADDRNOTAVAIL, EACCES) if that cannot be."""

    def connect(self, address: str, timeout_ms: int) -> Connection:
        """Connect. TimeoutError if nobody answers in time, ConnectionRefusedError or another OSError at once."""

    def poller(self) -> Poller:
        """Make a poller."""


def send_all(connection: Connection, data: bytes | memoryview, timeout_ms: int) -> None:
    """Hand all of data to the network. TimeoutError if it takes nothing for timeout_ms, ConnectionError if broken."""
    left = memoryview(data)
    while left:
        left = left[connection.send(left, timeout_ms) :]

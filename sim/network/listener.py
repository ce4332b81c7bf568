"""Listeners and pollers: wait for new connections, or for events of many connections."""

import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..machine import Machine, WaitGate
from .connection import SimConnection
from .medium import NetworkMedium, earliest_time_ns

BACKLOG = 128  # SOMAXCONN of Linux before 5.4, to which listen(2) silently limits the backlog


class SimListener:
    """A listening port, and its connections that are not accepted yet. `release_port` frees the port."""

    __slots__ = (
        *("_release_port", "_machine", "_medium", "_waiting", "address", "closed", "gate", "is_loopback"),
        "watchers",
    )

    def __init__(
        self,
        medium: NetworkMedium,
        machine: Machine,
        address: str,
        release_port: Callable[[], object],
        is_loopback: bool,
    ) -> None:
        self.address = address
        self.is_loopback = is_loopback
        self.closed = False
        self.gate = WaitGate(medium.kernel, f"accept {address}")
        self.watchers: list[WaitGate] = []
        self._medium = medium
        self._machine = machine
        self._release_port = release_port
        self._waiting: deque[SimConnection] = deque()

    def accept(self, timeout_ms: int | None) -> SimConnection:
        """Return the next connection.

        If the link conditions make the accept fail, closes the connection, as `store.real` does, and raises
        OSError(EMFILE).
        """
        medium = self._medium
        medium.pass_scheduling_point(self._machine, self.gate.label)
        due_ns = medium.due_ns(timeout_ms)
        while not self._waiting:
            if self.closed:
                raise ConnectionAbortedError(errno.ECONNABORTED, f"{self.address}: closed")
            if due_ns is not None and due_ns <= medium.kernel.now_ns:
                raise TimeoutError(errno.ETIMEDOUT, f"{self.address}: no connection in time")
            self.gate.wait(due_ns)
        connection = self._waiting.popleft()
        if medium.conditions.fails_accept(self._machine.name):
            medium.record_event("failed accept", connection.label, b"")
            connection.end_stream()
            raise OSError(errno.EMFILE, f"{self.address}: Too many open files")
        medium.record_event("accept", connection.label, b"")
        return connection

    def close(self) -> None:
        self._medium.pass_scheduling_point(self._machine, f"close {self.address}")
        if not self.closed:
            self._medium.record_event("close", self.address, b"")
            self.stop_listening()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < BACKLOG

    @property
    def receives(self) -> bool:
        return self.closed or bool(self._waiting)

    @property
    def sends(self) -> bool:
        return self.closed

    def next_ns(self, *, receives: bool) -> None:
        """Return None, because a listener changes only by calls of tasks."""

    def queue_connection(self, connection: SimConnection) -> None:
        assert not self.closed, self.address
        assert self.has_room, len(self._waiting)
        self._waiting.append(connection)
        self._wake_waiters()

    def stop_listening(self) -> None:
        self.closed = True
        self._release_port()
        for connection in self._waiting:
            connection.closed = True
            connection.reset()
        self._waiting.clear()
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self.gate.open()
        for watcher in self.watchers:
            watcher.open()


class ReadyEndpoint(NamedTuple):
    """A ready connection or listener, and its ready operations."""

    what: SimConnection | SimListener
    receives: bool
    sends: bool


class SimPoller:
    """A poller of connections and listeners. Every call except close is a scheduling point.

    Invariant: `_watched` is in the order of the first `watch`, and each key opens the gate when it changes.
    """

    __slots__ = ("_gate", "_is_woken", "_machine", "_medium", "_watched")

    def __init__(self, medium: NetworkMedium, machine: Machine, label: str) -> None:
        self._medium = medium
        self._machine = machine
        self._gate = WaitGate(medium.kernel, label)
        self._watched: dict[SimConnection | SimListener, tuple[bool, bool]] = {}
        self._is_woken = False

    def watch(self, what: object, *, receives: bool, sends: bool) -> None:
        """Watch an object, or change its operations. Without operations it keeps its position."""
        assert isinstance(what, SimConnection | SimListener), what
        self._medium.pass_scheduling_point(self._machine, f"watch {self._gate.label}")
        if what not in self._watched:
            assert self._gate not in what.watchers, self._gate.label
            what.watchers.append(self._gate)
        self._watched[what] = (receives, sends)
        self._gate.open()

    def forget(self, what: object) -> None:
        assert isinstance(what, SimConnection | SimListener), what
        self._medium.pass_scheduling_point(self._machine, f"forget {self._gate.label}")
        self._remove_watched(what)

    def wait(self, timeout_ms: int | None) -> Sequence[ReadyEndpoint]:
        """Return ready objects in the order of their first `watch`; none after timeout_ms or `wake`.

        Raises OSError(EBADF) if the link conditions make the poll fail.
        """
        medium = self._medium
        medium.pass_scheduling_point(self._machine, self._gate.label)
        if medium.conditions.fails_poll(self._machine.name):
            raise OSError(errno.EBADF, f"{self._gate.label}: Bad file descriptor")
        due_ns = medium.due_ns(timeout_ms)
        while True:
            ready = self._find_ready_endpoints()
            is_over = due_ns is not None and due_ns <= medium.kernel.now_ns
            if ready or self._is_woken or is_over:
                self._is_woken = False
                return ready
            watched = self._watched.items()
            times_ns = [what.next_ns(receives=receives) for what, (receives, sends) in watched if receives or sends]
            self._gate.wait(earliest_time_ns([due_ns, *times_ns]))

    def wake(self) -> None:
        self._medium.pass_scheduling_point(self._machine, f"wake {self._gate.label}")
        self._is_woken = True
        self._gate.open()

    def close(self) -> None:
        for what in list(self._watched):
            self._remove_watched(what)

    def _find_ready_endpoints(self) -> list[ReadyEndpoint]:
        found = []
        for what, (wants_to_receive, wants_to_send) in self._watched.items():
            receives, sends = wants_to_receive and what.receives, wants_to_send and what.sends
            if receives or sends:
                found.append(ReadyEndpoint(what, receives, sends))
        return found

    def _remove_watched(self, what: SimConnection | SimListener) -> None:
        if what in self._watched:
            del self._watched[what]
            what.watchers.remove(self._gate)

"""Where a simulated host is connected to."""

import errno
from collections import deque
from collections.abc import Callable

from ..machine import Machine
from .connection import SimConnection
from .gate import Gate
from .medium import Medium

BACKLOG = 128


class SimListener:
    """One port of one machine, and the connections that nobody has accepted yet. give_back frees the port."""

    __slots__ = (
        "_give_back",
        "_machine",
        "_medium",
        "_waiting",
        "address",
        "closed",
        "gate",
        "is_loopback",
        "watchers",
    )

    def __init__(
        self,
        medium: Medium,
        machine: Machine,
        address: str,
        give_back: Callable[[], None],
        *,
        is_loopback: bool,
    ) -> None:
        self.address = address
        self.is_loopback = is_loopback
        """Whether only the host itself may connect."""
        self.closed = False
        self.gate = Gate(medium.kernel, f"accept {address}")
        self.watchers: list[Callable[[], None]] = []
        self._medium = medium
        self._machine = machine
        self._give_back = give_back
        self._waiting: deque[SimConnection] = deque()

    def accept(self, timeout_ms: int | None) -> SimConnection:
        """Return the next connection. TimeoutError after timeout_ms, ConnectionError once it is closed."""
        medium = self._medium
        medium.pass_point(self._machine, self.gate.label)
        due_ns = medium.due_ns(timeout_ms)
        while not self._waiting:
            if self.closed:
                raise ConnectionAbortedError(errno.ECONNABORTED, f"{self.address}: closed")
            if due_ns is not None and due_ns <= medium.kernel.now_ns:
                raise TimeoutError(errno.ETIMEDOUT, f"{self.address}: nobody came in time")
            self.gate.wait(due_ns)
        connection = self._waiting.popleft()
        medium.note("accept", connection.label, b"")
        return connection

    def close(self) -> None:
        """Accept no more, and end whoever waits. May be called again."""
        self._medium.pass_point(self._machine, f"close {self.address}")
        if not self.closed:
            self._medium.note("close", self.address, b"")
            self.end()

    @property
    def has_room(self) -> bool:
        """Return whether another connection may wait to be accepted."""
        return len(self._waiting) < BACKLOG

    @property
    def receives(self) -> bool:
        """Return whether accept has something to tell now."""
        return self.closed or bool(self._waiting)

    @property
    def sends(self) -> bool:
        """Return whether it is closed; nothing is sent over it."""
        return self.closed

    def next_ns(self, *, receives: bool) -> None:
        """Return None: it changes when somebody changes it."""

    def offer(self, connection: SimConnection) -> None:
        """Have a connection wait to be accepted."""
        self._waiting.append(connection)
        self._changed()

    def end(self) -> None:
        """Listen no more; connections that were not accepted are reset."""
        self.closed = True
        self._give_back()
        for connection in self._waiting:
            connection.closed = True
            connection.break_off()
        self._waiting.clear()
        self._changed()

    def _changed(self) -> None:
        self.gate.open()
        for watcher in self.watchers:
            watcher()

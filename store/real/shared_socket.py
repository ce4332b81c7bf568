"""A socket that several threads use. Its number is given back to the system when nobody uses it any more.

A closed descriptor's number goes to the next socket that is made; a thread that still waits on it would then wait on,
or read from, somebody else's connection.
"""

import errno
import select
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
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
            self._users += 1
        with suppress(OSError):  # it is not connected, or not any more
            self._socket.shutdown(socket.SHUT_RDWR)
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
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

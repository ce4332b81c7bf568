"""Where others connect to: a listening socket that survives running out of descriptors."""

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from .addresses import find_addresses, join_address
from .shared_socket import Deadline, SharedSocket
from .socket_connection import SocketConnection
from .socket_streams import ByteStream

SEND_BUFFER_BYTES = 128 * 1024
"""Of each connection that comes; RocketMQ's is 64 KiB. Left to itself, Linux lets whoever never reads have 4 MiB, and
some hundreds of those have all the memory that it keeps for the TCP connections of a machine.
"""
_BACKLOG = 4096
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE_S = 0.01


def open_listening(address: str) -> socket.socket:
    """Return a socket that listens at `host:port`. OSError if that cannot be."""
    family, place = find_addresses(address)[0]
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES
        )  # which accepted ones inherit
        opened.bind(place)
        opened.listen(_BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


class SocketListener:
    """A Listener. make_stream: what the bytes of each new connection go through; None: nothing."""

    __slots__ = ("_make_stream", "_reserve", "address", "shared")

    def __init__(self, address: str, make_stream: Callable[[], ByteStream] | None = None) -> None:
        opened = open_listening(address)
        self.address = join_address(opened.getsockname())
        self.shared = SharedSocket(opened)
        self._make_stream = make_stream
        self._reserve = ReserveDescriptor()

    def accept(self, timeout_ms: int | None) -> SocketConnection:
        """Return the next connection. TimeoutError after timeout_ms, ConnectionError once the listener is closed.

        OSError (EMFILE, ENFILE, ENOBUFS, ENOMEM) if the system has nothing left for another one, which is then turned
        away: left in the queue, it would be reported at once again.
        """
        with self.shared as listening:
            deadline: Deadline | None = None
            while True:
                connection = self._accept_now(listening)
                if connection is not None:
                    return connection
                deadline = deadline or Deadline(timeout_ms)
                deadline.wait(self.shared.descriptor, select.POLLIN)

    def close(self) -> None:
        """Accept no more, and end whoever waits. May be called again."""
        self.shared.close()
        self._reserve.give_back()

    def _accept_now(self, listening: socket.socket) -> SocketConnection | None:
        """Return the next connection that is still one, None if nobody waits."""
        while True:
            try:
                opened, _ = listening.accept()
            except BlockingIOError:
                return None
            except OSError as error:
                self.shared.check_open()
                if error.errno in _EXHAUSTED:
                    if self._reserve.turn_away(listening):
                        raise
                    return None  # the system refuses before it looks whether anybody waits
                continue  # an error of the connection that was to come: it is gone
            try:
                return SocketConnection(opened, self._make_stream and self._make_stream())
            except OSError:  # gone since
                opened.close()


class ReserveDescriptor:
    """A descriptor kept to be given up for a moment, so that a connection can be accepted in order to be closed."""

    __slots__ = ("_descriptor", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def turn_away(self, listening: socket.socket) -> bool:
        """Accept a connection and close it; False if nobody waits. Without the means for it, let a moment pass."""
        with self._lock:
            found_one = True
            if self._descriptor is None:
                time.sleep(_EXHAUSTED_PAUSE_S)
            else:
                os.close(self._descriptor)
                self._descriptor = None
                try:
                    listening.accept()[0].close()
                except BlockingIOError:
                    found_one = False
                except OSError:
                    pass  # it is gone since, or another thread was faster to take the descriptor
            with suppress(OSError):  # tried again next time
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return found_one

    def give_back(self) -> None:
        """Close it for good."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

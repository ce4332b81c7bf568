"""Socket connections and listeners: non-blocking sockets with timeouts.

Without a free descriptor, a listener closes new connections and continues.
"""

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from ..network import ListenOptions
from .sockets import ByteStream, Deadline, PlainStream, SharedSocket, find_addresses, join_address

_DRAINED_BYTES_MAX = 1 << 20

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_PAUSE_S = 0.01


class SocketConnection:
    """A Connection. Thread-safe.

    A poller may set `when_changed`; the connection calls it after possible changes of the stream's buffers.
    """

    __slots__ = ("_ended", "_lock", "_stream", "local_address", "remote_address", "shared", "when_changed")

    def __init__(self, opened: socket.socket, stream: ByteStream | None = None) -> None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local_address = join_address(opened.getsockname())
        self.remote_address = join_address(opened.getpeername())
        self.shared = SharedSocket(opened)
        self.when_changed: Callable[[], None] | None = None
        self._stream: ByteStream = PlainStream() if stream is None else stream
        # Plain text needs no lock. With TLS, receive and send share the session.
        self._lock = None if stream is None else threading.Lock()
        self._ended = False

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        """Return at least one received byte; b"" after the end of the peer's stream."""
        if bytes_max < 1:
            raise ValueError(f"bytes_max: expected at least 1, found {bytes_max}")
        deadline: Deadline | None = None
        with self.shared as carrier:
            while True:
                try:
                    return self._receive_now(carrier, bytes_max)
                except BlockingIOError:
                    deadline = deadline or Deadline(timeout_ms)
                owed = select.POLLOUT if self._stream.has_unsent_bytes else 0
                deadline.wait(self.shared.descriptor, select.POLLIN | owed)

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Return the number of sent bytes, at least one."""
        view = memoryview(data)
        if not view:
            raise ValueError("data: expected at least a byte, found none")
        deadline: Deadline | None = None
        with self.shared as carrier:
            while True:
                try:
                    return self._send_now(carrier, view)
                except BlockingIOError:
                    deadline = deadline or Deadline(timeout_ms)
                deadline.wait(self.shared.descriptor, select.POLLOUT)

    def close(self) -> None:
        with suppress(OSError), self.shared as carrier, self._lock or nullcontext():
            self._end_stream(carrier)
        self.shared.close()

    # -- for pollers -------------------------------------------------------------------------------

    @property
    def has_unread_bytes(self) -> bool:
        """Whether the stream's buffer may have received bytes. A poll of the socket does not report these."""
        return self._stream.has_unread_bytes

    @property
    def has_unsent_bytes(self) -> bool:
        """Whether the stream has bytes to send that did not fit into the socket."""
        return self._stream.has_unsent_bytes

    def flush(self) -> None:
        """Send the stream's pending bytes. If this fails, the next receive or send raises the error."""
        if self._lock is not None:
            with suppress(OSError), self.shared as carrier, self._lock:
                self._stream.flush(carrier)

    # -- one attempt -------------------------------------------------------------------------------

    def _receive_now(self, carrier: socket.socket, bytes_max: int) -> bytes:
        try:
            if self._lock is None:
                data = carrier.recv(bytes_max)
            else:
                with self._lock:
                    try:
                        data = self._stream.receive(carrier, bytes_max)
                    finally:
                        self._notify_poller()
        except (BlockingIOError, ConnectionError):
            raise
        except OSError as error:
            raise _as_connection_error(error) from error
        if not data:
            self.shared.check_open()  # `close` in this process also ends the stream
        return data

    def _send_now(self, carrier: socket.socket, data: memoryview) -> int:
        try:
            if self._lock is None:
                return carrier.send(data)
            with self._lock:
                try:
                    return self._stream.send(carrier, data)
                finally:
                    self._notify_poller()
        except (BlockingIOError, ConnectionError):
            raise
        except OSError as error:
            raise _as_connection_error(error) from error

    def _notify_poller(self) -> None:
        if self.when_changed is not None and (self._stream.has_unread_bytes or self._stream.has_unsent_bytes):
            self.when_changed()

    def _end_stream(self, carrier: socket.socket) -> None:
        """End the stream and read all input, because closing a socket with unread input resets the connection."""
        if self._ended:
            return
        self._ended = True
        with suppress(OSError):
            self._stream.end_sending(carrier)
        carrier.shutdown(socket.SHUT_WR)
        drained = 0
        while drained < _DRAINED_BYTES_MAX and (some := carrier.recv(1 << 16)):
            drained += len(some)


def _as_connection_error(error: OSError) -> ConnectionError:
    """Convert errors such as an unreachable host or a keep-alive timeout."""
    return ConnectionError(error.errno or errno.EIO, error.strerror or str(error))


def open_listening(address: str, options: ListenOptions) -> socket.socket:
    """Return a socket that listens on `host:port`. Raises OSError."""
    family, place = find_addresses(address)[0]
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Accepted sockets inherit the buffer sizes. TCP derives the window scale from the sizes before `listen`.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
        if options.receive_buffer_bytes:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        opened.bind(place)
        opened.listen(options.backlog)
    except BaseException:
        opened.close()
        raise
    return opened


class SocketListener:
    """A Listener. make_stream: creates the stream of a new connection; None: plain bytes."""

    __slots__ = ("_make_stream", "_reserve", "address", "shared")

    def __init__(
        self,
        address: str,
        make_stream: Callable[[], ByteStream] | None = None,
        options: ListenOptions = ListenOptions(),  # noqa: B008 - frozen
    ) -> None:
        opened = open_listening(address, options)
        self.address = join_address(opened.getsockname())
        self.shared = SharedSocket(opened)
        self._make_stream = make_stream
        self._reserve = ReserveDescriptor()

    def accept(self, timeout_ms: int | None) -> SocketConnection:
        """Return the next connection. Raises TimeoutError after timeout_ms, ConnectionError after a close.

        If the operating system lacks resources, raises OSError (EMFILE, ENFILE, ENOBUFS, ENOMEM). The listener then
        closes the connection, because the poller would report a queued connection again at once.
        """
        deadline: Deadline | None = None
        with self.shared as listening:
            while (connection := self._accept_now(listening)) is None:
                deadline = deadline or Deadline(timeout_ms)
                deadline.wait(self.shared.descriptor, select.POLLIN)
            return connection

    def close(self) -> None:
        self.shared.close()
        self._reserve.give_back()

    def _accept_now(self, listening: socket.socket) -> SocketConnection | None:
        """Return the next connection, or None if the listen queue is empty."""
        while True:
            try:
                opened, _ = listening.accept()
            except BlockingIOError:
                return None
            except OSError as error:
                self.shared.check_open()
                if error.errno in _EXHAUSTED:
                    if self._reserve.reject_connection(listening):
                        raise
                    return None  # the kernel can report this error for an empty queue
                continue  # the peer reset this connection while it was in the queue
            try:
                return SocketConnection(opened, self._make_stream and self._make_stream())
            except OSError:  # the peer reset the connection after `accept`
                opened.close()


class ReserveDescriptor:
    """A spare descriptor. If no other is free, its release lets the listener accept and close a connection."""

    __slots__ = ("_descriptor", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def reject_connection(self, listening: socket.socket) -> bool:
        """Accept a connection and close it. Return False if the listen queue is empty.

        If the spare descriptor is lost, sleep briefly.
        """
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
                    pass  # the peer reset the connection, or another thread took the descriptor
            with suppress(OSError):  # the next call retries
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return found_one

    def give_back(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

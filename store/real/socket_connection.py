"""One connection over a socket that never blocks; time-outs are waits beside it."""

import errno
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from .addresses import join_address
from .shared_socket import Deadline, SharedSocket
from .socket_streams import ByteStream, PlainStream

_DRAINED_BYTES_MAX = 1 << 20


class SocketConnection:
    """A Connection. Any thread may receive, send and close at any time.

    `when_changed`, if a poller has set it, is called whenever what the stream holds or owes may have changed.
    """

    __slots__ = ("_ended", "_lock", "_stream", "local_address", "remote_address", "shared", "when_changed")

    def __init__(self, opened: socket.socket, stream: ByteStream | None = None) -> None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local_address = join_address(opened.getsockname())
        self.remote_address = join_address(opened.getpeername())
        self.shared = SharedSocket(opened)
        self.when_changed: Callable[[], None] | None = None
        self._stream: ByteStream = PlainStream() if stream is None else stream
        # Receiving and sending bytes as they are need not exclude each other; a cipher's state is one.
        self._lock = None if stream is None else threading.Lock()
        self._ended = False

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        """Return what has come, at least a byte; b"" once the other end has ended its stream."""
        if bytes_max < 1:
            raise ValueError(f"bytes_max: expected at least 1, found {bytes_max}")
        with self.shared as carrier:
            try:
                return self._receive_now(carrier, bytes_max)
            except BlockingIOError:
                deadline = Deadline(timeout_ms)
            while True:
                deadline.wait(self.shared.descriptor, select.POLLIN | self._owed_events())
                try:
                    return self._receive_now(carrier, bytes_max)
                except BlockingIOError:
                    continue

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Hand bytes to the network; return how many it took, at least one."""
        view = memoryview(data)
        if not view:
            raise ValueError("data: expected at least a byte, found none")
        with self.shared as carrier:
            try:
                return self._send_now(carrier, view)
            except BlockingIOError:
                deadline = Deadline(timeout_ms)
            while True:
                deadline.wait(self.shared.descriptor, select.POLLOUT)
                try:
                    return self._send_now(carrier, view)
                except BlockingIOError:
                    continue

    def close(self) -> None:
        """Give it up: what was taken is still delivered, whoever waits on it is woken. May be called again."""
        with suppress(OSError), self.shared as carrier:
            if self._lock is None:
                self._say_goodbye(carrier)
            else:
                with self._lock:
                    self._say_goodbye(carrier)
        self.shared.close()

    # -- for pollers -------------------------------------------------------------------------------

    @property
    def holds_bytes(self) -> bool:
        """Return whether something may be received that no waiting on the socket tells of."""
        return self._stream.holds_bytes

    @property
    def owes_bytes(self) -> bool:
        """Return whether something waits for room in the socket that nobody will ask to have sent."""
        return self._stream.owes_bytes

    def flush(self) -> None:
        """Hand over what is owed; an error is left to who receives or sends next."""
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
                        self._tell()
        except (BlockingIOError, ConnectionError):
            raise
        except OSError as error:
            raise _broken(error) from error
        if not data:
            self.shared.check_open()  # the end of the stream may be our own
        return data

    def _send_now(self, carrier: socket.socket, data: memoryview) -> int:
        try:
            if self._lock is None:
                return carrier.send(data)
            with self._lock:
                try:
                    return self._stream.send(carrier, data)
                finally:
                    self._tell()
        except (BlockingIOError, ConnectionError):
            raise
        except OSError as error:
            raise _broken(error) from error

    def _owed_events(self) -> int:
        return select.POLLOUT if self._stream.owes_bytes else 0

    def _tell(self) -> None:
        if self.when_changed is not None and (self._stream.holds_bytes or self._stream.owes_bytes):
            self.when_changed()

    def _say_goodbye(self, carrier: socket.socket) -> None:
        """End our stream, then take what nobody will read: a socket closed over it would reset the connection."""
        if self._ended:
            return
        self._ended = True
        with suppress(OSError):
            self._stream.end(carrier)
        carrier.shutdown(socket.SHUT_WR)
        drained = 0
        while drained < _DRAINED_BYTES_MAX:
            some = carrier.recv(1 << 16)
            if not some:
                break
            drained += len(some)


def _broken(error: OSError) -> ConnectionError:
    """Return as a broken connection what the system calls otherwise: a host unreachable, no sign of life."""
    return ConnectionError(error.errno or errno.EIO, error.strerror or str(error))

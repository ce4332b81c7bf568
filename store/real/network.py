"""The computer's own network: TCP, with TLS where it is asked for."""

import errno
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from .addresses import SocketAddress, find_addresses, split_address
from .shared_socket import Deadline
from .socket_connection import SocketConnection
from .socket_listener import SocketListener
from .socket_poller import SocketPoller
from .socket_streams import ByteStream

if TYPE_CHECKING:
    from .tls import TlsSettings, TlsTrust


class RealNetwork:
    """A Network of sockets.

    tls: what listeners accept beside plain text, or instead of it; None: plain text only. tls_trust: whom connections
    that are made believe; None: these are plain text. OSError (ssl.SSLError) if a file that these name will not do.
    """

    __slots__ = ("_make_stream", "_trusting")

    def __init__(self, *, tls: "TlsSettings | None" = None, tls_trust: "TlsTrust | None" = None) -> None:
        self._make_stream: Callable[[], ByteStream] | None = None
        if tls is not None:
            from .tls import FirstByteStream  # costs start-up time, for those who use it only

            accepting, is_required = tls.context(), tls.is_required
            self._make_stream = lambda: FirstByteStream(accepting, is_required=is_required)
        self._trusting = None if tls_trust is None else tls_trust.context()

    def listen(self, address: str) -> SocketListener:
        """Listen at `host:port`. OSError (EADDRINUSE, EADDRNOTAVAIL, EACCES) if that cannot be."""
        return SocketListener(address, self._make_stream)

    def connect(self, address: str, timeout_ms: int) -> SocketConnection:
        """Connect, with TLS through the handshake. TimeoutError, or another OSError, the last one of several hosts'.

        A host name is looked up by the system, which may take longer.
        """
        deadline = Deadline(timeout_ms)
        failure: OSError = ConnectionRefusedError(errno.ECONNREFUSED, f"nothing at {address}")
        for found in find_addresses(address):
            try:
                return self._open(found, address, deadline)
            except TimeoutError:
                raise
            except OSError as error:
                failure = error
        raise failure

    def poller(self) -> SocketPoller:
        """Make a poller."""
        return SocketPoller()

    def _open(self, found: SocketAddress, address: str, deadline: Deadline) -> SocketConnection:
        opened = socket.socket(found.family, socket.SOCK_STREAM)
        try:
            _connect(opened, found, address, deadline)
            return SocketConnection(opened, self._shake_hands(opened, address, deadline))
        except BaseException:
            opened.close()
            raise

    def _shake_hands(self, opened: socket.socket, address: str, deadline: Deadline) -> ByteStream | None:
        if self._trusting is None:
            return None
        from .tls import TlsStream

        stream = TlsStream(self._trusting, server_name=split_address(address)[0])
        while True:
            try:
                stream.shake_hands(opened)
                return stream
            except BlockingIOError:
                events = select.POLLIN | (select.POLLOUT if stream.owes_bytes else 0)
                deadline.wait(opened.fileno(), events)


def _connect(opened: socket.socket, found: SocketAddress, address: str, deadline: Deadline) -> None:
    opened.setblocking(False)
    code = opened.connect_ex(found.place)
    if code == errno.EINPROGRESS:
        deadline.wait(opened.fileno(), select.POLLOUT)
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code and not _is_connected(opened):
            raise TimeoutError(f"{address}: nobody answered in time")
    if code:
        # Some codes have classes of their own, ETIMEDOUT is the very TimeoutError.
        raise OSError(code, f"{address}: {errno.errorcode.get(code, code)}")
    if opened.getsockname() == opened.getpeername():
        # The system has given this end the very port it was to connect to, and connected it to itself.
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address}: nobody listens")


def _is_connected(opened: socket.socket) -> bool:
    try:
        opened.getpeername()
    except OSError:
        return False
    return True

"""TLS: servers with TLS and plain text on one port, and clients with TLS.

A TLS handshake begins with the byte 0x16. A RocketMQ frame begins with the highest byte of its length, which is
smaller. So the first byte determines the protocol of a client. The handshake runs in steps within receives and sends,
so that it does not block other connections.

Source: RocketMQ TlsMode, NettyRemotingServer.HandshakeHandler, RFC 8446 section 5.1.
"""

import errno
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass

from .sockets import ByteStream, PlainStream

_HANDSHAKE = b"\x16"  # RFC 8446 section 5.1: ContentType.handshake
_READ_BYTES = 1 << 16
_WRITE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of a server. The paths name PEM files."""

    certificate_path: str
    """The server's certificate and its intermediate certificates."""
    key_path: str
    is_required: bool = False
    """Whether the server refuses plain text."""
    client_authority_path: str | None = None
    """Certificate authority of clients; None: clients need no certificate."""

    def context(self) -> ssl.SSLContext:
        """Read the files. Raises OSError (ssl.SSLError) for invalid files."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.client_authority_path)
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.load_cert_chain(self.certificate_path, self.key_path)
        if self.client_authority_path is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True, slots=True)
class TlsTrust:
    """The TLS settings of a client. The paths name PEM files."""

    authority_path: str | None
    """Certificate authority of servers; None: accept every certificate, like RocketMQ's clients by default."""
    certificate_path: str | None = None
    """The client's certificate, for servers that require one."""
    key_path: str | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files. Raises OSError (ssl.SSLError) for invalid files."""
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.authority_path)
        if self.authority_path is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_path is not None:
            context.load_cert_chain(self.certificate_path, self.key_path)
        return context


class TlsStream:
    """One end of a TLS session. The session reads and writes memory buffers instead of the socket, so that no step
    blocks.

    Invariant: encrypted bytes not yet written to the socket are in the outgoing buffer or in `_owed`.
    """

    __slots__ = ("_begun", "_has_ended", "_incoming", "_may_hold", "_outgoing", "_owed", "_session")

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        """Begin a session, as a client if server_name is given, else as a server."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_name is None
        self._session = context.wrap_bio(self._incoming, self._outgoing, is_server, server_name)
        self._owed = memoryview(b"")
        self._begun = b""
        """The last plain bytes that were encrypted, if their encrypted form is not completely sent."""
        self._may_hold = False
        self._has_ended = False

    @property
    def has_unread_bytes(self) -> bool:
        return self._may_hold

    @property
    def has_unsent_bytes(self) -> bool:
        return len(self._owed) > 0

    def shake_hands(self, carrier: socket.socket) -> None:
        """Continue the handshake until it is complete. Raises BlockingIOError while the peer must answer."""
        try:
            while True:
                try:
                    self._session.do_handshake()
                except ssl.SSLWantReadError:
                    self.flush(carrier)
                    self._feed_session(carrier)
                else:
                    self.flush(carrier)
                    return
        except ssl.SSLError as error:
            raise self._error_after_alert(carrier, error) from error

    def receive(self, carrier: socket.socket, bytes_max: int) -> bytes:
        pieces: list[bytes] = []
        size_bytes = 0
        self._may_hold = False
        try:
            while size_bytes < bytes_max:
                try:
                    piece = self._session.read(bytes_max - size_bytes)
                except ssl.SSLWantReadError:
                    self.flush(carrier)
                    if pieces:
                        break
                    self._feed_session(carrier)
                    continue
                if not piece:
                    break
                pieces.append(piece)
                size_bytes += len(piece)
            else:
                self._may_hold = True  # the session may have more decrypted bytes
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError) as end:
            if not pieces and self._session.version() is None:
                raise self._error_after_alert(carrier, end) from end
        except ssl.SSLError as error:
            if not pieces:
                raise self._error_after_alert(carrier, error) from error
        return b"".join(pieces)

    def send(self, carrier: socket.socket, data: memoryview) -> int:
        """Return the number of sent bytes, at least one.

        After a BlockingIOError the next send must begin with the same bytes, which are already encrypted.
        """
        if not self._begun:
            self._encrypt(carrier, data[:_WRITE_BYTES_MAX])
        elif data[: len(self._begun)] != self._begun:
            reason = "TLS: a retried send must begin with the same bytes"
            raise ConnectionAbortedError(errno.ECONNABORTED, reason)
        self.flush(carrier)
        if self._owed:
            raise BlockingIOError(errno.EAGAIN, "the socket's send buffer is full")
        taken_bytes = len(self._begun)
        self._begun = b""
        return taken_bytes

    def flush(self, carrier: socket.socket) -> None:
        if self._outgoing.pending:
            self._owed = memoryview(bytes(self._owed) + self._outgoing.read())
        while self._owed:
            try:
                self._owed = self._owed[carrier.send(self._owed) :]
            except BlockingIOError:
                return

    def end_sending(self, carrier: socket.socket) -> None:
        with suppress(ssl.SSLError, ValueError):  # the peer has not answered yet, or the handshake is incomplete
            self._session.unwrap()
        self.flush(carrier)

    def _encrypt(self, carrier: socket.socket, data: memoryview) -> None:
        while True:
            try:
                self._begun = bytes(data[: self._session.write(data)])
                return
            except ssl.SSLWantReadError:
                self.flush(carrier)
                self._feed_session(carrier)
            except ssl.SSLError as error:
                raise self._error_after_alert(carrier, error) from error

    def _error_after_alert(self, carrier: socket.socket, error: ssl.SSLError) -> ConnectionError:
        """Send the session's TLS alert, if there is one. Return the error to raise."""
        with suppress(OSError):
            self.flush(carrier)
        return ConnectionAbortedError(errno.ECONNABORTED, f"TLS: {error.reason or error}")

    def _feed_session(self, carrier: socket.socket) -> None:
        """Pass received bytes to the session. Raises BlockingIOError if the socket has none."""
        if self._has_ended:
            raise ConnectionResetError(errno.ECONNRESET, "TLS: the connection ended during an operation")
        data = carrier.recv(_READ_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._has_ended = True
            self._incoming.write_eof()


class FirstByteStream:
    """The stream of an accepted connection: the first byte from the client determines whether it uses TLS.

    If the server sends first, the connection uses plain text.
    """

    __slots__ = ("_context", "_is_decided", "_stream")

    def __init__(self, context: ssl.SSLContext, *, is_required: bool) -> None:
        self._context = context
        self._is_decided = is_required
        self._stream: ByteStream = TlsStream(context) if is_required else PlainStream()

    @property
    def has_unread_bytes(self) -> bool:
        return self._stream.has_unread_bytes

    @property
    def has_unsent_bytes(self) -> bool:
        return self._stream.has_unsent_bytes

    def receive(self, carrier: socket.socket, bytes_max: int) -> bytes:
        if not self._is_decided:
            if carrier.recv(1, socket.MSG_PEEK) == _HANDSHAKE:
                self._stream = TlsStream(self._context)
            self._is_decided = True
        return self._stream.receive(carrier, bytes_max)

    def send(self, carrier: socket.socket, data: memoryview) -> int:
        self._is_decided = True
        return self._stream.send(carrier, data)

    def flush(self, carrier: socket.socket) -> None:
        self._stream.flush(carrier)

    def end_sending(self, carrier: socket.socket) -> None:
        self._stream.end_sending(carrier)

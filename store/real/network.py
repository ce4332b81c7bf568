"""Real network: TCP, optionally with TLS, and a poller with epoll."""

import errno
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from select import EPOLLIN, EPOLLOUT
from typing import TYPE_CHECKING

from ..network import Connection, Listener, ListenOptions, ReadyEndpoint
from .socket_connection import SocketConnection, SocketListener
from .sockets import ByteStream, Deadline, SocketAddress, find_addresses, split_address

if TYPE_CHECKING:
    from .tls import TlsSettings, TlsTrust


_NOTHING = 0
OF_HOST_MAX = 32
"""Maximum number of connections of one host with their own entries in a poller's epoll.

The host's other connections share one entry. A wait reports at most OF_HOST_MAX of these.
"""


class _WatchedHost:
    """The watched connections of one host.

    The first OF_HOST_MAX connections of a host are in the poller's own epoll. All others are in `crowd`, a second epoll
    that is one entry in the poller's epoll. Each wait reports only a few ready connections of the crowd, so thousands
    of connections of one host slow down neither a wait nor other hosts.
    """

    __slots__ = ("alone", "crowd", "crowded", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alone = 0
        self.crowd: select.epoll | None = None
        """None while `crowded` is 0."""
        self.crowded = 0


class _WatchedEntry:
    """A watched connection or listener, and the operations to wait for.

    The poller is a user of the shared socket, so the descriptor is valid until `forget`. An object closed before
    `watch` has no descriptor, and is always ready.
    """

    __slots__ = ("epoll", "events", "has_descriptor", "host", "number", "receives", "sends", "what")

    def __init__(
        self, what: SocketConnection | SocketListener, number: int, host: _WatchedHost | None, epoll: select.epoll
    ) -> None:
        self.what = what
        self.number = number
        self.host = host
        """None for a listener."""
        self.epoll = epoll
        """The epoll that contains this entry: the poller's own, or the crowd of the host."""
        self.receives = self.sends = False
        self.events = _NOTHING
        """The events that `epoll` reports for this entry."""
        self.has_descriptor = False
        with suppress(ConnectionError):
            what.shared.__enter__()
            self.has_descriptor = True

    @property
    def wanted_events(self) -> int:
        if not self.has_descriptor:
            return _NOTHING
        wants_to_send = self.sends or (isinstance(self.what, SocketConnection) and self.what.has_unsent_bytes)
        return self.receives * EPOLLIN | wants_to_send * EPOLLOUT

    @property
    def is_ready_without_event(self) -> bool:
        """Whether the object is closed or its stream has buffered bytes. The kernel reports neither."""
        return not self.has_descriptor or (isinstance(self.what, SocketConnection) and self.what.has_unread_bytes)

    def leave(self) -> None:
        if isinstance(self.what, SocketConnection):
            self.what.when_changed = None
        if self.has_descriptor:
            self.what.shared.__exit__(None, None, None)


class SocketPoller:
    """Poller of SocketConnections and SocketListeners.

    A wait reports a limited number of connections per host; later waits report the others.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._watched: dict[Connection | Listener, _WatchedEntry] = {}
        self._hidden: dict[Connection | Listener, _WatchedEntry] = {}
        """Entries that may be ready although the kernel reports no event."""
        self._by_descriptor: dict[int, _WatchedEntry] = {}
        """Entries that are in an epoll."""
        self._hosts: dict[str, _WatchedHost] = {}
        """Host name -> the host's watched connections."""
        self._crowds: dict[int, select.epoll] = {}
        """Descriptor -> epoll of a crowd."""
        self._number = 0
        self._is_woken = False
        self._is_closed = False
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._epoll.register(self._woken, EPOLLIN)

    def watch(self, what: Connection | Listener, *, receives: bool, sends: bool) -> None:
        assert isinstance(what, SocketConnection | SocketListener), what
        with self._lock:
            entry = self._watched.get(what)
            if entry is None:
                entry = self._start_watching(what)
            entry.receives, entry.sends = receives, sends
            self._update_watched_events(entry)

    def forget(self, what: Connection | Listener) -> None:
        """No effect on an object that is not watched."""
        with self._lock:
            entry = self._watched.get(what)
            if entry is not None:
                self._stop_watching(entry)

    def wait(self, timeout_ms: int | None) -> Sequence[ReadyEndpoint]:
        """Return ready objects in the order of their first `watch`, or none after timeout_ms or `wake`."""
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        found: dict[_WatchedEntry, int] = {}
        if self._hidden:
            found = self._find_ready_without_event()
            timeout_s = 0 if found else timeout_s
        for descriptor, events in self._epoll.poll(timeout_s):
            if (entry := self._by_descriptor.get(descriptor)) is not None:
                found[entry] = found.get(entry, _NOTHING) | events
            elif descriptor in self._crowds:
                self._find_crowded(descriptor, found)
            elif descriptor == self._woken.fileno():
                self._consume_wake_up()
        ready: list[tuple[int, ReadyEndpoint]] = []
        for entry, events in found.items():
            receives, sends = self._ready_for(entry, events)
            if receives or sends:
                ready.append((entry.number, (entry.what, receives, sends)))
        if len(ready) > 1:
            ready.sort(key=itemgetter(0))
        return [report for _, report in ready]

    def wake(self) -> None:
        """End the current wait, or else the next one. No effect after `close`."""
        if self._is_woken or self._is_closed:
            return
        self._is_woken = True
        with suppress(OSError):  # the pipe is full, so the wait ends anyway, or closed
            self._waker.send(b"\0")

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for entry in list(self._watched.values()):
                self._stop_watching(entry)
            assert not self._by_descriptor, self._by_descriptor
            assert not self._hosts, self._hosts
            assert not self._crowds, self._crowds
            self._epoll.close()
            self._waker.close()
            self._woken.close()

    def _find_crowded(self, descriptor: int, found: dict[_WatchedEntry, int]) -> None:
        """Add the next few ready connections of a crowd.

        The next call finds others, because the kernel moves reported connections to the end of its list.
        """
        with self._lock:  # another thread may forget the last connection of the crowd and close the epoll
            crowd = self._crowds.get(descriptor)
            for each, events in () if crowd is None else crowd.poll(0, OF_HOST_MAX):
                if (entry := self._by_descriptor.get(each)) is not None:
                    found[entry] = found.get(entry, _NOTHING) | events

    def _ready_for(self, entry: _WatchedEntry, events: int) -> tuple[bool, bool]:
        """Send pending bytes, then return whether receive and send are ready.

        After the end of the connection or an error (EPOLLHUP, EPOLLERR), both are ready.
        """
        sends = bool(events & ~EPOLLIN)
        if sends and isinstance(entry.what, SocketConnection) and entry.what.has_unsent_bytes:
            entry.what.flush()
            with self._lock:
                self._update_watched_events(entry)
        return entry.receives and bool(events & ~EPOLLOUT), entry.sends and sends

    def _find_ready_without_event(self) -> dict[_WatchedEntry, int]:
        """Return entries of `_hidden` that are ready, and drop the others."""
        with self._lock:
            self._hidden = {what: entry for what, entry in self._hidden.items() if entry.is_ready_without_event}
            found = {}
            for entry in self._hidden.values():
                events = entry.receives * EPOLLIN
                if not entry.has_descriptor:
                    events |= entry.sends * EPOLLOUT
                if events:
                    found[entry] = events
            return found

    def _update_after_change(self, what: SocketConnection) -> None:
        """Update the watched events after a receive or send has changed the stream's buffered bytes."""
        with self._lock:
            entry = self._watched.get(what)
            if entry is not None:
                self._update_watched_events(entry)

    def _update_watched_events(self, entry: _WatchedEntry) -> None:
        """Set the events to watch. Unwanted events must not be set: every wait would report an ended connection."""
        if self._watched.get(entry.what) is not entry:
            return  # another call has forgotten the entry since the poll found it ready
        if entry.is_ready_without_event and entry.what not in self._hidden:
            self._hidden[entry.what] = entry
            self.wake()  # another thread may be waiting
        wanted = entry.wanted_events
        if wanted == entry.events:
            return
        descriptor = entry.what.shared.descriptor
        if not entry.events:
            entry.epoll.register(descriptor, wanted)
            self._by_descriptor[descriptor] = entry
        elif wanted:
            entry.epoll.modify(descriptor, wanted)
        else:
            self._remove_from_epoll(entry)
        entry.events = wanted

    def _remove_from_epoll(self, entry: _WatchedEntry) -> None:
        descriptor = entry.what.shared.descriptor
        entry.epoll.unregister(descriptor)
        del self._by_descriptor[descriptor]
        entry.events = _NOTHING

    def _start_watching(self, what: SocketConnection | SocketListener) -> _WatchedEntry:
        """Add an entry. If the epoll of the host's crowd cannot be created, no entry is added and OSError is raised."""
        host, epoll = None, self._epoll
        if isinstance(what, SocketConnection):
            name = what.remote_address.rpartition(":")[0]
            host = self._hosts.get(name) or _WatchedHost(name)
            if host.alone >= OF_HOST_MAX:
                epoll = host.crowd or self._make_crowd(host)
                host.crowded += 1
            else:
                host.alone += 1
            self._hosts[name] = host
            what.when_changed = lambda: self._update_after_change(what)
        self._number += 1
        entry = self._watched[what] = _WatchedEntry(what, self._number, host, epoll)
        return entry

    def _stop_watching(self, entry: _WatchedEntry) -> None:
        entry.receives = entry.sends = False
        if entry.events:
            self._remove_from_epoll(entry)
        del self._watched[entry.what]
        self._hidden.pop(entry.what, None)
        entry.leave()
        if (host := entry.host) is None:
            return
        if entry.epoll is self._epoll:
            host.alone -= 1
        else:
            host.crowded -= 1
            if not host.crowded:
                self._end_crowd(host)
        assert 0 <= host.alone <= OF_HOST_MAX, host.alone
        assert host.crowded >= 0, host.crowded
        if not (host.alone or host.crowded):
            del self._hosts[host.name]

    def _make_crowd(self, host: _WatchedHost) -> select.epoll:
        crowd = select.epoll()
        try:
            self._epoll.register(crowd, EPOLLIN)
        except OSError:
            crowd.close()
            raise
        host.crowd = self._crowds[crowd.fileno()] = crowd
        return crowd

    def _end_crowd(self, host: _WatchedHost) -> None:
        assert host.crowd is not None, host.name
        self._epoll.unregister(host.crowd)
        del self._crowds[host.crowd.fileno()]
        host.crowd.close()
        host.crowd = None

    def _consume_wake_up(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(64):
                pass
        self._is_woken = False  # clear the flag after the read, otherwise a wake between the two would be lost


class RealNetwork:
    """A Network of sockets.

    tls: TLS settings of listeners; None: plain text only. tls_trust: TLS settings of outgoing connections; None: plain
    text. options: socket options of listeners. Raises OSError (ssl.SSLError) for an invalid TLS file.
    """

    __slots__ = ("_make_stream", "_options", "_trusting")

    def __init__(
        self,
        *,
        tls: "TlsSettings | None" = None,
        tls_trust: "TlsTrust | None" = None,
        options: ListenOptions | None = None,
    ) -> None:
        self._options = options or ListenOptions()
        self._make_stream: Callable[[], ByteStream] | None = None
        if tls is not None:
            from .tls import FirstByteStream  # imported on demand, for a faster start

            accepting, is_required = tls.context(), tls.is_required
            self._make_stream = lambda: FirstByteStream(accepting, is_required=is_required)
        self._trusting = None if tls_trust is None else tls_trust.context()

    def listen(self, address: str) -> SocketListener:
        return SocketListener(address, self._make_stream, self._options)

    def connect(self, address: str, timeout_ms: int) -> SocketConnection:
        """Connect, and complete a TLS handshake. Raises TimeoutError, or the OSError of the last address tried.

        The look-up of a host name may take longer than the timeout.
        """
        deadline = Deadline(timeout_ms)
        failure: OSError = ConnectionRefusedError(errno.ECONNREFUSED, f"{address}: no address found")
        for found in find_addresses(address):
            try:
                return self._open_connection(found, address, deadline)
            except OSError as error:
                failure = error
        raise failure

    def poller(self) -> SocketPoller:
        return SocketPoller()

    def _open_connection(self, found: SocketAddress, address: str, deadline: Deadline) -> SocketConnection:
        family, place = found
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            _connect_socket(opened, place, address, deadline)
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
                events = select.POLLIN | (select.POLLOUT if stream.has_unsent_bytes else 0)
                deadline.wait(opened.fileno(), events)


def _connect_socket(opened: socket.socket, place: tuple[object, ...], address: str, deadline: Deadline) -> None:
    opened.setblocking(False)
    code = opened.connect_ex(place)
    if code == errno.EINPROGRESS:
        deadline.wait(opened.fileno(), select.POLLOUT)
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code and not _is_connected(opened):
            raise TimeoutError(f"{address}: the connection timed out")
    if code:
        # The constructor chooses a subclass by the error code, for example TimeoutError for ETIMEDOUT.
        raise OSError(code, f"{address}: {errno.errorcode.get(code, code)}")
    if opened.getsockname() == opened.getpeername():
        # If the kernel chooses the target port as the local port, the socket connects to itself.
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address}: no server listens there")


def _is_connected(opened: socket.socket) -> bool:
    try:
        opened.getpeername()
    except OSError:
        return False
    return True

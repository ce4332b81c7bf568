"""Watched network: reports the calls of replication to observers, one for each end of a connection."""

from collections.abc import Callable
from typing import Protocol

from ....store.network import Connection, Listener, Network, Poller


class Watch(Protocol):
    """Observes the calls of one end of a connection."""

    def before_receive(self) -> None: ...

    def received(self, data: bytes) -> None:
        """data: the received bytes; b"" after the end of the peer's stream."""

    def sending(self, data: bytes) -> None:
        """Called with each report or frame before the network sends it, possibly in several pieces."""

    def sent(self, left_bytes: int) -> None:
        """left_bytes: the bytes of a report or frame that the network has not accepted yet."""

    def failed(self) -> None:
        """Called after an error, except a receive without data."""

    def closing(self) -> None: ...


class Connecting(Protocol):
    """Observes outgoing connections."""

    def before_connect(self, address: str) -> None: ...

    def connected(self) -> Watch: ...

    def failed(self) -> None: ...


class _WatchedConnection:
    def __init__(self, connection: Connection, watch: Watch) -> None:
        self._connection = connection
        self._watch = watch
        self._left_bytes = 0
        """The bytes of the last send that the network has not accepted yet."""

    @property
    def local_address(self) -> str:
        return self._connection.local_address

    @property
    def remote_address(self) -> str:
        return self._connection.remote_address

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        self._watch.before_receive()
        try:
            data = self._connection.receive(bytes_max, timeout_ms)
        except TimeoutError:
            raise
        except OSError:
            self._watch.failed()
            raise
        self._watch.received(data)
        return data

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        if len(data) != self._left_bytes:
            self._watch.sending(bytes(data))
        try:
            taken_bytes = self._connection.send(data, timeout_ms)
        except OSError:
            self._watch.failed()
            raise
        self._left_bytes = len(data) - taken_bytes
        self._watch.sent(self._left_bytes)
        return taken_bytes

    def close(self) -> None:
        self._watch.closing()
        self._connection.close()


class _WatchedListener:
    def __init__(self, listener: Listener, watch: Callable[[str], Watch]) -> None:
        self._listener = listener
        self._watch = watch

    @property
    def address(self) -> str:
        return self._listener.address

    def accept(self, timeout_ms: int | None) -> Connection:
        accepted = self._listener.accept(timeout_ms)
        return _WatchedConnection(accepted, self._watch(accepted.remote_address))

    def close(self) -> None:
        self._listener.close()


class WatchedNetwork:
    """Observes the connections to one port, but not pollers."""

    def __init__(self, network: Network, port: int, accepted: Callable[[str], Watch], own: Connecting) -> None:
        """accepted: makes an observer for each accepted connection; own: observes outgoing connections."""
        self._network = network
        self._port = f":{port}"
        self._accepted = accepted
        self._own = own

    def listen(self, address: str) -> Listener:
        listener = self._network.listen(address)
        return _WatchedListener(listener, self._accepted) if address.endswith(self._port) else listener

    def connect(self, address: str, timeout_ms: int) -> Connection:
        if not address.endswith(self._port):
            return self._network.connect(address, timeout_ms)
        self._own.before_connect(address)
        try:
            connection = self._network.connect(address, timeout_ms)
        except OSError:
            self._own.failed()
            raise
        return _WatchedConnection(connection, self._own.connected())

    def poller(self) -> Poller:
        return self._network.poller()

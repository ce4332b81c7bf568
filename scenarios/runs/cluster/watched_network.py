"""A watched network: an observer sees what its connections send."""

from collections.abc import Callable

from ....store.network import Connection, Listener, Network, Poller

Sending = Callable[[bytes], None]
"""Told of bytes before they are handed to the network, which may then take only some of them."""


class WatchedConnection:
    """A connection that tells what it sends."""

    def __init__(self, connection: Connection, sending: Sending) -> None:
        self._connection = connection
        self._sending = sending

    @property
    def local_address(self) -> str:
        """Return this end."""
        return self._connection.local_address

    @property
    def remote_address(self) -> str:
        """Return the other end."""
        return self._connection.remote_address

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        """Receive."""
        return self._connection.receive(bytes_max, timeout_ms)

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        """Tell, and send."""
        self._sending(bytes(data))
        return self._connection.send(data, timeout_ms)

    def close(self) -> None:
        """Close."""
        self._connection.close()


class WatchedListener:
    """A listener whose connections are watched."""

    def __init__(self, listener: Listener, watch: Callable[[Connection], Connection]) -> None:
        self._listener = listener
        self._watch = watch

    @property
    def address(self) -> str:
        """Return where it listens."""
        return self._listener.address

    def accept(self, timeout_ms: int | None) -> Connection:
        """Accept the next."""
        return self._watch(self._listener.accept(timeout_ms))

    def close(self) -> None:
        """Close."""
        self._listener.close()


class WatchedNetwork:
    """A network all of whose connections are watched."""

    def __init__(self, network: Network, answering: Sending, asking: Callable[[], Sending]) -> None:
        """Answering is told of what accepted connections send; asking gives whom each made one tells."""
        self._network = network
        self._answering = answering
        self._asking = asking

    def listen(self, address: str) -> Listener:
        """Listen."""
        return WatchedListener(
            self._network.listen(address), lambda accepted: WatchedConnection(accepted, self._answering)
        )

    def connect(self, address: str, timeout_ms: int) -> Connection:
        """Connect."""
        return WatchedConnection(self._network.connect(address, timeout_ms), self._asking())

    def poller(self) -> Poller:
        """Make a poller, for connections that nobody watches."""
        return self._network.poller()

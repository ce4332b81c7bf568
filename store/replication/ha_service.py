"""Replication of one store: RocketMQ's HAService, composed beside a store by whoever runs both.

Every role listens for slaves; a slave has a client, too, that follows its master. Start it after the store, stop it
before the store. Puts of a SYNC_MASTER answer SLAVE_NOT_AVAILABLE while it does not run.
"""

from ..config import BrokerRole
from ..message_store import MessageStore
from ..network import Listener, in_brackets
from ..world import Task, World
from .ha_client import HAClient
from .ha_connection import HAConnection

CONNECTIONS_MAX = 64
"""Slaves at once, for each costs two tasks; whoever comes later is turned away."""

_ACCEPT_RETRY_MS = 1_000


class HAService:
    """Who listens for slaves, the slaves that are connected, and on a slave the client."""

    def __init__(self, world: World, store: MessageStore, listen_host: str = "127.0.0.1") -> None:
        """world.network is what slaves and master are reached by."""
        assert world.network is not None, "replication needs a network"
        self._world = world
        self._network = world.network
        self._store = store
        self._config = store.config
        self._listen_host = listen_host
        self._listener: Listener | None = None
        self._accepting: Task | None = None
        self._lock = world.tasks.lock("ha connections")
        self.connections: tuple[HAConnection, ...] = ()
        """The slaves that are connected. Replaced, never changed."""
        self._ended: list[HAConnection] = []
        """Connections whose tasks may not have ended yet."""
        self.last_closed = ""
        """Which connection ended last, and why."""
        self._accepted = 0
        self.client: HAClient | None = None
        if self._config.broker_role is BrokerRole.SLAVE:
            self.client = HAClient(world, store)

    def start(self) -> None:
        """Listen for slaves at haListenPort, and follow the master on a slave. OSError if it cannot listen."""
        self._listener = self._network.listen(
            f"{in_brackets(self._listen_host)}:{self._config.ha_listen_port}"
        )
        self._store.follow(self._wake)
        self._accepting = self._world.tasks.spawn("ha-accept", self._accept)
        if self.client is not None:
            self.client.start()

    def shutdown(self) -> None:
        """End all connections and the client, and answer the puts that wait for slaves."""
        if self.client is not None:
            self.client.shutdown()
        if self._listener is not None:
            self._listener.close()
        if self._accepting is not None:
            self._accepting.join(None)
        for connection in self.connections:
            connection.close("the master stops")
        for connection in self._ended:
            connection.join()
        if self._store.commit_log.group_transfer is not None:
            self._store.commit_log.group_transfer.give_up()

    @property
    def address(self) -> str:
        """Return where slaves connect to, as `host:port`: RocketMQ's HA server address."""
        assert self._listener is not None, "start first"
        return self._listener.address

    def update_master_address(self, address: str) -> None:
        """Follow another master, as a broker does that the name server tells of it; nothing happens on a master."""
        if self.client is not None:
            self.client.update_master_address(address)

    def runtime_info(self) -> dict[str, str]:
        """Return what a broker can tell of replication; RocketMQ 4.9 tells nothing of it."""
        info = {f"haSlave_{each.remote_address}": f"{each.reported},{each.sent}" for each in self.connections}
        info["haLastClosed"] = self.last_closed
        if self.client is not None:
            info["haMasterAddress"] = self.client.master_address
            info["haClientState"] = self.client.state
        return info

    def _wake(self) -> None:
        for connection in self.connections:
            connection.wake()

    # -- slaves ------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None, "start sets it"
        try:
            self._accept_all(self._listener)
        except Exception as error:
            self._store.flags.service_failed("ha-accept", error)
            raise

    def _accept_all(self, listener: Listener) -> None:
        """Accept slaves until nobody listens any more."""
        while True:
            try:
                accepted = listener.accept(None)
            except ConnectionError:
                return  # closed
            except OSError:
                self._world.tasks.sleep(_ACCEPT_RETRY_MS)  # no descriptor left, say
                continue
            if len(self.connections) >= CONNECTIONS_MAX:
                accepted.close()
                continue
            self._accepted += 1
            connection = HAConnection(
                self._world,
                self._config,
                self._accepted,
                accepted,
                self._store.log,
                self._store.dispatch.readable_limit,
                self._store.commit_log.group_transfer,
                self._on_closed,
            )
            with self._lock:
                self.connections = (*self.connections, connection)
                ended, self._ended = self._ended, []
            for each in ended:
                each.join()
            connection.start()

    def _on_closed(self, connection: HAConnection) -> None:
        with self._lock:
            self.connections = tuple(each for each in self.connections if each is not connection)
            self._ended.append(connection)
            self.last_closed = f"{connection.remote_address}: {connection.closed_because}"

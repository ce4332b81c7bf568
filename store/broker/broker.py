"""Broker: RocketMQ's BrokerController. A store, the services beside it, and routes for clients' requests.

broker = Broker(world, StoreConfig("/var/lib/mq"), BrokerConfig(listen_port=10911))
broker.load()
broker.start()
...                # a server hands requests to what broker.routes() names, and tells broker.channel_closed
broker.shutdown()
"""

from ..config import StoreConfig
from ..errors import StoreError
from ..network import in_brackets
from ..replication.ha_service import HAService
from ..world import World
from .broker_config import BrokerConfig
from .housekeeping import ClientHousekeepingService
from .name_server import NameServer
from .outer_api import BrokerRegistration, SlaveSynchronize
from .parts import BrokerParts
from .router import Routes
from .routes import routes_of


class Broker(BrokerParts):
    """One broker: its life, and who answers what."""

    def __init__(self, world: World, store_config: StoreConfig, config: BrokerConfig) -> None:
        super().__init__(world, store_config, config)
        silent = (self.consumers.close_expired, self.producers.close_expired, self.locks.forget_expired)
        self.housekeeping = ClientHousekeepingService(world, (*silent, self.daily.note, self.watch.look))
        self.name_server = NameServer(world, config, self.topics)
        self.synchronize: SlaveSynchronize | None = None
        """What a slave copies its master's tables with."""
        if self.is_slave and world.network is not None:
            self.synchronize = SlaveSynchronize(self)
        self.registration: BrokerRegistration | None = None
        """What tells other name servers of this broker."""
        if config.name_servers:
            self.registration = BrokerRegistration(
                self, lambda: self.name_server.ha_address, self._follow_master
            )
        beside = (self.held_pulls, self.housekeeping, self.synchronize, self.registration)
        self._services = [service for service in beside if service is not None]
        """What starts last, in this order, and ends first, in the reverse one."""
        for service in (self.offsets, *self._services):
            service.on_failure = self.own_store.flags.service_failed

    def load(self) -> None:
        """Read everything there is, and recover the store.

        Raises StoreLockedError if another instance is alive, CorruptFileError if what is there cannot be read, OSError
        if the disk fails; the directory is then let go again.
        """
        self.store.load()
        try:
            self.topics.load()
            self.groups.load()
            self.offsets.load()
            if not self.is_slave:
                self.offsets.clamp(self.store)  # a slave's are its master's, and its queues come after
        except (StoreError, OSError):
            self.store.close()
            raise

    def start(self) -> None:
        """Start the store and all services; requests can be answered from now on.

        Raises OSError if the disk fails, or slaves cannot be listened for, ValueError if haHost is no host. Whatever it
        raises, the store is then shut down again.
        """
        self.store.start()
        try:
            if not self.is_slave:
                self.topics.add_system_topics()
                self.groups.add_system_groups()
            if self.ha is not None:
                self._listen_for_slaves(self.ha)
                port = self.ha.address.rpartition(":")[2]
                self.name_server.ha_address = f"{in_brackets(self.config.broker_ip1)}:{port}"
        except Exception:
            self.store.shutdown()
            raise
        if not self.is_slave:
            self.transactions.start()
        self.offsets.start()
        for service in self._services:
            service.start()

    def shutdown(self) -> bool:
        """Stop everything, the store last; return whether its exit was clean. No request comes any more."""
        for service in reversed(self._services):
            service.shutdown()
        if not self.is_slave:
            self.transactions.shutdown()
        self.offsets.shutdown()
        if self.ha is not None:
            self.ha.shutdown()
        return self.store.shutdown()

    def _listen_for_slaves(self, ha: HAService) -> None:
        address = f"{in_brackets(self.config.ha_host)}:{self.store.config.ha_listen_port}"
        try:
            ha.start()
        except OSError as error:
            raise OSError(error.errno, f"slaves: {error.strerror}", address) from error

    def routes(self) -> Routes:
        """Return what answers which request: those to a broker and those to a name server."""
        return routes_of(self, self.name_server)

    def _follow_master(self, address: str, ha_address: str) -> None:
        """Follow the master that a name server knows of; one that settings name stays."""
        if self.synchronize is not None and not self.config.master_addr:
            self.synchronize.update_master_address(address)
        if self.ha is not None and ha_address and not self.store.config.ha_master_address:
            self.ha.update_master_address(ha_address)

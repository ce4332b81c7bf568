"""Cluster nodes: machines with a store and its replication."""

from dataclasses import replace

from ....faults.disk.disk import Disk
from ....faults.simulation.disk_lifecycle import DiskLifecycle
from ....faults.simulation.simulation import Simulation
from ....sim.machine import Machine
from ....store.config import BrokerRole, FlushDiskType, StoreConfig
from ....store.errors import DivergedError
from ....store.message_store import MessageStore
from ....store.replication.ha_client import HAClient
from ....store.replication.ha_service import HAService
from ...claims.machine import config_of
from ...claims.plan import Plan
from ...oracle.disk_space import DiskRoom
from ..execution import sync_timing_of
from ..machines import Node, PoweredMachine

MASTER = "10.0.0.1"
HA_PORT = 10912


class ClusterNode(Node):
    """A machine with a store and its replication."""

    def __init__(self, name: str, host: str, config: StoreConfig, lasting: DiskLifecycle) -> None:
        super().__init__(name, host, lasting)
        self.config = config
        self.ha: HAService | None = None
        self.has_ended = True
        """Whether the end of the last life and the state of its disk were recorded."""
        self.disk_room: DiskRoom
        """The capacity of the disk. Each boot sets it."""
        self.has_logged_divergence = False
        """Whether the slave has logged, since its last start, that its log diverges from its master's."""
        self.is_stopping = False
        self.is_master = host == MASTER
        """Whether the run's users put to this node, unless it has become a slave."""

    def power_on(self, life: PoweredMachine) -> None:
        assert self.has_ended, f"{self.name}: the end of its last life is not recorded"
        super().power_on(life)
        self.has_ended = False
        self.ha = None
        self.has_logged_divergence = False
        self.is_stopping = False

    def replicate(self, store: MessageStore) -> None:
        """Raises OSError if the service cannot listen."""
        self.ha = HAService(store, listen_host=self.host)
        if self.ha.client is not None:
            self.ha.client.on_diverged = self._log_divergence
        self.ha.start()

    def _log_divergence(self, master: str, error: DivergedError) -> None:
        self.has_logged_divergence = True

    @property
    def ha_address(self) -> str:
        return f"{self.host}:{HA_PORT}"

    @property
    def running(self) -> tuple[MessageStore, Disk, Machine]:
        return self.loaded, self.life.disk, self.life.machine

    @property
    def service(self) -> HAService:
        assert self.ha is not None, "the replication service has been started"
        return self.ha

    @property
    def client(self) -> HAClient:
        assert self.service.client is not None, "the node is a slave"
        return self.service.client


def nodes_of(plan: Plan, simulation: Simulation) -> list[ClusterNode]:
    cluster = plan.cluster
    role = BrokerRole.SYNC_MASTER if cluster.sync_master else BrokerRole.ASYNC_MASTER
    shared = replace(
        config_of(plan),
        broker_role=role,
        ha_listen_port=HA_PORT,
        slave_timeout_ms=cluster.slave_timeout_ms,
        ha_transfer_batch_size=cluster.transfer_batch_bytes,
    )
    flush, address = FlushDiskType.ASYNC_FLUSH, f"{MASTER}:{HA_PORT}"
    if cluster.slave_sync_flush:
        flush = FlushDiskType.SYNC_FLUSH
    slave = replace(shared, broker_role=BrokerRole.SLAVE, flush_disk_type=flush, ha_master_address=address)
    nodes = [("master", MASTER, shared)]
    nodes += [(f"slave-{number}", f"10.0.0.{number + 1}", slave) for number in range(1, cluster.slaves + 1)]
    faults, timing = plan.faults, sync_timing_of(plan)
    return [ClusterNode(*node, simulation.lifecycle(faults=faults, timing=timing)) for node in nodes]

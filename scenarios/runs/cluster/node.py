"""A cluster's node: its disk outlives its lives, its store and replication do not."""

from dataclasses import replace

from ....faults.disk.disk import Disk
from ....faults.simulation.disk_lifecycle import DiskLifecycle
from ....faults.simulation.simulation import Simulation
from ....sim.machine import Machine
from ....sim.network.hosts import HostNetwork
from ....store.config import BrokerRole, FlushDiskType, StoreConfig
from ....store.message_store import MessageStore
from ....store.replication.ha_client import HAClient
from ....store.replication.ha_service import HAService
from ...claims.machine import config_of
from ...claims.plan import Plan
from ..execution import timing_of

MASTER = "10.0.0.1"
HA_PORT = 10912


class Node:
    """What there is of it while it is on, and what lasts."""

    def __init__(self, name: str, host: str, config: StoreConfig, lasting: DiskLifecycle) -> None:
        self.name = name
        self.host = host
        self.config = config
        self.lasting = lasting
        self.machine: Machine | None = None
        self.disk: Disk | None = None
        self.endpoint: HostNetwork | None = None
        self.store: MessageStore | None = None
        """None until it has been loaded."""
        self.ha: HAService | None = None

    @property
    def is_master(self) -> bool:
        """Return whether it is the one that users talk to."""
        return self.host == MASTER

    @property
    def is_alive(self) -> bool:
        """Return whether its machine is on."""
        return self.machine is not None and self.machine.alive

    def power_on(self, machine: Machine, disk: Disk, endpoint: HostNetwork) -> None:
        """Begin a life."""
        self.machine, self.disk, self.endpoint = machine, disk, endpoint
        self.store = self.ha = None

    @property
    def running(self) -> tuple[MessageStore, Disk, Machine]:
        """Return store, disk and machine of a node that has been loaded."""
        assert self.store is not None
        assert self.disk is not None
        assert self.machine is not None
        return self.store, self.disk, self.machine

    @property
    def client(self) -> HAClient:
        """Return what follows the master on a slave that runs."""
        assert self.ha is not None, "it has been started"
        assert self.ha.client is not None, "it is a slave"
        return self.ha.client


def nodes_of(plan: Plan, simulation: Simulation) -> list[Node]:
    """Return the master, then its slaves."""
    cluster, config = plan.cluster, config_of(plan)
    role = BrokerRole.SYNC_MASTER if cluster.sync_master else BrokerRole.ASYNC_MASTER
    shared = replace(
        config,
        broker_role=role,
        ha_listen_port=HA_PORT,
        slave_timeout_ms=cluster.slave_timeout_ms,
        ha_transfer_batch_size=cluster.transfer_batch_bytes,
    )
    flush = FlushDiskType.SYNC_FLUSH if cluster.slave_sync_flush else FlushDiskType.ASYNC_FLUSH
    of_slaves = replace(
        shared,
        broker_role=BrokerRole.SLAVE,
        flush_disk_type=flush,
        ha_master_address=f"{MASTER}:{HA_PORT}",
    )

    def disks() -> DiskLifecycle:
        return simulation.lifecycle(faults=plan.faults, timing=timing_of(plan))

    master = Node("master", MASTER, shared, disks())
    return [master] + [
        Node(f"slave-{number}", f"10.0.0.{number + 1}", of_slaves, disks())
        for number in range(1, cluster.slaves + 1)
    ]

"""One machine of a cluster through all its lives: its disk outlives them, its store and replication do not."""

from dataclasses import replace

from ...faults.disk import Disk
from ...faults.image import Image
from ...faults.profiles import CrashProfile
from ...sim.machine import Machine
from ...sim.network.hosts import HostNetwork
from ...store.config import BrokerRole, FlushDiskType, StoreConfig
from ...store.message_store import MessageStore
from ...store.replication.ha_client import HAClient
from ...store.replication.ha_service import HAService
from ..machine import config_of
from ..plan import Plan

MASTER = "10.0.0.1"
HA_PORT = 10912


class Node:
    """Invariant: while it is off, exactly one of `kept_disk` and `image` is what the next life finds, or it is new."""

    def __init__(self, name: str, host: str, config: StoreConfig) -> None:
        self.name = name
        self.host = host
        self.config = config
        self.machine: Machine | None = None
        self.disk: Disk | None = None
        self.door: HostNetwork | None = None
        self.store: MessageStore | None = None
        """None until it has been loaded."""
        self.ha: HAService | None = None
        self.image: Image | None = None
        self.kept_disk: Disk | None = None
        """The disk of a life that ended in a process kill, for the next life to mount."""

    @property
    def is_master(self) -> bool:
        """Return whether it is the one that users talk to."""
        return self.host == MASTER

    @property
    def is_alive(self) -> bool:
        """Return whether its machine is on."""
        return self.machine is not None and self.machine.alive

    def power_on(self, machine: Machine, disk: Disk, door: HostNetwork) -> None:
        """Begin a life."""
        self.machine, self.disk, self.door = machine, disk, door
        self.store = self.ha = None
        self.kept_disk = None

    def leave_after_crash(self, profile: CrashProfile) -> None:
        """Keep what a crash leaves."""
        assert self.disk is not None, "it has been on"
        if profile.name == "process-kill" and not self.disk.is_stopped:
            self.kept_disk = self.disk
        else:
            self.image = self.disk.crash(profile)

    def leave_after_stop(self) -> None:
        """Keep what a clean stop leaves."""
        assert self.disk is not None, "it has been on"
        self.image = self.disk.settle()

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


def nodes_of(plan: Plan) -> list[Node]:
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
    slaves = [
        Node(f"slave-{number}", f"10.0.0.{number + 1}", of_slaves) for number in range(1, cluster.slaves + 1)
    ]
    return [Node("master", MASTER, shared), *slaves]

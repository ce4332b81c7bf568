"""Network runs: runs of several machines, controlled by a machine without faults."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...faults.disk.disk import Disk
from ...faults.network import NetworkFaults
from ...faults.simulation.disk_lifecycle import DiskLifecycle
from ...sim.machine import Machine
from ...sim.network.hosts import HostNetwork, SimNetwork
from ...store.message_store import MessageStore
from ..claims.plan import Life, LifeEnding
from .execution import Execution

OFF = Life(LifeEnding.CRASH_AT_REST, "nothing-lost", -1, "after", 0)
"""The end of a machine that is switched off, because the plan specifies no end."""


class PoweredMachine(NamedTuple):
    """Machine, disk and network endpoint from one power-on to its end."""

    machine: Machine
    disk: Disk
    endpoint: HostNetwork


class Node:
    """One machine over all its restarts. A restart keeps the disk and replaces the store."""

    def __init__(self, name: str, host: str, lasting: DiskLifecycle) -> None:
        self.name = name
        self.host = host
        self.lasting = lasting
        self.store: MessageStore | None = None
        """The newest store; None until it has been loaded."""
        self._life: PoweredMachine | None = None

    @property
    def is_alive(self) -> bool:
        return self._life is not None and self._life.machine.alive

    @property
    def has_been_on(self) -> bool:
        return self._life is not None

    @property
    def life(self) -> PoweredMachine:
        assert self._life is not None, "the node has been on"
        return self._life

    @property
    def loaded(self) -> MessageStore:
        assert self.store is not None, "the store is loaded"
        return self.store

    def power_on(self, life: PoweredMachine) -> None:
        assert not self.is_alive, f"{self.name} is on"
        self._life = life
        self.store = None

    def set_connection_end_mode(self, life: Life) -> None:
        """Set how the network ends connections. After a process kill the operating system closes them."""
        self.life.endpoint.dies_silently = life.profile != "process-kill"


class NetworkRun(Execution):
    """One run of one plan with several machines."""

    CONDUCTOR: str
    TIME_LIMIT_NS: int

    @property
    @abstractmethod
    def _used_nodes(self) -> Sequence[Node]:
        """Return the nodes that are in use."""

    @abstractmethod
    def _run_lives(self) -> None:
        """Run all lives of the plan, then end all faults."""

    def _prepare(self) -> None:
        self._links = NetworkFaults(self._kernel, self._choices.stream("network"), self._plan.network)
        self._network = SimNetwork(self._kernel, self._links, buffer_bytes=self._plan.broker.buffer_bytes)
        self._director = self._kernel.create_machine(self.CONDUCTOR)

    def _run_all_lives(self) -> None:
        with self._judge.judged_errors():
            try:
                self._kernel.run(self._director, self._run_lives, time_limit_ns=self.TIME_LIMIT_NS)
            finally:
                self._disturbances.stop()

    def _injection_counters(self) -> Iterable[Counter[str]]:
        return [self._links.injected, self._disturbances.injected]

    def _switch_on(self, node: Node, name: str, disk: Disk) -> Machine:
        machine = self._kernel.create_machine(name)
        node.power_on(PoweredMachine(machine, disk, self._network.connect_machine(machine, node.host)))
        return machine

    def _run_on_machine(self, machine: Machine, name: str, body: Callable[[], None]) -> None:
        self._kernel.spawn(machine, name, body).join(None)

    def _heal_disks(self) -> None:
        for node in self._used_nodes:
            node.life.disk.cancel_crash_trigger()
            node.life.disk.capacity_bytes = None
            node.life.disk.heal()

    def _await_pending_operations(self, until_ns: int = 0) -> None:
        """Wait for pending disk operations, which may be slow or still fail. until_ns: the end of other delays."""
        last_ns = max(until_ns, *(node.life.disk.slow_until_ns for node in self._used_nodes))
        left_ms = max(last_ns - self._kernel.now_ns, 0) // 1_000_000
        self._director.tasks.sleep(left_ms + self._plan.sync_ms_max + 1)

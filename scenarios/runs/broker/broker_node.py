"""The broker's node: its machine through all its lives."""

from collections.abc import Iterator
from dataclasses import replace

from ....faults.disk.disk import Disk
from ....sim.errors import MachineDied
from ....sim.kernel import Kernel
from ....sim.machine import Machine
from ....sim.network.hosts import HostNetwork
from ....store.broker.broker import Broker
from ....store.broker.broker_config import BrokerConfig
from ....store.broker.limits import POOL_LIMITS, PoolLimits, ServerLimits
from ....store.broker.server import RemotingServer
from ....store.errors import CorruptFileError
from ....store.message_store import MessageStore
from ....store.world import World
from ...claims.machine import CONFIG, CONSUMER_OFFSET_INTERVAL_MS, config_of, world_of
from ...claims.plan import Plan
from ...oracle import allowances
from ...oracle.evidence import place_of, tried
from ...oracle.invariants import quiescence
from ...oracle.invariants.quiescence import Cursor
from ...oracle.judge import Judge
from ...oracle.recovered import read_store
from ..settling import Settling
from .client_ledger import ClientLedger

HOST = "10.0.0.1"
PORT = 10911
ADDRESS = f"{HOST}:{PORT}"
_POOL_BUFFERS = 4
"""Two are the log's at all times; a broker turns producers away while none is left beside them."""
TRANSACTION_MS = 1_000
"""After how long a producer is asked about a half message, and between two such questions."""


class BrokerNode:
    """Invariant: `store` is that of the newest life, if that has got as far as to have one."""

    host = HOST

    def __init__(self, plan: Plan, kernel: Kernel, judge: Judge, settling: Settling, clients: ClientLedger) -> None:
        self.store: MessageStore | None = None
        """None until it has been loaded."""
        self._plan = plan
        self._kernel = kernel
        self._judge = judge
        self._settling = settling
        self._clients = clients
        self._config = replace(config_of(plan), transient_store_pool_size=_POOL_BUFFERS)
        self._broker_config = BrokerConfig(
            broker_ip1=HOST,
            listen_port=PORT,
            ha_host=HOST,
            default_topic_queue_nums=plan.queues_per_topic,
            flush_consumer_offset_interval_ms=CONSUMER_OFFSET_INTERVAL_MS,
            enable_property_filter=plan.consuming.filtered,
            transaction_timeout_ms=TRANSACTION_MS,
            transaction_check_interval_ms=TRANSACTION_MS,
        )
        pools = {
            pool: PoolLimits(plan.broker.tasks_each, limits.queue_capacity, limits.wait_ms_max)
            for pool, limits in POOL_LIMITS.items()
        }
        self._limits = ServerLimits(pools)
        self._life: tuple[Machine, Disk, HostNetwork] | None = None
        self._server: RemotingServer | None = None
        self._broker: Broker | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether its machine is on."""
        return self._life is not None and self._life[0].alive

    @property
    def running(self) -> tuple[Machine, Disk, HostNetwork]:
        """Return machine, disk and network of the newest life."""
        assert self._life is not None, "it has been switched on"
        return self._life

    # -- tasks of its machine ----------------------------------------------------------------------

    def boot(self, machine: Machine, disk: Disk, endpoint: HostNetwork) -> None:
        """Begin a life: load, be judged, and answer requests."""
        self._life = (machine, disk, endpoint)
        self.store = None
        world = world_of(machine, disk, endpoint)
        server = self._server = RemotingServer(world, self._limits)
        server.listen([ADDRESS])
        broker = self._broker = self._load(world, disk, machine)
        self._recovered(broker, disk)
        try:
            broker.start()
        except OSError as error:
            self._die_excused(disk, machine, error)
            raise
        closed, answered = broker.channel_closed, broker.calls.answered
        server.start(broker.routes(), on_channel_closed=closed, on_response=answered)

    def stop(self) -> None:
        """End a life in good order."""
        machine, disk, _ = self.running
        assert self._server is not None, "it has been started"
        assert self._broker is not None, "it has been started"
        self._broker.held_pulls.release()
        if not self._server.shutdown() and not allowances.delays(disk, self._plan):
            summary = "requests are not answered at a stop"
            self._judge.broken("LIVE", summary, "server", "all done", "some not")
        plan, clean = self._plan, self._broker.shutdown()
        has_room = not plan.capacity_bytes and not plan.faults.failed_creation_chance
        self._settling.stop(self._broker.own_store, disk, machine, clean=clean, has_room=has_room)

    def cursors(self) -> Iterator[Cursor]:
        """Yield what beside the store is to come to its end."""
        broker, store, (_, disk, _) = self._broker, self.store, self.running
        assert broker is not None, "it has been started"
        assert store is not None, "it has been loaded"
        offsets, plan = broker.offsets, self._plan
        yield from quiescence.consuming(store, plan, disk, offsets, CONSUMER_OFFSET_INTERVAL_MS)
        if plan.delay.chance:
            yield from quiescence.delivering(store, plan, disk)
        if plan.transactions.chance:
            yield from quiescence.deciding(store, plan, offsets, broker.transactions.config)

    @property
    def has_kept_progress(self) -> bool:
        """Return whether the last time that consumers' progress was persisted the disk let it."""
        assert self._broker is not None, "it has been started"
        return self._broker.offsets.last_error is None

    def look(self, machine: Machine, disk: Disk, *, settled: bool, shown: bool) -> None:
        """Load once more, judge what is there, and start nothing.

        settled: whether transactions must have been decided; shown: whether consumers must have been given everything.
        """
        broker = self._load(world_of(machine, disk), disk, machine)
        self._recovered(broker, disk)
        records = read_store(broker.own_store).records
        if settled:
            self._judge.report(self._clients.check_decided(records))
        if shown:
            self._judge.report(self._clients.check_shown(records))

    def _load(self, world: World, disk: Disk, machine: Machine) -> Broker:
        broker = Broker(world, self._config, self._broker_config)
        try:
            broker.load()
        except Exception as error:
            if isinstance(error, OSError):
                self._die_excused(disk, machine, error)
            is_progress = isinstance(error, CorruptFileError) and error.file.startswith(CONFIG)
            invariant = "META" if is_progress else "START"
            summary = f"the broker cannot be opened: {type(error).__name__}: {error}"
            self._judge.broken(invariant, summary, "load", "", "", detail=f"raised in {place_of(error)}")
        return broker

    def _die_excused(self, disk: Disk, machine: Machine, error: OSError) -> None:
        """Let a machine die whose broker gives up because the disk failed it; if it has not, nobody is excused."""
        if allowances.has_met_any(disk):
            self._kernel.kill(machine)
            raise MachineDied(machine.name) from error

    def _recovered(self, broker: Broker, disk: Disk) -> None:
        """Judge what a recovery has made of the last life, and note what it settles."""
        store = broker.own_store
        topics = {name: topic.write_queue_nums for name, topic in broker.topics.table.items()}
        self._judge.report(self._clients.check_tables(topics, broker.groups.table))
        if store.log.segments:
            tried("START")
        found = self._judge.recovery_alone(store, disk)
        self._judge.report(self._clients.check_recovery(found.records))
        # What a failed sync dropped, a process that is killed leaves in a page cache that calls it clean.
        self._clients.note_recovery(found.records, durable=not allowances.sync_errors(disk))
        self.store = store

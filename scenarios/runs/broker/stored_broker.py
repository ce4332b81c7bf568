"""Stored brokers: a broker's identity, disk, loads and replication over all its restarts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from ....faults.crashes.profiles import CrashProfile
from ....faults.disk.disk import Disk
from ....faults.disk.image import Image
from ....faults.simulation.disk_lifecycle import DiskLifecycle
from ....sim.kernel import Kernel
from ....sim.machine import Machine
from ....store.broker.broker import Broker
from ....store.broker.broker_config import MASTER_ID
from ....store.broker.outer_api import INTERVAL_MS, REGISTER_TIMEOUT_MS, SYNCHRONIZE_TIMEOUT_MS, BrokerRegistration
from ....store.errors import DivergedError
from ....store.message_store import MessageStore
from ....store.recovery.recovery import RecoveryReport
from ....store.replication.ha_client import HAClient
from ....store.replication.ha_service import HAService
from ....store.settings.conf_file import ConfFile
from ....store.world import Files, World
from ...claims.machine import core_of, world_of
from ...claims.plan import Plan
from ...oracle.disk_space import DiskRoom, WatchedRemovals
from ...oracle.evidence import Evidence, Violation
from ...oracle.invariants import consumers, delivery, quiescence, rep, retries, side_files, tx
from ...oracle.invariants.quiescence import Cursor
from ...oracle.invariants.side_files import WatchedSideFile
from ...oracle.name_server_keys import NameServerKeys
from ...oracle.operator_tables import group_settings, topic_settings
from ...oracle.recovered import read_store
from ...oracle.replicas import MasterHistory
from ...workload.damage import image_with_file
from ..loading import load_judged
from ..machines import Node, PoweredMachine
from ..settling import Settling
from .account import BrokerAccount
from .broker_replication import BrokerReplication
from .broker_settings import CONF_PATH, REGISTER_MS, add_conf, broker_config_of, name_servers_of
from .identities import BrokerIdentity, store_config_of
from .watched_copies import WatchedCopies
from .watched_routes import FindTables


class BrokerSharing(NamedTuple):
    """Parts of a run that a node shares. Slaves share settling, account, history and replication with their master."""

    plan: Plan
    kernel: Kernel
    settling: Settling
    account: BrokerAccount
    history: MasterHistory
    replication: BrokerReplication | None
    """That of the broker's name, if it has slaves."""
    find_master: Callable[[], Broker | None]
    """Returns the running broker that slaves follow."""
    find_tables: FindTables
    find_keys: Callable[[str], NameServerKeys]
    """Returns the keys of the name server in the broker at an address."""
    pause_woken: Callable[[], None]
    """Called by a service of the broker that wakes up. See `Disturbances.pause_woken`."""


class StoredBroker(Node):
    """The data of one broker. A promoted slave keeps its data and gets its master's identity."""

    def __init__(
        self, shared: BrokerSharing, identity: BrokerIdentity, others: Sequence[BrokerIdentity], lasting: DiskLifecycle
    ) -> None:
        """others: the other brokers of the run. lasting: the node's disk."""
        super().__init__(identity.name, identity.host, lasting)
        self._plan, self._kernel, self.settling, self.account, self._history, self._replication, *_ = shared
        self._judge = self.settling.judge
        self._set_identity(identity, others)
        self.is_disk_kept = True
        """Whether the machine is off and its disk is kept for the next start."""
        self.is_stopping = False
        self._has_shut_down = False
        """Whether the store has closed its files since the last start."""
        self._broker: Broker | None = None
        self._logged: list[DivergedError] = []
        self._find_master = shared.find_master
        self.copies: WatchedCopies | None = self._make_copies() if self.is_slave else None
        """The value is None unless the node was a slave."""
        self._has_been_master = False
        """Whether the node is a slave that was a master before."""

    def _make_copies(self) -> WatchedCopies:
        return WatchedCopies(
            self.name,
            self._kernel,
            self.account.commits,
            self._find_master,
            self._judge.report,
            light_queues=self._plan.light_queues.chance > 0,
        )

    def _set_identity(self, identity: BrokerIdentity, others: Sequence[BrokerIdentity]) -> None:
        self.identity = identity
        self.is_slave = identity.address.is_slave
        self._masters: set[str] = set()
        """The hosts of the present and former masters of the name. Name servers list a lost master for some time."""
        self.set_other_brokers(others)
        self.config = store_config_of(self._plan, identity, others)
        self._broker_config = broker_config_of(
            self._plan, identity.address, [other.address for other in others], self._kernel.wall_start_ms
        )

    def set_other_brokers(self, others: Sequence[BrokerIdentity]) -> None:
        self._others = others
        named = [each for each in others if each.address.broker == self.identity.address.broker]
        self._masters |= {each.host for each in named if not each.address.is_slave}
        self._names: dict[str, dict[int, str]] = {}
        addresses = sorted(each.address for each in (self.identity, *others))
        for own in addresses:
            name_servers = name_servers_of(self._plan, own, [each for each in addresses if each != own])
            if self.identity.address in (own, *name_servers):
                self._names.setdefault(own.broker, {})[own.broker_id] = own.address

    def take_over(self, others: Sequence[BrokerIdentity]) -> None:
        """Make a slave the master from the next start on. others: the remaining brokers."""
        if self._replication is not None:
            self._replication.forget_master()
        self._set_identity(self.identity.with_id(MASTER_ID), others)

    def follow_new_master(self, others: Sequence[BrokerIdentity]) -> None:
        """Change the settings of a slave after a take-over, from its next start on. others: all other brokers."""
        former = self._masters
        self._set_identity(self.identity, others)
        self._masters |= former

    def return_as_slave(self, broker_id: int, others: Sequence[BrokerIdentity]) -> None:
        """Make a lost master a slave from its next start on, with the disk that it had. others: all other brokers."""
        self._set_identity(self.identity.with_id(broker_id), others)
        self._masters.add(self.host)
        self._has_been_master = True
        self.copies, image = self._make_copies(), self.lasting.next_image()
        assert image is not None, "a master that was lost has a disk"
        self.copies.expect_files({path: bytes(file.content) for path, file in image.files.items()})

    def power_on(self, life: PoweredMachine) -> None:
        assert self.is_disk_kept, f"{self.name}: the disk of its last life is kept"
        super().power_on(life)
        self.is_disk_kept = self.is_stopping = self._has_shut_down = False

    @property
    def is_master(self) -> bool:
        return not self.is_slave

    @property
    def running(self) -> tuple[MessageStore, Disk, Machine]:
        return self.loaded, self.life.disk, self.life.machine

    @property
    def service(self) -> HAService:
        broker, _ = self._loaded_store
        assert broker.ha is not None, "there is a network"
        return broker.ha

    @property
    def client(self) -> HAClient:
        assert self.service.client is not None, "the broker is a slave"
        return self.service.client

    @property
    def _loaded_store(self) -> tuple[Broker, MessageStore]:
        assert self._broker is not None, "the broker has been started"
        return self._broker, self.loaded

    def replace_disk(self, tables: Mapping[str, bytes]) -> None:
        """Replace the disk of a slave that is off by one with these files of tables and without a log."""
        assert self.is_disk_kept, f"{self.name} is on"
        assert self.copies is not None, "only slaves lose their disks"
        self.lasting.next_image()
        image = Image({}, ())
        for path, raw in tables.items():
            image = image_with_file(image, path, raw)
        self.lasting.set_next_image(image if tables else None)
        self.copies.expect_files(tables)
        assert self._replication is not None, "the node is a slave"
        self._replication.replicas.record_new_disk(self.host)

    def record_crash(self, profile: CrashProfile) -> None:
        """Record that a slave has lost the data that was only in its page cache."""
        assert self._replication is not None, "the node is a slave"
        self._replication.slave_crashed(self, profile, sync_flush=self._plan.cluster.slave_sync_flush)

    def record_log(self) -> None:
        if self.store is not None and not self.is_slave and not self._has_shut_down:
            self._history.extend(self.store.log)

    def record_expired_before(self, log_offset: int) -> None:
        """Record that segments before a log offset are about to be removed. Slaves may still have them."""
        self.record_log()
        self.account.ledger.record_expired_before(log_offset)

    def record_queue_end(self, place: tuple[str, int]) -> None:
        """Report that the broker is about to remove a queue's last file without an operator's request."""
        summary = f"the queue {place[0]}/{place[1]} is removed"
        self._judge.report_and_stop("CLEAN", summary, "files", "at least one", "none")

    def load_and_judge(self, machine: Machine, disk: Disk, *, settled: bool, shown: bool) -> None:
        """Load the store again without starting it, and check it.

        settled: whether all transactions must be decided or given up; shown: whether consumers must have all messages.
        """
        broker = self._load(world_of(machine, disk, core=core_of(self._plan)), disk, machine)
        self._judge_recovery(broker, disk)
        if self.is_slave or not settled:
            return
        plan, account = self._plan, self.account
        evidence = Evidence(account.ledger, read_store(broker.own_store))
        self._judge.report(tx.check_committed(evidence, resumed=plan.broker.resumes_checks))
        self._judge.report(delivery.check_all_delivered(evidence))
        self._judge.report(retries.check_retries(evidence, settled=True))
        if shown:
            wants = account.subscription.wants
            self._judge.report(consumers.check_all_handled(account.ledger, account.group, evidence.store, wants))

    def _load(self, world: World, disk: Disk, machine: Machine) -> Broker:
        removals = None
        if self._plan.retention.deletes_segments and not self.is_slave:
            room = DiskRoom(self._kernel, disk, self.settling.paused_ns)
            removals = WatchedRemovals(world.files, disk, room, self, self._judge.report)
            world = replace(world, files=cast(Files, removals))
        # Operators change the settings of a process in place.
        config, broker_config = replace(self.config), replace(self._broker_config)
        has_conf = self._plan.broker.has_conf and not self.is_slave
        if has_conf:
            config, broker_config = add_conf(world.files, config, broker_config)
        broker = Broker(world, config, broker_config)
        if has_conf:
            broker.settings.file = ConfFile(world.files, CONF_PATH)
        progress = self.account.ledger.delay_progress
        if self.copies is not None:
            self.copies.watch_files(broker)
        if not self.is_slave:
            self.account.tables.begin_process()
            judge = partial(self._judge.judge_delivery_progress, broker.own_store, disk)
            broker.own_store.schedule.file = WatchedSideFile(world.files, progress, judge)

        def load() -> tuple[MessageStore, RecoveryReport | None]:
            broker.load()
            return broker.own_store, broker.own_store.last_recovery

        store = load_judged(self._kernel, self._plan, self._judge, machine, disk, self.config, load)
        if removals is not None:
            removals.store = store
        if self.copies is not None:
            self.copies.check_loaded(broker)
        if not self.is_slave:
            self._judge.report(side_files.check_version(progress))
            progress.mark_loaded_durable()
        return broker

    def _judge_recovery(self, broker: Broker, disk: Disk) -> None:
        store = broker.own_store
        if self.is_slave:
            assert self._replication is not None, "a slave has a master"
            self._replication.slave_recovered(self, store, disk)
            self.store = store
            return
        topics = {name: topic.queue_nums for name, topic in broker.topics.table.items()}
        queues = None if self._plan.broker.operators else self._plan.queues_per_topic
        self._judge.report(side_files.check_tables(self.account.ledger, topics, broker.groups.table, queues))
        now_ns = self._kernel.now_ns
        if self._plan.broker.operators:
            by_name = {name: topic_settings(each.json_members) for name, each in broker.topics.table.items()}
            self._judge.report(self.account.tables.topics.check_loaded(by_name, now_ns))
            by_name = {name: group_settings(each.json_members) for name, each in broker.groups.table.items()}
            self._judge.report(self.account.tables.groups.check_loaded(by_name, now_ns))
        if self._plan.broker.has_conf:
            table = {key: (text,) for key, text in broker.settings.table.items()}
            self._judge.report(self.account.tables.settings.check_loaded(table, now_ns))
        found = self._judge.judge_recovery(store, disk)
        self._judge.report(retries.check_retries(Evidence(self.account.ledger, found)))
        self.account.note_recovery(found)
        if self._replication is None:
            self._history.begin(store.log)
        else:
            self._replication.master_recovered(store)
        self.store = store

    def cursors(self) -> Iterator[Cursor]:
        """Yield the cursors of a broker without those of its store."""
        (broker, store), (_, disk, _) = self._loaded_store, self.life
        offsets, plan = broker.offsets, self._plan
        yield from quiescence.consumer_progress_cursors(store, plan, disk, offsets, offsets.flush_interval_ms)
        if plan.delay.chance or plan.broker.send_back_chance or plan.retry.failing_consumers:
            yield from quiescence.delivery_cursors(store, plan, disk)
        yield from self.route_cursors()
        if plan.transactions.chance:
            yield from quiescence.transaction_cursors(store, plan, offsets, broker.transactions.config)

    def route_cursors(self) -> Iterator[Cursor]:
        """Yield a cursor for the broker's routes as a name server. All brokers must run."""
        broker, _ = self._loaded_store
        known, wanted = broker.name_server.cluster_info()["brokerAddrTable"], self._names
        at = {name: each["brokerAddrs"] for name, each in known.items()}
        within_ms = 2 * REGISTER_MS + len(self._others) * REGISTER_TIMEOUT_MS
        yield Cursor(f"routes at {self.name}", BrokerRegistration.name, at, wanted, within_ms)

    def slave_cursors(self, master: "StoredBroker") -> Iterator[Cursor]:
        """Yield the cursors of a slave's log, tables and offsets. Each target is the value at the slave's master."""
        (slave, store), (broker, own) = self._loaded_store, master._loaded_store
        assert broker.ha is not None, "there is a network"
        # the read of reported offsets is a scheduling point, so it comes first
        reports = [
            each.reported_offset for each in broker.ha.connections if each.remote_address.startswith(f"{self.host}:")
        ]
        names = self.client.name, self.name
        within_ms = quiescence.following_ms_max(store, self._plan, own.log.max_offset) + 2 * REGISTER_MS
        yield from quiescence.replication_cursors(*names, store, own, reports, within_ms)
        assert slave.synchronize is not None, "the broker is a slave"
        within_ms += INTERVAL_MS + 4 * SYNCHRONIZE_TIMEOUT_MS
        tables: dict[str, tuple[object, object]] = {
            "topics": (slave.topics.table, broker.topics.table),
            "groups": (slave.groups.table, broker.groups.table),
            "progress of groups": (slave.offsets.json_members, broker.offsets.json_members),
            "progress of delays": (slave.own_store.schedule.offsets, broker.own_store.schedule.offsets),
        }
        yield from self.route_cursors()
        for name, (at, end) in tables.items():
            yield Cursor(f"{name} of {self.name}", slave.synchronize.name, at, end, within_ms)

    @property
    def cannot_follow(self) -> bool:
        """Return whether a slave has diverged for a good reason.

        Its master's retention has removed the next segment, or it was a master itself, with a longer log.
        """
        may_diverge = self._plan.retention.deletes_segments or self._has_been_master
        return may_diverge and self.client.diverged is not None

    def check_replica(self, master: "StoredBroker") -> Iterator[Violation]:
        (_, store), (_, own), diverged = self._loaded_store, master._loaded_store, self.client.diverged
        why, is_logged = None if diverged is None else str(diverged), diverged in self._logged
        yield from rep.check_slave_settled(self.name, store, own, why, is_logged=is_logged)

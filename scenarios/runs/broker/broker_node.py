"""Broker nodes: the machines of masters and slaves."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import cast

from ....faults.crashes.profiles import CrashProfile
from ....faults.disk.disk import Disk
from ....faults.disk.image import Image
from ....faults.simulation.disk_lifecycle import DiskLifecycle
from ....sim.errors import MachineDied
from ....sim.kernel import Kernel
from ....sim.machine import Machine
from ....store.broker import client_calls
from ....store.broker.broker import Broker
from ....store.broker.broker_config import MASTER_ID
from ....store.broker.limits import POOL_LIMITS, PoolLimits, ServerLimits
from ....store.broker.outer_api import INTERVAL_MS, REGISTER_TIMEOUT_MS, SYNCHRONIZE_TIMEOUT_MS, BrokerRegistration
from ....store.broker.router import Channel, Pool
from ....store.broker.server import AccessCheck, RemotingServer
from ....store.broker.session import Session
from ....store.errors import DivergedError
from ....store.message_store import MessageStore
from ....store.network import Network
from ....store.recovery.recovery import RecoveryReport
from ....store.replication.ha_client import HAClient
from ....store.replication.ha_service import HAService
from ....store.world import Files, Signal, Task, World
from ...claims.machine import core_of, world_of
from ...claims.plan import Plan
from ...oracle import allowances
from ...oracle.disk_space import DiskRoom, WatchedRemovals
from ...oracle.evidence import Evidence, Violation
from ...oracle.invariants import consumers, delivery, live, quiescence, rep, retries, side_files, tx
from ...oracle.invariants.quiescence import Cursor
from ...oracle.invariants.routes import Presence
from ...oracle.invariants.side_files import WatchedSideFile
from ...oracle.name_server_keys import NameServerKeys
from ...oracle.recovered import read_store
from ...oracle.replicas import MasterHistory
from ...workload import operators
from ...workload.damage import image_with_file
from ..loading import die_if_excused, load_judged
from ..machines import Node, PoweredMachine
from ..settling import Settling
from .access_file import access_operator, load_access
from .account import BrokerAccount
from .broker_replication import BrokerReplication
from .broker_settings import REGISTER_MS, broker_config_of, make_tables_of_users
from .identities import BrokerIdentity, store_config_of
from .operator_client import group_settings, topic_settings
from .watched_copies import WatchedCopies, note_commits
from .watched_requests import WatchedRequests
from .watched_routes import FindTables, OwnBroker

_LIMITED_POOLS = (Pool.SEND_MESSAGE, Pool.PULL_MESSAGE)


class BrokerNode(Node):
    """One broker over all its restarts."""

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        settling: Settling,
        identity: BrokerIdentity,
        others: Sequence[BrokerIdentity],
        account: BrokerAccount,
        history: MasterHistory,
        lasting: DiskLifecycle,
        find_master: Callable[[], "BrokerNode"],
        find_tables: FindTables,
        replication: BrokerReplication | None,
    ) -> None:
        """settling, account and history belong to the broker or its master. lasting: the node's disk.

        find_master: returns the node that slaves follow. replication: that of the broker's name, if it has slaves.
        """
        super().__init__(identity.name, identity.host, lasting)
        self.account = account
        self.settling = settling
        self._plan = plan
        self._kernel = kernel
        self._judge = settling.judge
        self._history = history
        self._find_tables = find_tables
        self._replication = replication
        self.is_stopping = False
        self._set_identity(identity, others)
        pools = {
            pool: PoolLimits(
                plan.broker.tasks_each,
                min(limits.queue_capacity, plan.broker.queued_requests_max)
                if pool in _LIMITED_POOLS
                else limits.queue_capacity,
                limits.wait_ms_max,
                of_one_host_tasks=limits.of_one_host_tasks and plan.broker.tasks_of_host_max,
            )
            for pool, limits in POOL_LIMITS.items()
        }
        limits = ServerLimits(pools, idle_ms_max=plan.broker.idle_ms_max)
        pending_bytes_max = plan.broker.pending_requests_max * limits.request_bytes_least
        self._limits = replace(
            limits, requests_bytes_max=pending_bytes_max, output_pause_bytes=plan.broker.output_pause_bytes
        )
        self._serves_since_ns: int | None = None
        """Virtual time at which the broker began to answer requests; None while it starts, stops or is off."""
        self.died_ns = 0
        """Virtual time of the node's last stop or crash, which the run notices later."""
        self.is_disk_kept = True
        """Whether the machine is off and its disk is kept for the next start."""
        self._has_shut_down = False
        """Whether the store has closed its files since the last start."""
        self._server: RemotingServer | None = None
        self._broker: Broker | None = None
        self._operators: dict[str, tuple[Task, Signal]] = {}
        self._requests: WatchedRequests | None = None
        """The value is None until the broker accepts requests."""
        self._closed_ns: dict[Session, int] = {}
        """Connection since the last start -> virtual time at which the broker had handled its end."""
        self._logged: list[DivergedError] = []
        self._keys = NameServerKeys()
        self._find_master = find_master
        self.copies: WatchedCopies | None = self._make_copies() if self.is_slave else None
        """The value is None unless the node was a slave."""
        self._has_been_master = False
        """Whether the node is a slave that was a master before."""

    def _make_copies(self) -> WatchedCopies:
        return WatchedCopies(
            self.name,
            self._kernel,
            self.account.commits,
            lambda: self._find_master().serving_broker,
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
        for address in sorted(each.address for each in (self.identity, *others)):
            self._names.setdefault(address.broker, {})[address.broker_id] = address.address

    def take_over(self, others: Sequence[BrokerIdentity]) -> None:
        """Make a slave the master from the next start on. others: the remaining brokers."""
        if self._replication is not None:
            self._replication.forget_master()
        self._set_identity(self.identity.with_id(MASTER_ID), others)

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
        self.is_disk_kept = False
        life.machine.at_death.append(self._note_death)
        self._has_shut_down = self.is_stopping = False
        self._operators = {}
        self._requests = None
        self._closed_ns = {}

    @property
    def has_been_on(self) -> bool:
        return self._life is not None

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

    def _note_death(self) -> None:
        self.died_ns = self._kernel.now_ns
        self._serves_since_ns = None

    @property
    def presence(self) -> Presence:
        if self.is_alive or self._life is None:
            registrations = () if self._broker is None else self._broker.registrations
            timed_out_at = [each.address for each in registrations if isinstance(each.last_error, TimeoutError)]
            return Presence(self._serves_since_ns, None, timed_out_at=timed_out_at)
        return Presence(None, self.died_ns, self.life.endpoint.dies_silently is not False)

    @property
    def serving_broker(self) -> Broker | None:
        return self._broker if self.is_alive and self._serves_since_ns is not None else None

    # -- tasks of the machine ---------------------------------------------------------------------

    def boot(self) -> None:
        machine, disk, endpoint = self.life
        network: Network = endpoint if self._replication is None else self._replication.network_of(self, endpoint)
        world = world_of(machine, disk, network, core=core_of(self._plan))
        server = self._server = RemotingServer(world, self._limits)
        server.on_failure = self._end_process
        server.listen([self.identity.address.address])
        broker = self._broker = self._load_store_of_life(world, disk, machine)
        self._judge_recovery(broker, disk)
        self._keys.begin_process()
        self._judge.report(self._keys.check_loaded(broker.name_server.kv.namespace))
        if not self.is_slave:
            self._record_delivery_start()
        self._logged = []
        if self._replication is not None:
            self._replication.watch(self)
        if self.is_slave:
            self.client.on_diverged = lambda master, error: self._logged.append(error)
        if self._plan.cluster.slaves:
            note_commits(broker.offsets, self.account.commits)
        if self.copies is not None and self.is_slave:
            self.copies.watch_copies(broker)
            self.copies.watch_masters(broker, self._masters)
        try:
            with self._timed_step("a start"):
                broker.start()
            if not self.is_slave:
                make_tables_of_users(broker, self._plan)
        except OSError as error:
            die_if_excused(self._kernel, machine, disk, error)
            raise
        report, ledger, paused_ns = self._judge.report, self.account.ledger, self.settling.paused_ns
        cluster, closed_ns = broker.config.broker_cluster_name, self._closed_ns
        own = OwnBroker(
            *(self.identity.address, cluster, lambda topic: topic in broker.topics.table),
            *(lambda line: line in closed_ns, self._keys),
            None if self._others else lambda: {name: each.order for name, each in broker.topics.table.items()},
        )
        requests = WatchedRequests(
            *(self._plan, self._kernel, self.loaded, disk, report, lambda: ledger.expired_to),
            *(paused_ns, own, self._find_tables),
        )
        routes, answered = requests.judged_routes(broker.routes(), broker.held_pulls), broker.calls.deliver_response
        if self._plan.broker.group_members:
            requests.watch_locks(broker, self.account.locks)
        check = self._start_access(world, broker, server)
        server.start(routes, check=check, on_channel_closed=self._channel_closed, on_response=answered)
        self._requests, self._serves_since_ns = requests, self._kernel.now_ns
        if self._plan.retention.deletes_segments and not self.is_slave:  # slaves remove no segments
            stream = self.settling.streams(f"{machine.name}/retention")
            self._start_operator("retention operator", partial(operators.retention_operator, self.loaded, stream))
        if self._plan.broker.resumes_checks:
            stream, note = self.settling.streams(f"{machine.name}/resumed"), self._note_resumed
            resuming = partial(operators.resuming_operator, self.loaded, broker.transactions, stream, on_resumed=note)
            self._start_operator("resuming operator", resuming)

    def _start_access(self, world: World, broker: Broker, server: RemotingServer) -> AccessCheck | None:
        """Read the file with the accounts, and watch it. Without accounts, return None."""
        model = self.account.access
        if model is None:
            return None
        access = broker.access = load_access(world, model)
        self._judge.report(model.check_loaded(access.read_text()))
        access.on_failure = server.record_service_failure
        access.start()
        if self._plan.access.edited_by_hand:
            stream = self.settling.streams(f"{self.life.machine.name}/accounts")
            self._start_operator("editor of accounts", access_operator(world, model, self._plan, stream))
        return access.check_access

    def _record_delivery_start(self) -> None:
        store, plan = self.loaded, self._plan
        limit_ms = live.delivery_ms_max(plan) + live.hidden_ms_max(plan)
        late_ms_max = limit_ms if live.is_calm(plan) and not plan.capacity_bytes else None
        began_ms = max(store.world.clock.now_ms(), store.commit_log.last_store_timestamp_ms)
        self.account.ledger.begin_delivery(
            store.log.max_offset, store.schedule.offsets, began_ms=began_ms, late_ms_max=late_ms_max
        )

    def _end_process(self) -> None:
        """End the process as `tornlog serve` does after its server failed.

        LIVE: report every error but that of a poll or a disk with faults, because a restart would hide a bug.
        """
        machine, disk, endpoint = self.life
        error = sys.exception()  # the failed task calls this method while it handles the error
        may_fail = self._plan.network.failed_poll_chance > 0 or allowances.has_any_fault(disk)
        if not (isinstance(error, OSError) and may_fail):
            summary, found = f"the process of {self.name} ends", f"{type(error).__name__}: {error}"
            self._judge.report_and_stop("LIVE", summary, "server", "all tasks run", found)
        endpoint.dies_silently = False
        self._kernel.kill(machine)
        raise MachineDied(machine.name)

    def _channel_closed(self, channel: Channel) -> None:
        broker, _ = self._loaded_store
        broker.channel_closed(channel)
        assert isinstance(channel, Session), channel
        self._closed_ns[channel] = self._kernel.now_ns

    def _start_operator(self, name: str, work: Callable[[Callable[[int | None], bool]], Callable[[], None]]) -> None:
        machine, _, _ = self.life
        closing = machine.tasks.signal(name)
        self._operators[name] = machine.tasks.spawn(name, work(closing.wait)), closing

    def _stop_operator(self, name: str) -> None:
        task, closing = self._operators.pop(name)
        closing.notify()
        task.join(None)

    def _note_resumed(self, count: int = 1) -> None:
        self.account.hits["transaction check resumed"] += count
        self.account.ledger.transactions.resumed += count

    def resume_all(self) -> None:
        """End the operator, and resume all checks that were given up."""
        broker, store = self._loaded_store
        self._stop_operator("resuming operator")
        self._note_resumed(operators.resume_all(store, broker.transactions))

    def stop(self) -> None:
        machine, disk, _ = self.life
        assert self._server is not None, "the broker has been started"
        assert self._broker is not None, "the broker has been started"
        self._serves_since_ns = None
        self.is_stopping = True
        for name in tuple(self._operators):
            self._stop_operator(name)
        if not self.is_slave:
            self.account.pull_times.note_stopping()
            self.account.questions.note_stopping(self._kernel.now_ns)
        self._broker.held_pulls.release()
        self._await_answers_to_held_pulls()
        with self._timed_step("a stop"):
            if not self._server.shutdown() and not allowances.count_delays(disk, self._plan):
                summary = "a stop leaves requests without an answer"
                self._judge.report_and_stop("LIVE", summary, "server", "all done", "some not")
            self._judge.report(self._check_pending(self._kernel.now_ns, limit_ms=0))
            self.record_log()
            if self._broker.access is not None:
                self._broker.access.shutdown()
            plan, clean = self._plan, self._broker.shutdown()
        self._has_shut_down = True
        if self._replication is not None and not self.is_slave:
            self._replication.check_stopped()
        has_room = not plan.capacity_bytes and not plan.faults.failed_creation_chance
        self.settling.stop(self._broker.own_store, disk, machine, clean=clean, has_room=has_room)

    def _await_answers_to_held_pulls(self) -> None:
        """LIVE: a broker that stops answers all held pulls first. Another task may still answer some of them."""
        assert self._requests is not None, "the broker accepts requests"
        until_ns = self._kernel.now_ns + live.request_ms_max(self._plan) * 1_000_000
        while waiting := self._requests.count_held():
            if self._kernel.now_ns > until_ns:
                self._judge.report_and_stop("LIVE", "a stop leaves held pulls", "held pulls", "0", str(waiting))
            self.life.machine.tasks.sleep(1)

    def _timed_step(self, name: str) -> AbstractContextManager[None]:
        """Limit the time of a start or a stop, unless it may wait for a connection to another broker."""
        if self._others:
            return nullcontext()
        requests_ms = client_calls.TIMEOUT_MS if self.account.questions.is_waiting(self._kernel.now_ns) else 0
        return self._judge.timed_step(name, self.loaded, requests_ms=requests_ms)

    def clean(self) -> None:
        self.settling.await_retention(self.loaded, self.life.disk)

    def record_expired_before(self, log_offset: int) -> None:
        """Record that segments before a log offset are about to be removed. Slaves may still have them."""
        self.record_log()
        self.account.ledger.record_expired_before(log_offset)

    def record_queue_end(self, place: tuple[str, int]) -> None:
        """Report that the broker is about to remove a queue's last file without an operator's request."""
        summary = f"the queue {place[0]}/{place[1]} is removed"
        self._judge.report_and_stop("CLEAN", summary, "files", "at least one", "none")

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

    def slave_cursors(self, master: "BrokerNode") -> Iterator[Cursor]:
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
        return may_diverge and self._diverged_violation is not None

    @property
    def _diverged_violation(self) -> DivergedError | None:
        return self.client.diverged

    def check_replica(self, master: "BrokerNode") -> Iterator[Violation]:
        (_, store), (_, own), diverged = self._loaded_store, master._loaded_store, self._diverged_violation
        why, is_logged = None if diverged is None else str(diverged), diverged in self._logged
        yield from rep.check_slave_settled(self.name, store, own, why, is_logged=is_logged)

    def check_life(self, master: "BrokerNode") -> Iterator[Violation]:
        """Yield violations since the last start. master: the master of the node's cluster."""
        if self._requests is None:
            return  # the broker has not accepted requests
        now_ns = self._kernel.now_ns if self.is_alive else self.died_ns
        yield from self._requests.check_waiting(now_ns)
        broker, _ = self._loaded_store
        members = (*broker.producers.channels, *broker.consumers.channels)
        ended_ns = (self._closed_ns[channel] for channel in members if channel in self._closed_ns)
        yield from live.check_members(self._plan, ended_ns, now_ns)
        yield from self._check_pending(now_ns)
        assert self._server is not None, "the broker has been started"
        oldest = ((pool.name, pool.unlocked_oldest_ns) for pool in self._server.pools)
        queued = [(name, arrived_ns) for name, arrived_ns in oldest if arrived_ns is not None]
        yield from live.check_queued_requests(self._plan, queued, now_ns, self.settling.paused_ns)
        if self.is_slave and master._broker is not None:
            yield from rep.check_table("topics", broker.topics, master._broker.topics)
            yield from rep.check_table("groups", broker.groups, master._broker.groups)

    def _check_pending(self, now_ns: int, limit_ms: int | None = None) -> Iterator[Violation]:
        """Yield clients with ended requests that count as pending. limit_ms: see `live.check_pending_requests`."""
        assert self._server is not None, "the broker has been started"
        since_ns = {each: each.active_ns for each in self._server.connections.sessions} | self._closed_ns
        pending = [(each.remote_address, each.pending_bytes, at_ns) for each, at_ns in since_ns.items()]
        return live.check_pending_requests(self._plan, pending, now_ns, limit_ms)

    @property
    def _loaded_store(self) -> tuple[Broker, MessageStore]:
        assert self._broker is not None, "the broker has been started"
        return self._broker, self.loaded

    def record_crash(self, profile: CrashProfile) -> None:
        """Record that a slave has lost what is in its page cache only."""
        assert self._replication is not None, "the node is a slave"
        self._replication.slave_crashed(self, profile, sync_flush=self._plan.cluster.slave_sync_flush)

    def record_log(self) -> None:
        if self.store is not None and not self.is_slave and not self._has_shut_down:
            self._history.extend(self.store.log)

    @property
    def has_kept_progress(self) -> bool:
        assert self._broker is not None, "the broker has been started"
        return self._broker.offsets.last_error is None

    def load_and_judge(self, machine: Machine, disk: Disk, *, settled: bool, shown: bool) -> None:
        """Load the store again without starting it, and check it.

        settled: whether all transactions must be decided or given up; shown: whether consumers must have all messages.
        """
        broker = self._load_store_of_life(world_of(machine, disk, core=core_of(self._plan)), disk, machine)
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

    def _load_store_of_life(self, world: World, disk: Disk, machine: Machine) -> Broker:
        removals = None
        if self._plan.retention.deletes_segments and not self.is_slave:
            room = DiskRoom(self._kernel, disk, self.settling.paused_ns)
            removals = WatchedRemovals(world.files, disk, room, self, self._judge.report)
            world = replace(world, files=cast(Files, removals))
        # Operators change the settings of a process in place.
        broker = Broker(world, replace(self.config), replace(self._broker_config))
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
        if self._plan.broker.operators:
            by_name = {name: topic_settings(each.json_members) for name, each in broker.topics.table.items()}
            self._judge.report(self.account.tables.topics.check_loaded(by_name))
            by_name = {name: group_settings(each.json_members) for name, each in broker.groups.table.items()}
            self._judge.report(self.account.tables.groups.check_loaded(by_name))
        found = self._judge.judge_recovery(store, disk)
        self._judge.report(retries.check_retries(Evidence(self.account.ledger, found)))
        self.account.note_recovery(found)
        if self._replication is None:
            self._history.begin(store.log)
        else:
            self._replication.master_recovered(store)
        self.store = store

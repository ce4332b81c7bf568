"""Broker nodes: the processes of masters and slaves."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ....faults.disk.disk import Disk
from ....faults.simulation.disk_lifecycle import DiskLifecycle
from ....sim.errors import MachineDied
from ....store.broker import client_calls
from ....store.broker.broker import Broker
from ....store.broker.limits import POOL_LIMITS, PoolLimits, ServerLimits
from ....store.broker.router import Channel, Pool
from ....store.broker.server import AccessCheck, RemotingServer
from ....store.broker.session import Session
from ....store.network import Network
from ....store.service import do_nothing
from ....store.world import Signal, Task, World
from ...claims.machine import core_of, world_of
from ...claims.plan import Plan
from ...oracle import allowances
from ...oracle.evidence import Violation
from ...oracle.invariants import live, rep
from ...oracle.invariants.routes import Presence
from ...oracle.name_server_keys import NameServerKeys
from ...workload import operators
from ..loading import die_if_excused
from ..machines import PoweredMachine
from .access_file import access_operator, load_access
from .broker_settings import make_tables_of_users
from .identities import BrokerIdentity
from .stored_broker import BrokerSharing, StoredBroker
from .watched_copies import note_commits
from .watched_keys import watch_marks
from .watched_requests import WatchedRequests
from .watched_routes import OwnBroker


class WatchedSignal(NamedTuple):
    """The signal of a service."""

    signal: Signal
    on_wait: Callable[[int | None], None]
    """Called before a wait, with its timeout in ms."""
    on_wake: Callable[[], None]

    def notify(self) -> None:
        self.signal.notify()

    def wait(self, timeout_ms: int | None) -> bool:
        self.on_wait(timeout_ms)
        is_notified = self.signal.wait(timeout_ms)
        self.on_wake()
        return is_notified


_LIMITED_POOLS = (Pool.SEND_MESSAGE, Pool.PULL_MESSAGE)


class BrokerNode(StoredBroker):
    """One broker over all its restarts: its process starts, serves requests and stops."""

    def __init__(
        self, shared: BrokerSharing, identity: BrokerIdentity, others: Sequence[BrokerIdentity], lasting: DiskLifecycle
    ) -> None:
        super().__init__(shared, identity, others, lasting)
        self._find_tables, self._pause_woken = shared.find_tables, shared.pause_woken
        self._find_keys = shared.find_keys
        self.tidies_at_ns = 0
        """Virtual time at which the broker next expires locks and members, or in the past."""
        self._limits = _limits_of(self._plan)
        self._serves_since_ns: int | None = None
        """Virtual time at which the broker began to answer requests; None while it starts, stops or is off."""
        self.died_ns = 0
        """Virtual time of the node's last stop or crash, which the run notices later."""
        self._server: RemotingServer | None = None
        self._operators: dict[str, tuple[Task, Signal]] = {}
        self._requests: WatchedRequests | None = None
        """The value is None until the broker accepts requests."""
        self._closed_ns: dict[Session, int] = {}
        """Connection since the last start -> virtual time at which the broker had handled its end."""
        self.keys = NameServerKeys()

    def power_on(self, life: PoweredMachine) -> None:
        super().power_on(life)
        life.machine.at_death.append(self._note_death)
        self._operators = {}
        self._requests = None
        self._closed_ns = {}

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
        broker = self._broker = self._load(world, disk, machine)
        self._judge_recovery(broker, disk)
        for service, note in ((broker.housekeeping, self._note_tidying), (broker.held_pulls, do_nothing)):
            service.signal = WatchedSignal(service.signal, note, self._pause_woken)
        self.keys.begin_process()
        self._judge.report(self.keys.check_loaded(broker.name_server.kv.namespace))
        if not self.is_slave:
            self._record_delivery_start()
        if len(broker.registrations) == 1 and not self._plan.broker.operators:  # which mark topics, too
            watch_marks(broker, self._find_keys(broker.registrations[0].address), self._judge.report)
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
        requests = self._watch_requests(broker, disk)
        routes, answered = requests.judged_routes(broker.routes(), broker.held_pulls), broker.calls.deliver_response
        if self._plan.broker.group_members:
            requests.watch_locks(broker, self.account.locks)
        check = self._start_access(world, broker, server)
        server.start(routes, check=check, on_channel_closed=self._channel_closed, on_response=answered)
        self._requests, self._serves_since_ns = requests, self._kernel.now_ns
        if not self.is_slave:
            self.account.pull_times.note_serving(self._kernel.now_ns)
        self._start_operators(broker)

    def _note_tidying(self, wait_ms: int | None) -> None:
        assert wait_ms is not None, "housekeeping waits for its next time"
        self.tidies_at_ns = self._kernel.now_ns + wait_ms * 1_000_000

    def _watch_requests(self, broker: Broker, disk: Disk) -> WatchedRequests:
        ledger, closed_ns = self.account.ledger, self._closed_ns
        own = OwnBroker(
            *(self.identity.address, broker.config.broker_cluster_name, lambda topic: topic in broker.topics.table),
            *(lambda line: line in closed_ns, self.keys),
            None if self._others else lambda: {name: each.order for name, each in broker.topics.table.items()},
            {each.address.address: each.ha_address for each in (self.identity, *self._others)},
        )
        return WatchedRequests(
            *(self._plan, self._kernel, self.loaded, disk, self._judge.report, lambda: ledger.expired_to),
            *(self.settling.paused_ns, own, self._find_tables),
        )

    def _start_operators(self, broker: Broker) -> None:
        name = self.life.machine.name
        if self._plan.retention.deletes_segments and not self.is_slave:  # slaves remove no segments
            stream = self.settling.streams(f"{name}/retention")
            self._start_operator("retention operator", partial(operators.retention_operator, self.loaded, stream))
        if self._plan.broker.resumes_checks:
            stream, note = self.settling.streams(f"{name}/resumed"), self._note_resumed
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
            if self._replication is not None:
                self._replication.note_stopping(self)
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
    def has_kept_progress(self) -> bool:
        assert self._broker is not None, "the broker has been started"
        return self._broker.offsets.last_error is None


def _limits_of(plan: Plan) -> ServerLimits:
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
    return replace(limits, requests_bytes_max=pending_bytes_max, output_pause_bytes=plan.broker.output_pause_bytes)

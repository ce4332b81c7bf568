"""Replication judge: compares all reports and frames that nodes send with their stores, in cluster and broker runs."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, cast

from ....faults.crashes.profiles import CrashProfile
from ....faults.disk.disk import Disk
from ....sim.kernel import Kernel
from ....sim.machine import Machine
from ....store.config import BrokerRole, FlushDiskType, StoreConfig
from ....store.formats.messages import PutMessageResult, PutMessageStatus
from ....store.formats.replication import FRAME_HEADER_BYTES, decode_frame_header, decode_report
from ....store.log.group_transfer import GroupTransferRequest
from ....store.message_store import MessageStore
from ....store.network import Network
from ....store.replication.ha_client import HAClient
from ....store.replication.ha_service import HANDOVER_MS_MAX, HAConnection, HAService
from ....store.service import do_nothing
from ...claims.plan import Plan
from ...oracle import allowances
from ...oracle.evidence import Violation
from ...oracle.invariants import live, rep
from ...oracle.judge import Judge
from ...oracle.ledger import Ledger
from ...oracle.replica_streams import MasterEnd, SlaveEnd, StreamEnd, StreamRules, check_figures
from ...oracle.replicas import AnsweredPut, MasterHistory, Replicas
from ..machines import PoweredMachine
from .node import HA_PORT, ClusterNode
from .watched_network import WatchedNetwork

_MS = 1_000_000


class ReplicatingNode(Protocol):
    """A machine with a store and its replication."""

    name: str
    host: str
    store: MessageStore | None
    is_stopping: bool

    @property
    def is_master(self) -> bool: ...

    @property
    def config(self) -> StoreConfig: ...

    @property
    def loaded(self) -> MessageStore: ...

    @property
    def life(self) -> PoweredMachine: ...

    @property
    def running(self) -> tuple[MessageStore, Disk, Machine]: ...

    @property
    def service(self) -> HAService:
        """The running service."""

    @property
    def client(self) -> HAClient:
        """The client of a slave."""


class ReplicationJudge:
    """Records the replication traffic of all nodes, and reports false sends and answers as violations."""

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        judge: Judge,
        ledger: Ledger,
        paused_ns: Callable[[int], int],
        history: MasterHistory | None = None,
    ) -> None:
        """paused_ns: returns the sum of all pauses since a time. history: that of the master, if it exists already."""
        self.replicas = Replicas()
        self.history = history or MasterHistory()
        self._sent_to = 0
        """The log offset before which the master has sent bytes that must survive any crash of it."""
        self._recovered_end = 0
        """The end of the master's log after its last recovery."""
        self._plan = plan
        self._kernel = kernel
        self._judge = judge
        self._ledger = ledger
        self._paused_ns = paused_ns
        self.master_ends: list[MasterEnd] = []
        """All connections since the master's start."""
        self._wait_since_ns: dict[int, int] = {}
        """Log offset of a put -> when it began to wait for a slave."""
        self._stops_since_ns = 0
        self._readable: list[tuple[int, int]] = []
        """Times since the master's start at which its log was readable up to an offset."""
        self.on_received: Callable[[ReplicatingNode], None] = do_nothing
        """Called with a slave that has received bytes of a master, before it processes them."""

    def network_of(self, node: ReplicatingNode, endpoint: Network) -> Network:
        if node.is_master:
            self.master_ends, self._readable = [], []
        return WatchedNetwork(endpoint, HA_PORT, partial(_MasterWatch, self, node), _SlaveConnections(self, node))

    def rules_of(self, node: ReplicatingNode) -> StreamRules:
        config, plan = node.config, self._plan
        # A slave that appends may wait for new segments of a slow disk.
        held_up_ms = live.pauses_ms_max(plan) if node.is_master else live.held_up_ms_max(plan)
        segments = 0 if node.is_master else config.ha_transfer_batch_size // plan.commit_log_bytes
        work_ns = (held_up_ms + live.start_ms_max(plan) + segments * live.segment_ms_max(plan)) * _MS
        return StreamRules(
            config.ha_send_heartbeat_interval_ms,
            config.ha_housekeeping_interval_ms,
            config.ha_transfer_batch_size,
            lambda since_ns: work_ns + self._paused_ns(since_ns),
        )

    @property
    def now_ns(self) -> int:
        return self._kernel.now_ns

    @property
    def is_over(self) -> bool:
        return bool(self._judge.violations)

    @property
    def atomic(self) -> Callable[[], AbstractContextManager[None]]:
        return self._kernel.without_scheduling_points

    @property
    def report(self) -> Callable[[Iterable[Violation]], None]:
        return self._judge.report

    def may_delay(self, disk: Disk) -> bool:
        return allowances.count_delays(disk, self._plan) > 0

    def note_readable(self, store: MessageStore) -> None:
        """Record how far the master's log is readable now. The end of a segment may follow a blank record."""
        with self.atomic():
            end = store.dispatch.readable_limit()
        if end % store.config.mapped_file_size_commit_log and (not self._readable or end > self._readable[-1][1]):
            self._readable.append((self.now_ns, end))

    def sendable_log(self, store: MessageStore) -> tuple[int, int, int]:
        """Return the start and the end of the log that a master can send, and where an empty slave begins."""
        with self.atomic():
            start, end = max(store.log.min_offset, 0), store.dispatch.readable_limit()
        segment_bytes = store.config.mapped_file_size_commit_log
        return start, end, max((end - 1) // segment_bytes * segment_bytes, start)

    def _readable_since_ns(self, offset: int) -> int | None:
        return next((at_ns for at_ns, end in self._readable if end > offset), None)

    def check_answer(
        self, master: ReplicatingNode, store: MessageStore, put: AnsweredPut, result: PutMessageResult
    ) -> Iterator[Violation]:
        """Yield violations in the answer of a SYNC_MASTER to a put."""
        self.note_readable(store)
        yield from rep.check_slave_acknowledged(store, self.history, self.replicas, put, result)
        late_ns = live.pauses_ms_max(self._plan) * _MS + self._paused_ns(put.asked_ns)
        fallbehind_max, work_ns = store.config.ha_slave_fallbehind_max, live.start_ms_max(self._plan) * _MS
        since_ns = self._wait_since_ns.get(-1 if result.append is None else result.append.wrote_offset, self.now_ns)
        yield from rep.check_slave_wait(put, result, self.master_ends, fallbehind_max, late_ns, work_ns, since_ns)
        transfer = store.commit_log.group_transfer
        if transfer is not None and not master.is_stopping:
            yield from self.check_figures(master)
            with self.atomic():
                counted = [cast(HAConnection, each).remote_address for each in transfer.replicas]
            yield from rep.check_counted_slaves(
                counted, self.master_ends, self.now_ns, lambda since_ns: work_ns + self._paused_ns(since_ns)
            )

    def watch_waits(self, store: MessageStore) -> None:
        """Check from now on for which slaves a SYNC_MASTER lets puts wait."""
        transfer, limit = store.commit_log.group_transfer, store.config.ha_slave_fallbehind_max
        if transfer is None:
            return
        submit = transfer.submit

        def judged_submit(
            start_offset: int, end_offset: int, on_known: Callable[[], None] | None = None
        ) -> GroupTransferRequest:
            since_ns = self.now_ns
            request = submit(start_offset, end_offset, on_known)
            self._wait_since_ns[start_offset] = self.now_ns
            if request.poll(since_ns) is not PutMessageStatus.SLAVE_NOT_AVAILABLE:
                self.report(rep.check_near_slave(end_offset, self.master_ends, limit, since_ns, self.now_ns))
            return request

        cast(Any, transfer).submit = judged_submit

    def judge_frame(self, node: ReplicatingNode, end: MasterEnd, data: bytes) -> None:
        """Record the master's log before each frame, and check whether the master may send it."""
        store, disk, _ = node.running
        self.history.extend(store.log)
        segment_bytes = node.config.mapped_file_size_commit_log
        frame = decode_frame_header(data[:FRAME_HEADER_BYTES], segment_bytes, stream=node.name, position=0)
        _, _, empty_begin = self.sendable_log(store)
        log = sent = data[FRAME_HEADER_BYTES:]
        is_reverted = allowances.has_reverted_data(disk)
        if not is_reverted:
            log = self.history.sent_log_bytes(frame.log_offset, frame.size_bytes)
        since_ns = self._readable_since_ns(frame.log_offset)
        self.report(end.send(frame, sent, self.now_ns, log, empty_begin, since_ns))
        if is_reverted:
            return
        if frame.log_offset >= self._ledger.expired_to:  # retention removes only durable data
            self.report(rep.check_sent_frame(store, disk, frame))
            self.report(rep.check_sent_blank(store, frame, self._recovered_end))
            if node.is_master and node.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
                self._sent_to = max(self._sent_to, frame.log_offset + frame.size_bytes)

    def check_flushed(self, node: ReplicatingNode) -> None:
        """Check that an unconnected slave with SYNC_FLUSH has flushed the received data."""
        store, disk, _ = node.running
        if allowances.has_any_fault(disk) or self.may_delay(disk):
            return
        with self.atomic():
            self.report(rep.check_flushed(node.host, store))

    def note_stopping(self, node: ReplicatingNode) -> None:
        """Record that a node begins to stop."""
        node.is_stopping = True
        if node.is_master:
            self._stops_since_ns = self.now_ns

    def check_closed_by_stop(self, master: ReplicatingNode, end: MasterEnd) -> None:
        """Check that a master that stops had waited for a slave before it closes the slave's connection."""
        store, _, _ = master.running
        with self.atomic():
            log_end, has_failed = store.log.put_offset, store.flags.has_failed
        if not has_failed and log_end % store.config.mapped_file_size_commit_log:
            self.report(end.check_awaited(self.now_ns, self._stops_since_ns, log_end, HANDOVER_MS_MAX))

    def check_stopped(self) -> None:
        """Check that a master that stopped has closed all connections."""
        self.report(rep.check_all_closed(self.master_ends))

    def judge_report(self, node: ReplicatingNode, end: SlaveEnd, offset: int) -> None:
        store, disk, _ = node.running
        if end.reported < 0:
            self.report(rep.check_first_request(node.host, store, offset))
        elif offset > end.first_report:
            self.report(self.replicas.record_report(node.host, store, disk, offset))
        self.report(end.send(offset, self.now_ns))

    def master_recovered(self, store: MessageStore) -> None:
        self._judge.report(rep.check_sent_data_kept(store, self._sent_to))
        self._recovered_end = store.log.max_offset
        self.history.begin(store.log)

    def master_replaced(self, new_master: MessageStore) -> None:
        """Judge the frames of a slave that others follow from now on, as those of their master."""
        self.master_ends, self._readable = [], []
        self._recovered_end = new_master.log.max_offset
        self.history.begin(new_master.log)

    def slave_recovered(self, node: ReplicatingNode, store: MessageStore, disk: Disk) -> None:
        self._judge.judge_recovery_alone(store, disk)
        self._judge.report(rep.check_prefix(node.name, store, self.history))
        report, is_slave = store.last_recovery, node.config.broker_role is BrokerRole.SLAVE
        if is_slave and report is not None and not report.findings:
            self._judge.report(rep.check_last_blank(node.name, store))
        if self._plan.capacity_bytes:
            self.replicas.record_slave_retention(node.host, store.log.min_offset)
        self._judge.report(rep.check_reported_data_kept(node.name, store, self.replicas.held.get(node.host)))
        self.replicas.record_slave_recovery(node.host, store)

    def slave_crashed(self, node: ReplicatingNode, profile: CrashProfile, *, sync_flush: bool) -> None:
        """Record the end of a slave's machine, after which unconfirmed data may be lost."""
        flushed_where = 0 if node.store is None else node.store.log.flushed_where.get()
        cache_survives = profile.page_cache_survives and not allowances.has_reverted_data(node.life.disk)
        self.replicas.record_slave_crash(node.host, keeps_all=cache_survives or sync_flush, flushed_where=flushed_where)

    def check_figures(self, master: ReplicatingNode) -> Iterator[Violation]:
        with self.atomic():
            info = master.service.runtime_info()
        return check_figures(info, self.master_ends, self.now_ns)

    def check_settled(self, slave: ClusterNode, master: ClusterNode) -> Iterator[Violation]:
        store, _, _ = slave.running
        diverged = None if slave.client.diverged is None else str(slave.client.diverged)
        is_logged = slave.has_logged_divergence
        yield from self.check_figures(master)
        yield from rep.check_slave_settled(slave.name, store, master.running[0], diverged, is_logged=is_logged)


class _Watch:
    """Observes the calls of one end of a connection. A check of several values is atomic."""

    def __init__(self, replication: ReplicationJudge, node: ReplicatingNode, end: StreamEnd) -> None:
        self._replication = replication
        self._node = node
        self._end = end

    def before_receive(self) -> None:
        """Called before each receive."""

    def received(self, data: bytes) -> None:
        raise NotImplementedError

    def sending(self, data: bytes) -> None:
        """Called with each report or frame before the network sends it, possibly in several pieces."""
        raise NotImplementedError

    def sent(self, left_bytes: int) -> None:
        self._end.note_sent(self._replication.now_ns, left_bytes)

    def failed(self) -> None:
        self._end.may_close = True

    def closing(self) -> None:
        # A violation ends its task with an exception, and the program then closes the connection.
        has_reason = self._replication.is_over or self._node.is_stopping or self._has_reason()
        self._replication.report(self._end.close(self._replication.now_ns, has_reason=has_reason))

    def _has_reason(self) -> bool:
        raise NotImplementedError


class _MasterWatch(_Watch):
    _end: MasterEnd

    def __init__(self, replication: ReplicationJudge, node: ReplicatingNode, peer: str) -> None:
        label, rules = f"the master, to {peer},", replication.rules_of(node)
        super().__init__(replication, node, MasterEnd(label, rules, replication.now_ns, peer=peer))
        replication.master_ends.append(self._end)

    def closing(self) -> None:
        if self._node.is_master and self._node.is_stopping:
            self._replication.check_closed_by_stop(self._node, self._end)
        super().closing()

    def received(self, data: bytes) -> None:
        replication, store = self._replication, self._node.loaded
        self._end.note_reports(data, replication.now_ns, *replication.sendable_log(store))
        replication.report(self._end.check_times(replication.now_ns))

    def sending(self, data: bytes) -> None:
        self._replication.judge_frame(self._node, self._end, data)

    def _has_reason(self) -> bool:
        store, disk, _ = self._node.running
        with self._replication.atomic():
            return 0 <= self._end.next_offset < store.log.min_offset or allowances.count_errors(disk) > 0


class _SlaveWatch(_Watch):
    _end: SlaveEnd

    def __init__(self, replication: ReplicationJudge, node: ReplicatingNode, master: str) -> None:
        """master: its address."""
        super().__init__(replication, node, SlaveEnd(node.host, replication.rules_of(node), replication.now_ns))
        self._master = master

    @property
    def is_open(self) -> bool:
        return self._end.closed_ns is None

    @property
    def closed_ns(self) -> int:
        assert self._end.closed_ns is not None, "the connection is closed"
        return self._end.closed_ns

    def before_receive(self) -> None:
        store, _, _ = self._node.running
        with self._replication.atomic():
            self._replication.report(rep.check_last_blank(self._node.host, store))
        if self._node.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            with self._replication.atomic():
                log_end = store.log.max_offset
            self._replication.report(self._end.check_progress(log_end))

    def received(self, data: bytes) -> None:
        self._end.note_frames(data, self._replication.now_ns)
        self._replication.report(self._end.check_times(self._replication.now_ns))
        self._replication.on_received(self._node)

    def sending(self, data: bytes) -> None:
        """Judge a report.

        The first report only requests a start offset. RocketMQ's masters also count it as a confirmation; this master
        does not, even if it is repeated.
        """
        offset = decode_report(data, stream=self._node.name, position=0)
        self._replication.judge_report(self._node, self._end, offset)

    def _has_reason(self) -> bool:
        _, disk, _ = self._node.running
        client, has_fault = self._node.client, allowances.has_any_fault(disk) or self._replication.may_delay(disk)
        return client.diverged is not None or client.master_address != self._master or has_fault


class _SlaveConnections:
    """The connections of a slave since its start.

    There is one at a time, and each is an interval after the last one to the same master.
    """

    def __init__(self, replication: ReplicationJudge, node: ReplicatingNode) -> None:
        self._replication = replication
        self._node = node
        self._newest: _SlaveWatch | None = None
        self._ended_ns: int | None = None
        """When the last attempt failed."""
        self._address = ""
        self._is_woken = False
        """Whether a change of the master, or its first address, may still end the wait for the next attempt early."""

    def before_connect(self, address: str) -> None:
        if address != self._address:
            self._is_woken = self._address != "" or not self._node.config.ha_master_address
            self._address, self._newest, self._ended_ns = address, None, None
            return
        newest, ended_ns = self._newest, self._ended_ns
        if newest is not None:
            ended_ns = None if newest.is_open else newest.closed_ns
        elif ended_ns is None:
            return
        self._replication.check_flushed(self._node)
        since_ns = None if ended_ns is None else self._replication.now_ns - ended_ns
        late_ns = 0 if ended_ns is None else self._replication.rules_of(self._node).slack_ns(ended_ns)
        if not self._is_woken:
            self._replication.report(rep.check_reconnect(self._node.host, since_ns, late_ns))
        self._newest, self._is_woken = None, False

    def connected(self) -> _SlaveWatch:
        self._newest = _SlaveWatch(self._replication, self._node, self._address)
        return self._newest

    def failed(self) -> None:
        self._ended_ns = self._replication.now_ns

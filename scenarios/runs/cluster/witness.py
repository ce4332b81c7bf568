"""Replication witness: compares all reports and frames that nodes send with their stores."""

from collections.abc import Callable, Iterator
from functools import partial

from ....faults.crashes.profiles import CrashProfile
from ....faults.disk.disk import Disk
from ....store.config import FlushDiskType
from ....store.formats.replication import FRAME_HEADER_BYTES, decode_frame_header, decode_report
from ....store.message_store import MessageStore
from ....store.network import Connection, Listener, Network, Poller
from ...oracle import allowances
from ...oracle.evidence import Violation
from ...oracle.invariants import rep
from ...oracle.judge import Judge
from ...oracle.ledger import Ledger
from ...oracle.replicas import MasterHistory, Replicas
from .node import ClusterNode

_Sending = Callable[[bytes], None]
"""Called with each report or frame before the network sends it, possibly in several pieces."""


class ReplicationJudge:
    """Records reported offsets, and reports false ones as violations."""

    def __init__(self, judge: Judge, ledger: Ledger) -> None:
        self.replicas = Replicas()
        self.history = MasterHistory()
        self._sent_to = 0
        """The log offset before which the master has sent bytes that must survive any crash of it."""
        self._judge = judge
        self._ledger = ledger

    def network_of(self, node: ClusterNode, endpoint: Network) -> Network:
        answering, asking = partial(self._record_frame, node), partial(self._judge_reports_of, node)
        return _WatchedNetwork(endpoint, answering, asking)

    def _record_frame(self, node: ClusterNode, data: bytes) -> None:
        """Record the master's log before each frame, and check whether the master may send it."""
        if node.is_master and node.store is not None:
            self.history.extend(node.store.log)
            store, disk, _ = node.running
            if not allowances.has_reverted_data(disk):
                frame = decode_frame_header(
                    data[:FRAME_HEADER_BYTES], node.config.mapped_file_size_commit_log, stream=node.name, position=0
                )
                if frame.log_offset >= self._ledger.expired_to:  # retention removes only durable data
                    self._judge.report(rep.check_sent_frame(store, disk, frame))
                    if node.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
                        self._sent_to = max(self._sent_to, frame.log_offset + frame.size_bytes)

    def _judge_reports_of(self, node: ClusterNode) -> _Sending:
        """Check each report on a new connection of a slave.

        The first report only requests a start offset. RocketMQ's masters also count it as a confirmation; this master
        does not, even if it is repeated.
        """
        first: int | None = None

        def sending(data: bytes) -> None:
            nonlocal first
            offset = decode_report(data, stream=node.name, position=0)
            store, disk, _ = node.running
            if first is None:
                first = offset
                self._judge.report(rep.check_first_request(node.host, store, offset))
            elif offset > first:
                self._judge.report(self.replicas.record_report(node.host, store, disk, offset))

        return sending

    def master_recovered(self, store: MessageStore) -> None:
        self._judge.report(rep.check_sent_data_kept(store, self._sent_to))
        self.history.begin(store.log)

    def slave_recovered(self, node: ClusterNode, store: MessageStore, disk: Disk) -> None:
        self._judge.judge_recovery_alone(store, disk)
        self._judge.report(rep.check_prefix(node.name, store, self.history))
        self._judge.report(rep.check_reported_data_kept(node.name, store, self.replicas.held.get(node.host)))
        self.replicas.record_slave_recovery(node.host, store)

    def slave_crashed(self, node: ClusterNode, profile: CrashProfile, *, sync_flush: bool) -> None:
        """Record the end of a slave's machine, after which unconfirmed data may be lost."""
        flushed_where = 0 if node.store is None else node.store.log.flushed_where.get()
        cache_survives = profile.page_cache_survives and not allowances.has_reverted_data(node.life.disk)
        self.replicas.record_slave_crash(node.host, keeps_all=cache_survives or sync_flush, flushed_where=flushed_where)

    def check_settled(self, slave: ClusterNode, master: ClusterNode) -> Iterator[Violation]:
        store, _, _ = slave.running
        diverged = None if slave.client.diverged is None else str(slave.client.diverged)
        is_logged = slave.has_logged_divergence
        return rep.check_slave_settled(slave.name, store, master.running[0], diverged, is_logged=is_logged)


class _WatchedConnection:
    def __init__(self, connection: Connection, sending: _Sending) -> None:
        self._connection = connection
        self._sending = sending
        self._left_bytes = 0
        """The bytes of the last send that the network has not accepted yet."""

    @property
    def local_address(self) -> str:
        return self._connection.local_address

    @property
    def remote_address(self) -> str:
        return self._connection.remote_address

    def receive(self, bytes_max: int, timeout_ms: int | None) -> bytes:
        return self._connection.receive(bytes_max, timeout_ms)

    def send(self, data: bytes | bytearray | memoryview, timeout_ms: int | None) -> int:
        if len(data) != self._left_bytes:
            self._sending(bytes(data))
        taken_bytes = self._connection.send(data, timeout_ms)
        self._left_bytes = len(data) - taken_bytes
        return taken_bytes

    def close(self) -> None:
        self._connection.close()


class _WatchedListener:
    def __init__(self, listener: Listener, sending: _Sending) -> None:
        self._listener = listener
        self._sending = sending

    @property
    def address(self) -> str:
        return self._listener.address

    def accept(self, timeout_ms: int | None) -> Connection:
        return _WatchedConnection(self._listener.accept(timeout_ms), self._sending)

    def close(self) -> None:
        self._listener.close()


class _WatchedNetwork:
    """Observes sends, but not pollers."""

    def __init__(self, network: Network, answering: _Sending, asking: Callable[[], _Sending]) -> None:
        """answering: observes sends on accepted connections; asking: makes an observer for each outgoing connection."""
        self._network = network
        self._answering = answering
        self._asking = asking

    def listen(self, address: str) -> Listener:
        return _WatchedListener(self._network.listen(address), self._answering)

    def connect(self, address: str, timeout_ms: int) -> Connection:
        return _WatchedConnection(self._network.connect(address, timeout_ms), self._asking())

    def poller(self) -> Poller:
        return self._network.poller()

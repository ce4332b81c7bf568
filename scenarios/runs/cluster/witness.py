"""The replication witness: it sees all that slaves and their master send, and what each has at that moment."""

from collections.abc import Iterator
from functools import partial

from ....faults.crashes.profiles import CrashProfile
from ....faults.disk.disk import Disk
from ....store.formats.replication import REPORT_BYTES, decode_report
from ....store.message_store import MessageStore
from ....store.network import Network
from ...oracle.evidence import Violation
from ...oracle.invariants import rep
from ...oracle.judge import Judge
from ...oracle.replicas import MasterHistory, Replicas
from .node import Node
from .watched_network import Sending, WatchedNetwork


class ReplicationWitness:
    """Keeps what was said, and has the judge hear of what was untrue."""

    def __init__(self, judge: Judge) -> None:
        self.replicas = Replicas()
        self._judge = judge
        self._history = MasterHistory()

    def network_of(self, node: Node, endpoint: Network) -> Network:
        """Return a node's network, watched."""
        return WatchedNetwork(
            endpoint, partial(self._before_answering, node), partial(self._reports_of, node)
        )

    def _before_answering(self, node: Node, data: bytes) -> None:
        """Note what the master has, before it sends any of it."""
        if node.is_master and node.store is not None:
            self._history.extend(node.store.log)

    def _reports_of(self, node: Node) -> Sending:
        """Judge each report on a new connection of a slave; the first only says where to begin."""
        begun = False

        def sending(data: bytes) -> None:
            nonlocal begun
            if len(data) < REPORT_BYTES:
                return  # the rest of one that the network has taken some of
            offset = decode_report(data, stream=node.name, position=0)
            if begun:
                store, disk, _ = node.running
                self._judge.report(self.replicas.reported(node.host, store, disk, offset))
            begun = True

        return sending

    def master_recovered(self, store: MessageStore) -> None:
        """Note what a master goes on with."""
        self._history.begin(store.log)

    def slave_recovered(self, node: Node, store: MessageStore, disk: Disk) -> None:
        """Judge what recovery made of a slave."""
        self._judge.recovery_alone(store, disk)
        self._judge.report(rep.check_prefix(node.name, store, self._history))
        self._judge.report(rep.check_kept(node.name, store, self.replicas.held.get(node.host)))
        self.replicas.recovered(node.host, store)

    def slave_crashed(self, node: Node, profile: CrashProfile, *, sync_flush: bool) -> None:
        """Note the end of a slave's machine."""
        flushed_where = 0 if node.store is None else node.store.log.flushed_where.get()
        self.replicas.crashed(node.host, profile, sync_flush=sync_flush, flushed_where=flushed_where)

    def check_settled(self, slave: Node, master: Node) -> Iterator[Violation]:
        """Return what is wrong with how a slave stands to its master, now that it will not change."""
        store, _, _ = slave.running
        diverged = slave.client.diverged
        return rep.check_settled(
            slave.name, store, master.running[0], None if diverged is None else str(diverged)
        )

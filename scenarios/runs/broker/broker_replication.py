"""Broker replication: judges the connections of a broker's slaves, and the answers of a SYNC_MASTER.

The rules are those of cluster runs. Each put of the broker is judged, for example a delayed message that becomes due.
"""

from functools import partial

from ....store.formats.messages import PutMessageResult
from ..cluster.replication_judge import ReplicatingNode, ReplicationJudge
from ..cluster.watched_puts import WatchedPut, watch_puts


class BrokerReplication(ReplicationJudge):
    """The replication of one broker name over all starts of its brokers."""

    def watch(self, node: ReplicatingNode) -> None:
        """Judge each put of a SYNC_MASTER from now on. Call this between the load and the start."""
        log = node.loaded.commit_log
        if log.group_transfer is not None:
            self.watch_waits(node.loaded)
            watch_puts(log, lambda: self.now_ns, partial(self._judge_result, node))

    def _judge_result(self, node: ReplicatingNode, put: WatchedPut, result: PutMessageResult) -> None:
        found = list(self.check_answer(node, node.loaded, put, result))
        if found:  # in a separate task, because a server turns the exceptions of a processor into answers
            node.loaded.world.tasks.spawn("judge of a put", lambda: self.report(found))

    def forget_master(self) -> None:
        """Forget what the present master has sent, because a slave with the same log takes over."""
        self._sent_to = 0

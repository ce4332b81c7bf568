"""#5 group-commit-stale-result: the answer is computed before each of two flush rounds, never after the last.

A record at the front of a new segment needs both rounds, one per segment, and is told that the time was up.
"""

from dataclasses import replace

from ...store.log.flush import GroupCommitRequest, GroupCommitService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _commit(self: GroupCommitService, requests: list[GroupCommitRequest]) -> None:
    for request in requests:
        durable = False
        for _ in range(2):
            durable = self.queue.flushed_where.get() >= request.end_offset
            if durable:
                break
            with self._flush_lock:
                self._flush_once(0)
        request.complete(durable)
    self.flush_to(self.queue.max_offset)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(True,), commit_log_bytes=(2048, 4096))


MUTANT = Mutant(
    "group-commit-stale-result",
    "group commit / rollover",
    "a put that opens a new segment is told of a time-out although the second flush made it durable",
    (Patch(GroupCommitService, "commit", _commit),),
    _narrow,
    ("STATUS",),
)

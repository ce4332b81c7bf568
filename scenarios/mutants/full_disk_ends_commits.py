"""A commit that meets a full disk ends all puts until a restart, though it is done again once there is room.

Found in this store, under ASYNC_FLUSH with the pool on a sparse disk: a block is first asked for when a commit writes.
"""

from dataclasses import replace

from ...store.log.commit import CommitRealTimeService
from ...store.running_flags import Refusal
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _commit(self: CommitRealTimeService, least_pages: int) -> bool:
    try:
        self._queue.commit(least_pages)
    except OSError as error:
        self.last_error = error
        self._flags.refuse_for_good(Refusal.NOT_WRITEABLE)
    where = self._queue.committed_where
    if where == self._committed_where:
        return False
    self._committed_where = where
    self.on_committed()
    return True


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        transient_pool=(True,),
        capacity_bytes=(10_000, 16_000),
        faults={"sparse": (True,)},
        disk=("ext4-ordered", "process-kill"),
        endings=("stop",),
    )


MUTANT = Mutant(
    "full-disk-ends-commits",
    "transient buffer pool",
    "a commit without room refuses puts for good, and keeps a stop from being clean, though room has returned",
    (Patch(CommitRealTimeService, "commit", _commit),),
    _narrow,
    ("LIVE", "STATUS"),
)

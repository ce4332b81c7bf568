"""#2 fsync-retry-acks: after a failed sync the flusher tries again and takes the next success as proof.

The kernel has reported the error once and marked the pages clean, so the second sync writes nothing.
"""

from ...store.log.flush import FlushCommitLogService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

_TRIES = 1_000


def _flush_once(self: FlushCommitLogService, least_pages: int) -> bool:
    for _ in range(_TRIES):
        try:
            moved = self.queue.flush(least_pages)
        except OSError:
            continue
        if moved:
            self.checkpoint.log_is_durable_to(self.queue.flushed_store_timestamp_ms)
            self.on_flushed()
        return moved
    return False


def _narrow(ranges: Ranges) -> Ranges:
    return ranges.with_faults(failed_sync_chance=(0.1,))


MUTANT = Mutant(
    "fsync-retry-acks",
    "group commit / flush",
    "a failed sync is repeated, and the repetition's success counts although the kernel has dropped the data",
    (Patch(FlushCommitLogService, "_flush_once", _flush_once),),
    _narrow,
    ("POS", "STATUS", "DUR"),
)

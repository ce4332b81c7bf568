"""Bugs of sync errors beside the log's flush: whose error it is, and for how long it counts."""

from ....store.log.segment_queue import SegmentQueue
from ....store.queues.flush_queues import FlushConsumeQueueService
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

_WITH_FAILED_WRITE_BACKS = Ranges(
    recover_whole_log=(False,),
    faults={"failed_write_back_chance": (0.1,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
)


# queue-sync-error-forgotten: the flush of queues notes an error and tries again at its next interval. The kernel has
# reported it once, the next sync has nothing to do and succeeds, and the checkpoint speaks for entries that are lost.
_original_step = FlushConsumeQueueService.step


def _step_and_forget(self: FlushConsumeQueueService) -> None:
    _original_step(self)
    bit(self.last_error is not None)
    self.last_error = None


QUEUE_SYNC_ERROR_FORGOTTEN = Mutant(
    "queue-sync-error-forgotten",
    "after a sync of a queue has failed, the next one that succeeds lets the checkpoint speak for its entries",
    (Patch(FlushConsumeQueueService, "step", _step_and_forget),),
    ("CKPT", "CQ-COMPLETE"),
    _WITH_FAILED_WRITE_BACKS,
)


# recovery-sync-error-retried: a start whose sync of the log fails syncs once more rather than giving up, as it has read
# everything from the page cache just now. The error was that of the process before; what it was about is not durable.
_original_make_durable = SegmentQueue.make_durable


def _make_durable_in_two_tries(self: SegmentQueue, first: int) -> None:
    try:
        _original_make_durable(self, first)
    except OSError:
        bit()
        _original_make_durable(self, first)


RECOVERY_SYNC_ERROR_RETRIED = Mutant(
    "recovery-sync-error-retried",
    "a recovery whose sync of the log fails tries again, and takes the second success for all of it",
    (Patch(SegmentQueue, "make_durable", _make_durable_in_two_tries),),
    ("POS", "DUR", "STATUS", "CKPT", "PREFIX"),
    Ranges(
        sync_flush=(True,),
        disk=("process-kill", "strict-posix"),
        faults={"failed_write_back_chance": (0.1,)},
        endings=("crash in traffic",),
        lives=(3,),
    ),
)

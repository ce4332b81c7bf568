"""Bugs of sync errors beside the log's flush: whose error it is, and for how long it counts."""

from ....store.filters.message_filter import MessageFilter
from ....store.formats.messages import GetMessageResult
from ....store.log.segment_queue import SegmentQueue
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.queues.pull import Puller
from ...claims.catalogue import SCENARIOS
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


# pull-after-failed-sync: a pull gives what it sees in the page cache, also once a sync of the log or of the queue has
# failed. Where the kernel drops what it could not write, that is what lay there before: zeros for a message, a blank
# for an entry. Found by the swarm of brokers, in this store.
_original_get_message = Puller.get_message


def _get_what_is_seen(
    self: Puller, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
) -> GetMessageResult:
    for segments in (self._commit_log.queue, queue.queue):
        bit(segments.sync_error is not None)
        segments.sync_error = None
    return _original_get_message(self, queue, offset, max_messages, wanted)


PULL_AFTER_FAILED_SYNC = Mutant(
    "pull-after-failed-sync",
    "a pull gives and passes over what a failed sync has taken out of the page cache",
    (Patch(Puller, "get_message", _get_what_is_seen),),
    ("READ", "VIS"),
    SCENARIOS["a-broker-on-a-failing-disk-answers-truthfully"].ranges.replace(
        disk=("btrfs",), sync_flush=(False,), pauses={"chance": (0.5,)}, faults={"failed_sync_chance": (0.1,)}
    ),
)

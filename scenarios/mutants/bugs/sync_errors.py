"""Bugs of sync errors beside the log's flush: whose error it is, and for how long it counts."""

from ....store.filters.message_filter import MessageFilter
from ....store.formats.messages import GetMessageResult
from ....store.log.segment_queue import SegmentQueue
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.queues.pull import Puller
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_WITH_FAILED_WRITE_BACKS = Ranges(
    recover_whole_log=(False,),
    faults={"failed_write_back_chance": (0.1,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
)


# The flush of queues notes an error and tries again at its next interval. The kernel has reported it once, the next
# sync has nothing to do and succeeds, and the checkpoint speaks for entries that are lost.
@bug("queue-sync-error-forgotten", FlushConsumeQueueService, "step", found_by=("CKPT", "CQ-COMPLETE"))
@needs(_WITH_FAILED_WRITE_BACKS)
def step_and_forget(self: FlushConsumeQueueService) -> None:
    """After a sync of a queue has failed, the next one that succeeds lets the checkpoint speak for its entries."""
    step_and_forget.original(self)
    bit(self.last_error is not None)
    self.last_error = None


# A start whose sync of the log fails syncs once more rather than giving up, as it has read everything from the page
# cache just now. The error was that of the process before; what it was about is not durable.
@bug("recovery-sync-error-retried", SegmentQueue, "make_durable", found_by=("POS", "DUR", "STATUS", "CKPT", "PREFIX"))
@needs(
    sync_flush=(True,),
    disk=("process-kill", "strict-posix"),
    faults={"failed_write_back_chance": (0.1,)},
    endings=("crash in traffic",),
    lives=(3,),
)
def make_durable_in_two_tries(self: SegmentQueue, first: int) -> None:
    """A recovery whose sync of the log fails tries again, and takes the second success for all of it."""
    try:
        make_durable_in_two_tries.original(self, first)
    except OSError:
        bit()
        make_durable_in_two_tries.original(self, first)


# A pull gives what it sees in the page cache, also once a sync of the log or of the queue has failed. Where the kernel
# drops what it could not write, that is what lay there before: zeros for a message, a blank for an entry. Found by the
# swarm of brokers, in this store.
@bug("pull-after-failed-sync", Puller, "get_message", found_by=("READ", "VIS"))
@needs(
    SCENARIOS["a-broker-on-a-failing-disk-answers-truthfully"].ranges,
    disk=("btrfs",),
    sync_flush=(False,),
    pauses={"chance": (0.5,)},
    faults={"failed_sync_chance": (0.1,)},
)
def get_what_is_seen(
    self: Puller, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
) -> GetMessageResult:
    """A pull gives and passes over what a failed sync has taken out of the page cache."""
    for segments in (self._commit_log.queue, queue.queue):
        bit(segments.sync_error is not None)
        segments.sync_error = None
    return get_what_is_seen.original(self, queue, offset, max_messages, wanted)

"""Bugs of disk errors: failed syncs outside the log's flush, and unreadable pages."""

from ....store.errors import CorruptFileError
from ....store.filters.message_filter import MessageFilter
from ....store.formats.messages import GetMessageResult
from ....store.log.allocate import AllocateMappedFileService
from ....store.log.commit_log import CommitLog
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.queues.pull import QueuePuller
from ....store.recovery.recovery import Recovery
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_WITH_FAILED_WRITE_BACKS = Ranges(
    recover_whole_log=(False,),
    faults={"failed_write_back_chance": (0.1,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
)


# The kernel reports a write-back error once. The next sync succeeds without a write.
@bug("queue-sync-error-forgotten", FlushConsumeQueueService, "run_once", found_by=("CKPT", "CQ-COMPLETE"))
@needs(_WITH_FAILED_WRITE_BACKS)
def step_and_forget(self: FlushConsumeQueueService) -> None:
    """After a failed sync of a queue, the next successful sync lets the checkpoint cover the lost entries."""
    step_and_forget.original(self)
    bit(self.last_error is not None)
    self.last_error = None


# The error concerns data of an earlier process. The retry does not write this data.
@bug("recovery-sync-error-retried", SegmentQueue, "make_durable", found_by=("POS", "DUR", "STATUS", "CKPT", "PREFIX"))
@needs(
    sync_flush=(True,),
    disk=("process-kill", "strict-posix"),
    faults={"failed_write_back_chance": (0.1,)},
    endings=("crash in traffic",),
    lives=(3,),
)
def make_durable_in_two_tries(self: SegmentQueue, first: int) -> None:
    """After a failed sync of the log, recovery retries the sync and then treats the whole log as durable."""
    try:
        make_durable_in_two_tries.original(self, first)
    except OSError:
        bit()
        make_durable_in_two_tries.original(self, first)


# Found by the broker swarm: the kernel drops pages after a failed write, so records and queue entries become zeros.
@bug("pull-after-failed-sync", QueuePuller, "get_message", found_by=("READ", "VIS"))
@needs(
    SCENARIOS["broker-disk-errors"].ranges,
    disk=("btrfs",),
    sync_flush=(False,),
    pauses={"chance": (0.5,)},
    faults={"failed_sync_chance": (0.1,)},
)
def pull_from_page_cache(
    self: QueuePuller, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
) -> GetMessageResult:
    """After a failed sync, a pull returns or skips lost messages from the page cache."""
    for segments in (self._commit_log.queue, queue.queue):
        bit(segments.sync_error is not None)
        segments.sync_error = None
    return pull_from_page_cache.original(self, queue, offset, max_messages, wanted)


_FAILING = Ranges(
    faults={"failed_page_in_chance": (0.05, 0.2)},
    sync_flush=(True,),
    consumers=(1, 2),
    lives=(1, 2, 3),
    endings=("crash at rest", "stop"),
)


@bug(
    "unreadable-record-is-missing", CommitLog, "record_bytes", found_by=("READ", "IDX", "SCHED", "REDEL", "TX", "QUIET")
)
@needs(_FAILING)
def none_if_unreadable(self: CommitLog, physical_offset: int, size_bytes: int, limit: int) -> bytes | None:
    """A temporarily unreadable record counts as missing."""
    try:
        return none_if_unreadable.original(self, physical_offset, size_bytes, limit)
    except OSError:
        bit()
        return None


@bug(
    "unreadable-page-ends-recovery", Recovery, "_scan_segment", found_by=("DUR", "PREFIX", "TX", "READ", "POS", "SCHED")
)
@needs(_FAILING)
def damaged_if_unreadable(self: Recovery, segment: Segment, start: int, *, whole_log: bool) -> None:
    """A temporarily unreadable segment counts as damaged, and recovery truncates the log there."""
    try:
        damaged_if_unreadable.original(self, segment, start, whole_log=whole_log)
    except OSError as error:
        bit()
        raise CorruptFileError(segment.file.path, start, "record", "one that can be read", "an error") from error


# Found in this store: only a log in several directories looks for the path of a new segment.
@bug("second-failed-look-up", AllocateMappedFileService, "_fail_requests_from", found_by=("LIVE",))
@needs(
    directories={"log_directories": (2,)},
    faults={"failed_lookup_chance": (0.2,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    endings=("crash at rest",),
)
def look_again(self: AllocateMappedFileService, base_offset: int, error: OSError) -> None:
    """After a failed look-up of a log directory, a second failed one ends the creation of segments for good."""
    try:
        self._queue.path(base_offset)
    except OSError:
        bit()
        raise
    look_again.original(self, base_offset, error)

"""Bugs of stops that lose data, last too long or leave files mapped, and of slow starts."""

from ....store.formats.messages import AppendMessageResult, PutMessageStatus
from ....store.formats.side_json import encode_side_json
from ....store.log.allocate import AllocateMappedFileService
from ....store.log.commit_log import CommitLog
from ....store.log.put_encoder import EncodedPut
from ....store.message_store import MessageStore
from ....store.queues.consume_queue_table import ConsumeQueueTable
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.service import Service
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_STOPS = Ranges(endings=("stop",), disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"))


# RocketMQ 4.9 syncs an index file only at the start of the next file.
@bug("stop-leaves-index-unsynced", FlushConsumeQueueService, "finish_remaining_work", found_by=("IDX",))
@needs(_STOPS, index={"slots": (5, 40)})
def finish_without_index(self: FlushConsumeQueueService) -> None:
    """A clean stop does not sync the newest index file."""
    try:
        self.flush_thoroughly()
        bit(self.index is not None)
    except OSError as error:
        self.last_error = error


# The next start repairs entries of the last three segments, so the bug needs a longer log.
@bug(
    "stop-leaves-queues-unsynced",
    FlushConsumeQueueService,
    "finish_remaining_work",
    found_by=("CQ-COMPLETE", "CQ-VALID", "QOFF", "SCAN"),
)
@needs(
    _STOPS,
    recover_whole_log=(False,),
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    messages_each=(24,),
    topics=(4,),
)
def finish_without_queues(self: FlushConsumeQueueService) -> None:
    """A clean stop does not sync the newest queue entries."""
    bit(any(queue.queue.flushed_where.get() < queue.queue.max_offset for queue in self._queues.all_queues()))
    try:
        if self.index is not None:
            self.index.make_durable()
        self._checkpoint.flush()
    except OSError as error:
        self.last_error = error


# RocketMQ acts like the mutant. A power cut makes the next start treat the stop as a crash.
@bug("stop-leaves-marker-removal-unsynced", MessageStore, "_mark_stopped", found_by=("START",))
@needs(_STOPS)
def mark_stopped_unsynced(self: MessageStore) -> bool:
    """A clean stop returns before the removal of the marker is durable."""
    try:
        self.world.files.unlink(self.config.abort_path)
        bit()
    except OSError:
        return False
    return True


@bug(
    "stop-syncs-whole-pages",
    FlushConsumeQueueService,
    "finish_remaining_work",
    found_by=("CQ-COMPLETE", "CQ-VALID", "QOFF", "SCAN"),
)
@needs(finish_without_queues.needs)
def finish_with_whole_pages(self: FlushConsumeQueueService) -> None:
    """A clean stop does not sync the last, partly filled page of each queue."""
    try:
        for queue in self._queues.all_queues():
            queue.flush(1)
            bit(queue.queue.flushed_where.get() < queue.queue.max_offset)
        if self.index is not None:
            self.index.make_durable()
        self._checkpoint.flush()
    except OSError as error:
        self.last_error = error


@bug("stop-loses-progress", ConsumerOffsetManager, "finish_remaining_work", found_by=("REDEL", "META"))
@needs(_STOPS, consuming={"commits_offsets": (True,)}, consumers=(2,))
def finish_without_progress(self: ConsumerOffsetManager) -> None:
    """A clean stop loses the newest offsets of consumers."""
    bit(self.file._content != encode_side_json(self.json_members))


@bug("stop-waits-for-next-step", Service, "shutdown", found_by=("LIVE",))
@needs(_STOPS)
def stop_without_wake(self: Service) -> None:
    """A stop waits until the intervals of all services have ended."""
    self._stopping.set(1)
    bit()
    if self._task is not None:
        self._task.join(None)


# RocketMQ sleeps likewise, but only while dispatch lags.
@bug("start-sleeps-a-second", MessageStore, "start", found_by=("LIVE",))
@needs(_STOPS)
def sleep_and_start(self: MessageStore) -> None:
    """Each start takes a second longer than its work."""
    bit()
    self.world.tasks.sleep(1_000)
    sleep_and_start.original(self)


# A process that opens stores again and again would run out of maps and descriptors.
@bug("stop-leaves-queues-mapped", ConsumeQueueTable, "close", found_by=("STATUS",))
@needs(_STOPS)
def close_no_queue(self: ConsumeQueueTable) -> None:
    """A stop leaves the files of consume queues mapped."""
    bit(bool(self.all_queues()))


# apache/rocketmq issue 574, point 3. Such a put remains in its buffer, or is not synced.
@bug("stopping-log-accepts-puts", CommitLog, "close", found_by=("LIVE", "DUR", "CKPT"))
@needs(endings=("stop in traffic",), sync_flush=(False,), producers=(3,), messages_each=(8, 16))
def stay_open(self: CommitLog) -> None:
    """A put that arrives during a stop returns OK, but its message is missing after the next start."""
    vars(self)["_is_stopping"] = True


@stay_open.also(CommitLog, "_append_locked")
def _append_in_a_stop(
    self: CommitLog, encoded: EncodedPut, store_timestamp_ms: int
) -> AppendMessageResult | PutMessageStatus:
    result = _append_in_a_stop.original(self, encoded, store_timestamp_ms)
    bit("_is_stopping" in vars(self))
    return result


# Found in this store.
@bug("stop-leaves-spares-mapped", AllocateMappedFileService, "finish_remaining_work", found_by=("STATUS",))
@needs(
    _STOPS,
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    messages_each=(3, 8),
    retention={"deletes_segments": (True,)},
    faults={"failed_removal_chance": (0.7,), "slow_sync_chance": (0.4,), "slow_sync_ms_max": (12_000,)},
)
def close_spares_until_failure(self: AllocateMappedFileService) -> None:
    """If the removal of an unused segment fails, a stop leaves the earlier unused segments mapped."""
    made = [request for request in self._requests.values() if request.segment is not None]
    self._requests.clear()
    for request in sorted(made, key=lambda request: -request.base_offset):
        assert request.segment is not None
        self._release_segment(request.segment)
        try:
            self._queue.remove_file(request.base_offset)
        except OSError:
            bit(request is not made[0])
            return


# Of the kind of apache/rocketmq issue 467. A start after a clean stop does not dispatch again.
@bug(
    "failed-queue-sync-is-clean", MessageStore, "is_clean", found_by=("IDX", "CQ-COMPLETE", "CQ-VALID", "READ", "CKPT")
)
@needs(
    faults={"failed_write_back_chance": (0.1,)},
    recover_whole_log=(False,),
    messages_each=(8, 16),
    lives=(2,),
    endings=("stop",),
)
def is_log_clean(self: MessageStore) -> bool:
    """A stop counts as clean although a sync of a queue failed."""
    if not bit(self.flush_queues.last_error is not None):
        return is_log_clean.original(self)
    is_durable = self.log.flushed_where.get() == self.log.put_offset
    return not self.flags.has_failed and is_durable and self.dispatch.behind_bytes == 0

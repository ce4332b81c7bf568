"""Bugs of saved positions that lag, so that a restarted store repeats work."""

from collections.abc import Callable

from ....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.recovery.index_recovery import IndexRecovery
from ....store.recovery.recovery import Recovery
from ....store.services.transaction_queues import OpQueue
from ..mutant import bit, bug, needs


@bug("op-progress-stays", OpQueue, "forget_settled", found_by=("QUIET",))
@needs(transactions={"chance": (0.5,)}, messages_each=(5,), heals=(True,))
def keep_all_ops(self: OpQueue, is_settled: Callable[[int], bool]) -> None:
    """The saved position in the op queue never advances, so every start reads all earlier transaction decisions."""
    bit(any(all(map(is_settled, halves)) for halves in self._ops.values()))


@bug("checkpoint-in-memory", FlushConsumeQueueService, "flush_thoroughly", found_by=("CKPT", "QUIET"))
@needs(heals=(True,))
def flush_without_checkpoint(self: FlushConsumeQueueService) -> None:
    """The checkpoint's times reach the disk only when an index file becomes full."""
    dispatched_to = self._dispatch.reput_from.get()
    dispatched_ms = self._dispatch.dispatched_store_timestamp_ms
    self._queues.make_durable()
    if self.last_error is None:
        self._checkpoint.advance_queue_time(dispatched_ms)
        self.durable_to.set(dispatched_to)
    if self._flush_full_index_files():
        self._checkpoint.flush()
    else:
        bit()


@bug("delay-progress-one-at-a-time", ScheduleMessageService, "persist", found_by=("QUIET", "REDEL"))
@needs(delay={"chance": (0.8,)}, messages_each=(16,))
def persist_one(self: ScheduleMessageService) -> bool:
    """The durable progress of delayed delivery lags more and more."""
    if self._undurable and self._undurable[0][0] <= self._commit_log.queue.flushed_where.get():
        _, level, offset = self._undurable.popleft()
        self._durable[level] = offset
    bit(bool(self._undurable) and self._undurable[0][0] <= self._commit_log.queue.flushed_where.get())
    return self.file.store(encoded_offsets(self._durable))


@bug("recovery-from-oldest-segment", Recovery, "segments_with_entries", found_by=("SCAN",))
@needs(
    recover_whole_log=(False,),
    commit_log_bytes=(1024, 2048),
    flush={"thorough_interval_ms": (2000,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    messages_each=(16,),
    endings=("crash at rest", "crash in traffic"),
)
def oldest_trusted_segment(self: Recovery) -> int:
    """After a crash, recovery also scans the part of the log that the checkpoint covers."""
    if self._clean_exit:
        return max(0, self._begun_segments() - 3)
    limit_ms = self._checkpoint.trusted_timestamp_ms
    for index, segment in enumerate(self._log.segments):
        first_ms = self._first_store_time_of_segment_ms(segment)
        if first_ms is not None and 0 < first_ms <= limit_ms:
            bit(oldest_trusted_segment.original(self) != index)
            return index
    return 0


@bug("clean-exit-scans-all", Recovery, "_scan_from", found_by=("SCAN",))
@needs(recover_whole_log=(False,), commit_log_bytes=(1024,), messages_each=(16,), endings=("stop",))
def scan_all_after_clean_exit(self: Recovery, first: int, trusted: int) -> object:
    """After a clean stop, recovery scans the whole log instead of its last segments."""
    return scan_all_after_clean_exit.original(self, 0 if bit(self._clean_exit and first > 0) else first, trusted)


@bug("index-rebuilt-after-clean-stop", IndexRecovery, "keep_valid_files", found_by=("SCAN",))
@needs(
    recover_whole_log=(False,),
    index={"slots": (40,), "entries": (200,)},
    commit_log_bytes=(1024,),
    messages_each=(16,),
    endings=("stop",),
)
def begin_as_after_a_crash(self: IndexRecovery) -> object:
    """After a clean stop, recovery rebuilds the newest index file from the log."""
    bit(self._clean_exit)
    self._clean_exit = False
    return begin_as_after_a_crash.original(self)


@bug(
    "queue-position-read-after-flush",
    FlushConsumeQueueService,
    "flush_thoroughly",
    found_by=("CKPT", "CLEAN", "CQ-COMPLETE"),
)
@needs(
    recover_whole_log=(False,),
    flush={"thorough_interval_ms": (2000,)},
    pauses={"chance": (0.5,), "ms_max": (300,)},
    sync_ms_max=(10,),
    disk=("strict-posix",),
    producers=(3,),
    messages_each=(30,),
    topics=(2,),
    queues_per_topic=(4,),
    consume_queue_bytes=(100,),
)
def flush_then_read_positions(self: FlushConsumeQueueService) -> None:
    """The checkpoint covers records dispatched during the sync of the queues."""
    before = self._dispatch.reput_from.get()
    self._queues.make_durable()
    dispatched_to = self._dispatch.reput_from.get()
    bit(dispatched_to > before)
    if self.last_error is None:
        self._checkpoint.advance_queue_time(self._dispatch.dispatched_store_timestamp_ms)
        self.durable_to.set(dispatched_to)
    self._flush_full_index_files()
    self._checkpoint.flush()

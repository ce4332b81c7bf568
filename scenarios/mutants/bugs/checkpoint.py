"""Bugs of the checkpoint file, and of recovery that trusts it too much."""

from collections.abc import Iterable
from dataclasses import replace

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CHECKPOINT_FILE_BYTES, SAFETY_MARGIN_MS, encode_checkpoint
from ....store.log import checkpoint
from ....store.log.checkpoint import StoreCheckpoint
from ....store.log.flush import FlushCommitLogService
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.recovery import recovery
from ....store.recovery.recovery import Recovery
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs


# The next start after a clean stop has old times, and no queue time at all after a short life.
@bug("stop-leaves-checkpoint-unwritten", FlushConsumeQueueService, "finish_remaining_work", found_by=("CKPT",))
@needs(endings=("stop",))
def finish_without_checkpoint(self: FlushConsumeQueueService) -> None:
    """The last flush of a clean stop does not write the checkpoint."""
    try:
        dispatched_ms = self._dispatch.dispatched_store_timestamp_ms
        self._queues.make_durable()
        if bit(self.last_error is None and self._queues.sync_error is None):
            self._checkpoint.advance_queue_time(dispatched_ms)
        if self.index is not None:
            self.index.make_durable()
    except OSError as error:
        self.last_error = error


# After a power cut the file has any older times. A start may have lowered them because the clock was set back.
@bug("checkpoint-unsynced", StoreCheckpoint, "flush", found_by=("CKPT",))
@needs(endings=("stop",))
def write_without_sync(self: StoreCheckpoint) -> None:
    """The checkpoint is written, but never synced."""
    assert self._file is not None, "load first"
    with self._lock:
        self._file.store(0, encode_checkpoint(self.values))
        bit()


_LONG_LOG = Ranges(
    recover_whole_log=(False,),
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    messages_each=(16, 24),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
)


# The log is synced much more often than the queues.
@bug("recovery-trusts-later-time", checkpoint, "trusted_timestamp_ms", found_by=("SCAN", "CQ-COMPLETE", "CQ-VALID"))
@needs(_LONG_LOG, endings=("crash in traffic", "crash at rest"))
def later_time(*times_ms: int) -> int:
    """After a crash, recovery begins at the later of the checkpoint's times of log and queues."""
    bit(min(times_ms) != max(times_ms))
    return max(0, max(times_ms) - SAFETY_MARGIN_MS)


@bug("recovery-begins-a-segment-late", recovery, "trusted_by_checkpoint", found_by=("SCAN", "CQ-COMPLETE", "PREFIX"))
@needs(_LONG_LOG, endings=("crash in traffic", "crash at rest"))
def one_segment_more(durable_ms: int, first_times_ms: Iterable[tuple[int, int | None]]) -> int:
    """After a crash, recovery trusts the segment that contains the checkpoint's time."""
    times_ms = list(first_times_ms)
    trusted = one_segment_more.original(durable_ms, times_ms)
    more = min(trusted + (durable_ms > 0), max(len(times_ms) - 1, 0))
    bit(more > trusted)
    return more


# Another system may have caused the exit, so RocketMQ reads the last three segments.
@bug("clean-exit-trusts-all-but-last", recovery, "trusted_after_clean_exit", found_by=("SCAN",))
@needs(_LONG_LOG, endings=("stop",), lives=(2,))
def trust_all_but_last(begun_segments: int) -> int:
    """After a clean stop, recovery reads the last segment only."""
    trusted = max(0, begun_segments - 1)
    bit(trusted != trust_all_but_last.original(begun_segments))
    return trusted


@bug("whole-log-unread", Recovery, "_scan_needed_segments", found_by=("SCAN",))
@needs(_LONG_LOG, recover_whole_log=(True,), endings=("stop", "crash at rest"))
def scan_from_checkpoint(self: Recovery, trusted: int) -> CorruptFileError | None:
    """`recoverWholeLog` has no effect."""
    bit(self._config.recover_whole_log and trusted > 0)
    self._config = replace(self._config, recover_whole_log=False)
    return scan_from_checkpoint.original(self, trusted)


# apache/bookkeeper PR 2983. After a power cut, recovery trusts records that never reached the disk.
@bug("checkpoint-ahead-of-sync", FlushCommitLogService, "_flush_once", found_by=("CKPT", "DUR", "PREFIX"))
def advance_then_flush(self: FlushCommitLogService, least_pages: int) -> bool:
    """The checkpoint covers records of the log before their sync."""
    last = self.queue.last_segment()
    if last is not None and not self._sync_failed:
        bit(self.queue.flushed_where.get() < last.base_offset + last.readable.get())
        self.checkpoint.advance_log_time(last.readable_store_timestamp_ms)
    return advance_then_flush.original(self, least_pages)


# etcd-io/etcd PR 21372. After a reset, the disk still has the old, later times.
@bug("checkpoint-synced-before-write", StoreCheckpoint, "flush", found_by=("CKPT",))
@needs(endings=("stop",))
def sync_then_write(self: StoreCheckpoint) -> None:
    """The checkpoint file is synced before the new times are written to it."""
    assert self._file is not None, "load first"
    with self._lock:
        raw = encode_checkpoint(self.values)
        bit(bytes(self._file.view(0, len(raw))) != raw)
        self._file.msync(0, CHECKPOINT_FILE_BYTES)
        self._file.store(0, raw)


# apache/rocketmq issue 1434.
@bug("crash-trusts-all-but-last", recovery, "trusted_by_checkpoint", found_by=("SCAN", "CQ-COMPLETE", "PREFIX"))
@needs(_LONG_LOG, endings=("crash in traffic", "crash at rest"))
def trust_up_to_newest_segment(durable_ms: int, first_times_ms: Iterable[tuple[int, int | None]]) -> int:
    """After a crash, recovery reads only the newest segment that has a record, although the checkpoint covers less."""
    times_ms = list(first_times_ms)
    newest = next((number for number, first_ms in times_ms if first_ms), 0) if durable_ms else 0
    bit(newest != trust_up_to_newest_segment.original(durable_ms, times_ms))
    return newest


# apache/kafka PR 9364. The next crash leaves the old queue time with queues that lack entries.
@bug("queue-time-reset-in-memory", StoreCheckpoint, "reset_queue_time", found_by=("CKPT", "CQ-COMPLETE"))
@needs(SCENARIOS["crash-in-load"].ranges)
def reset_in_memory(self: StoreCheckpoint) -> None:
    """Before a load removes queue entries, the queue time of the checkpoint is reset in memory only."""
    bit(self.logics_msg_timestamp_ms > 0)
    self.logics_msg_timestamp_ms = 0

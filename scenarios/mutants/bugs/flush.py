"""Bugs of flushing: group commit, failed syncs, and the flushed position."""

from collections.abc import Callable

from ....store.errors import is_disk_full
from ....store.log.flush import FlushCommitLogService, GroupCommitRequest, GroupCommitService
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.recovery.recovery import Recovery
from ....store.retention.cleaning import CleanCommitLog
from ....store.running_flags import RefusalReason
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs


@bug("ack-before-flush", GroupCommitService, "submit", found_by=("STATUS", "DUR"))
@needs(sync_flush=(True,))
def submit_and_answer(self: GroupCommitService, request: GroupCommitRequest) -> None:
    """A put is acknowledged before its sync."""
    with self._lock:
        self._requests.append(request)
    self.signal.notify()
    bit()
    request.complete(True)


# The flush service flushes twice, and computes the result before each flush. The first record of a segment needs both
# flushes.
@bug("group-commit-stale-result", GroupCommitService, "commit", found_by=("STATUS",))
@needs(sync_flush=(True,), commit_log_bytes=(2048, 4096))
def commit_with_stale_result(self: GroupCommitService, requests: list[GroupCommitRequest]) -> None:
    """A put that opens a new segment fails with a timeout although the second flush made the record durable."""
    for request in requests:
        durable = False
        for _ in range(2):
            durable = self.queue.flushed_where.get() >= request.end_offset
            if durable:
                break
            with self._flush_lock:
                self._flush_once(0)
        bit(not durable)
        request.complete(durable)
    self.flush_to(self.queue.max_offset)


# The producer reads the list attribute before it waits for the lock. Meanwhile the service may replace the list.
@bug("group-commit-swap-race", GroupCommitService, "submit", found_by=("LIVE", "QUIET"))
@needs(sync_flush=(True,), producers=(3,))
def submit_to_swapped_list(self: GroupCommitService, request: GroupCommitRequest) -> None:
    """A flush request in the previous round's list never completes."""
    requests = self._requests
    with self._lock:
        closed = self._closed
        if not closed:
            requests.append(request)
            bit(requests is not self._requests)
    if closed:
        request.complete(self.flush_to(request.end_offset))
    else:
        self.signal.notify()


@submit_to_swapped_list.also(GroupCommitService, "take_requests")
def _swap_without_lock(self: GroupCommitService) -> list[GroupCommitRequest]:
    taken, self._requests = self._requests, []
    return taken


@submit_to_swapped_list.also(GroupCommitService, "commit")
def _commit_under_lock(self: GroupCommitService, requests: list[GroupCommitRequest]) -> None:
    with self._lock:
        _commit_under_lock.original(self, requests)
        requests.clear()


# The flush service clears its signal after it removes the requests. RocketMQ's poll every 10 ms would hide this bug.
@bug("group-commit-lost-wakeup", GroupCommitService, "run_once", found_by=("LIVE", "QUIET"))
@needs(
    sync_flush=(True,),
    producers=(2, 3),
    messages_each=(3,),
    pauses={"chance": (0.0,)},
    lives=(3,),
    endings=("crash at rest",),
)
def step_clearing_notice_late(self: GroupCommitService) -> None:
    """A put that arrives while the service takes its batch waits until the next put."""
    self.signal.wait(None)
    requests = self.take_requests()
    bit(self.signal.wait(0))
    self.commit(requests)


_WITH_FAILED_SYNCS = Ranges(faults={"failed_sync_chance": (0.1,)})
_SYNC_TRIES = 1_000


# The kernel reports a write-back error once and marks the pages clean, so the retry writes no data.
@bug("fsync-retry-acks", FlushCommitLogService, "_flush_once", found_by=("POS", "STATUS", "DUR"))
@needs(_WITH_FAILED_SYNCS)
def flush_until_it_succeeds(self: FlushCommitLogService, least_pages: int) -> bool:
    """After a failed sync, a successful retry marks data as durable although the kernel has dropped the data."""
    for _ in range(_SYNC_TRIES):
        try:
            moved = self.queue.flush(least_pages)
        except OSError:
            bit()
            continue
        if moved:
            self.checkpoint.advance_log_time(self.queue.flushed_store_timestamp_ms)
            self.on_flushed()
        return moved
    return False


# CockroachDB treated ENOSPC of a sync as temporary (cockroachdb/cockroach#64385).
@bug("full-disk-sync-retried", FlushCommitLogService, "_flush_once", found_by=("POS", "STATUS", "DUR"))
@needs(_WITH_FAILED_SYNCS, faults={"failed_sync_chance": (0.1,), "sync_error": ("ENOSPC",)})
def flush_again_after_full_disk(self: FlushCommitLogService, least_pages: int) -> bool:
    """A sync that failed because the disk was full is retried, and the next sync counts as proof of all data."""
    try:
        moved = self.queue.flush(least_pages)
    except OSError as error:
        if not bit(is_disk_full(error)):
            self._sync_failed = True
            self.flags.refuse_until_restart(RefusalReason.NOT_WRITEABLE, str(error))
        return False
    if moved:
        self.checkpoint.advance_log_time(self.queue.flushed_store_timestamp_ms)
        self.on_flushed()
    return moved


# Group commit compares positions and ignores errors.
@bug("flush-advance-on-io-error", Segment, "flush", found_by=("POS", "STATUS", "DUR", "CKPT"))
@needs(_WITH_FAILED_SYNCS)
def flush_despite_error(self: Segment, least_pages: int) -> int:
    """A failed sync advances the flushed position."""
    wrote = self.wrote.get()
    try:
        return flush_despite_error.original(self, least_pages)
    except OSError:
        bit()
        self.flushed.set(wrote)
        return wrote


@bug("flush-jumps-to-new-file", SegmentQueue, "flush", found_by=("POS", "STATUS", "DUR", "PREFIX", "QUIET"))
@needs(commit_log_bytes=(2048,))
def flush_newest(self: SegmentQueue, least_pages: int = 0) -> bool:
    """The store never syncs the end of a full segment after a newer segment exists."""
    where, segment = self.flushed_where.get(), self.last_segment()
    if segment is None:
        return False
    flushed = segment.base_offset + segment.flush(least_pages)
    bit(where < segment.base_offset)
    if flushed == where:
        return False
    self.flushed_where.set(flushed)
    return True


class _GoingSegment(Segment):
    """A segment that is still in use although it is marked for removal."""

    __slots__ = ()

    def flush(self, least_pages: int) -> int:
        readable = self.readable.get()
        bit()
        self.flushed.set(readable)
        return readable


# RocketMQ advances the flushed position if a flush cannot acquire a reference to its segment. This store has no
# reference counts. So the class of the segment marks it until the next pass removes it.
@bug("flush-hold-failed-fakes-progress", CleanCommitLog, "_remove_first", found_by=("POS", "CLEAN", "CKPT", "DUR"))
@needs(
    retention={"deletes_segments": (True,)},
    sync_flush=(False,),
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300, 900)},
    producers=(3,),
    messages_each=(16,),
    pauses={"chance": (0.5,), "ms_max": (30,)},
    sync_ms_max=(10,),
)
def mark_first(self: CleanCommitLog) -> bool:
    """A flush treats a segment that is marked for removal as durable."""
    first = self._log.segments[0]
    if self._log.flushed_where.get() >= first.end_offset:
        return mark_first.original(self)
    first.__class__ = _GoingSegment
    return False


# At a start the flushed position is 0, but retention has removed the segment at 0. The mutant also removes this store's
# fallback to the next segment.
@bug("flush-stuck-nonzero-base", Recovery, "_set_log_positions", found_by=("LIVE", "QUIET", "DUR", "STATUS"))
@needs(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300, 900)},
    messages_each=(16,),
    pauses={"chance": (0.5,)},
)
def set_flushed_to_zero(self: Recovery, trusted: int) -> None:
    """The store never syncs a log that does not begin at offset 0."""
    set_flushed_to_zero.original(self, trusted)
    bit(self._log.min_offset > 0)
    self._log.flushed_where.set(0)


@set_flushed_to_zero.also(SegmentQueue, "segment_at_or_after")
def _find_exactly(self: SegmentQueue, offset: int) -> Segment | None:
    return self.find(offset)


# RocketMQ wakes the service for such puts, too (CommitLog.handleDiskFlush).
@bug(
    "put-without-wait-unsynced", GroupCommitService, "start_durability_wait", found_by=("QUIET", "TX", "LIVE", "SCHED")
)
@needs(sync_flush=(True,), messages={"no_wait_chance": (0.2,)}, heals=(True,))
def start_wait_only(
    self: GroupCommitService, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
) -> GroupCommitRequest | None:
    """A message that need not wait for the disk stays invisible until another put starts a sync."""
    if bit(not wait):
        return None
    return start_wait_only.original(self, end_offset, wait=wait, on_known=on_known)


# oxia-db/oxia#1160: a sync covers only offsets that were read before it.
@bug("sync-covers-later-bytes", Segment, "flush", found_by=("STATUS", "POS"))
@needs(sync_flush=(True,), producers=(2, 3), sync_ms_max=(10,), memory={"transient_pool": (False,)})
def flush_and_read_end_again(self: Segment, least_pages: int) -> int:
    """A sync also counts for the bytes that were appended during it."""
    before = self.readable.get()
    flush_and_read_end_again.original(self, least_pages)
    if self.flushed.get() == before and bit(self.readable.get() > before):
        self.flushed.set(self.readable.get())
    flushed: int = self.flushed.get()
    return flushed

"""Bugs of flushing: group commit, failed syncs, and the flushed position."""

from ....store.log.flush import FlushCommitLogService, GroupCommitRequest, GroupCommitService
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.recovery.recovery import Recovery
from ....store.retention.cleaning import CleanCommitLog
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #37 ack-before-flush: a put is answered when its request is queued, not when the sync has covered it.
def _submit_and_answer(self: GroupCommitService, request: GroupCommitRequest) -> None:
    with self._lock:
        self._requests.append(request)
    self.signal.notify()
    bit()
    request.complete(True)


ACK_BEFORE_FLUSH = Mutant(
    "ack-before-flush",
    "a put is answered before anything was synced for it",
    (Patch(GroupCommitService, "submit", _submit_and_answer),),
    ("STATUS", "DUR"),
    Ranges(sync_flush=(True,)),
)


# #5 group-commit-stale-result: the answer is computed before each of two flush rounds, never after the last.
# A record at the front of a new segment needs both rounds, one per segment, and is answered that the time was up.
def _commit_with_stale_result(self: GroupCommitService, requests: list[GroupCommitRequest]) -> None:
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


GROUP_COMMIT_STALE_RESULT = Mutant(
    "group-commit-stale-result",
    "a put that opens a new segment is answered with a time-out although the second flush made it durable",
    (Patch(GroupCommitService, "commit", _commit_with_stale_result),),
    ("STATUS",),
    Ranges(sync_flush=(True,), commit_log_bytes=(2048, 4096)),
)


# #6 group-commit-swap-race: both sides lock a list, but one lays hold of it before that, and the other swaps it. A
# producer that is overtaken by the swap waits until the walk is over and adds to a list that nobody looks at again.
_original_commit = GroupCommitService.commit


def _submit_to_swapped_list(self: GroupCommitService, request: GroupCommitRequest) -> None:
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


def _swap_without_lock(self: GroupCommitService) -> list[GroupCommitRequest]:
    taken, self._requests = self._requests, []
    return taken


def _commit_under_lock(self: GroupCommitService, requests: list[GroupCommitRequest]) -> None:
    with self._lock:
        _original_commit(self, requests)
        requests.clear()


GROUP_COMMIT_SWAP_RACE = Mutant(
    "group-commit-swap-race",
    "a request added to the list of the last round is forgotten",
    (
        Patch(GroupCommitService, "submit", _submit_to_swapped_list),
        Patch(GroupCommitService, "take_requests", _swap_without_lock),
        Patch(GroupCommitService, "commit", _commit_under_lock),
    ),
    (
        "LIVE",
        "QUIET",
    ),
    Ranges(sync_flush=(True,), producers=(3,)),
)


# #41 group-commit-lost-wakeup: the service clears its notice after it has taken the requests, not before. A request
# that comes between the two is noticed with the next put, or never. RocketMQ's poll of 10 ms would hide it.
def _step_clearing_notice_late(self: GroupCommitService) -> None:
    self.signal.wait(None)
    requests = self.take_requests()
    bit(self.signal.wait(0))
    self.commit(requests)


GROUP_COMMIT_LOST_WAKEUP = Mutant(
    "group-commit-lost-wakeup",
    "a put that arrives while the service takes its batch waits for the next put",
    (Patch(GroupCommitService, "step", _step_clearing_notice_late),),
    (
        "LIVE",
        "QUIET",
    ),
    Ranges(
        sync_flush=(True,),
        producers=(2, 3),
        messages_each=(3,),
        pauses={"chance": (0.0,)},
        lives=(3,),
        endings=("crash at rest",),
    ),
)


# #2 fsync-retry-acks: after a failed sync the flusher tries again and takes the next success as proof. The
# kernel has reported the error once and marked the pages clean, so the second sync writes nothing.
_SYNC_TRIES = 1_000


def _flush_until_it_succeeds(self: FlushCommitLogService, least_pages: int) -> bool:
    for _ in range(_SYNC_TRIES):
        try:
            moved = self.queue.flush(least_pages)
        except OSError:
            bit()
            continue
        if moved:
            self.checkpoint.log_is_durable_to(self.queue.flushed_store_timestamp_ms)
            self.on_flushed()
        return moved
    return False


_WITH_FAILED_SYNCS = Ranges(faults={"failed_sync_chance": (0.1,)})


FSYNC_RETRY_ACKS = Mutant(
    "fsync-retry-acks",
    "a failed sync is repeated, and the repetition's success counts although the kernel has dropped the data",
    (Patch(FlushCommitLogService, "_flush_once", _flush_until_it_succeeds),),
    ("POS", "STATUS", "DUR"),
    _WITH_FAILED_SYNCS,
)


# #1 flush-advance-on-io-error: the file's flush catches the sync's error and moves its position all the same.
# Group commit compares positions only, so a failed sync looks to it like a good one.
_original_flush = Segment.flush


def _flush_despite_error(self: Segment, least_pages: int) -> int:
    wrote = self.wrote.get()
    try:
        return _original_flush(self, least_pages)
    except OSError:
        bit()
        self.flushed.set(wrote)
        return wrote


FLUSH_ADVANCE_ON_IO_ERROR = Mutant(
    "flush-advance-on-io-error",
    "a sync that fails moves the flushed position as if it had succeeded",
    (Patch(Segment, "flush", _flush_despite_error),),
    ("POS", "STATUS", "DUR", "CKPT"),
    _WITH_FAILED_SYNCS,
)


# #42 flush-jumps-to-new-file: after a rollover the flusher goes on in the newest segment; the one before is
# done. The bytes at the end of that were never synced, and lie in front of acknowledged ones.
def _flush_newest(self: SegmentQueue, least_pages: int = 0) -> bool:
    where, segment = self.flushed_where.get(), self.last()
    if segment is None:
        return False
    flushed = segment.base_offset + segment.flush(least_pages)
    bit(where < segment.base_offset)
    if flushed == where:
        return False
    self.flushed_where.set(flushed)
    return True


FLUSH_JUMPS_TO_NEW_FILE = Mutant(
    "flush-jumps-to-new-file",
    "the end of a full segment is never synced once there is a newer one",
    (Patch(SegmentQueue, "flush", _flush_newest),),
    ("POS", "STATUS", "DUR", "PREFIX"),
    Ranges(commit_log_bytes=(2048,)),
)


# #3 flush-hold-failed-fakes-progress: retention marks a segment as going whose bytes are not durable yet, and a flush
# that may not use it any more moves its position all the same. The store counts no references, so what marks a
# segment is a class of its own, and that a reader holds it is a removal that waits for the next pass.
_original_remove_first = CleanCommitLog._remove_first


class _GoingSegment(Segment):
    """A segment that is marked for removal and still there."""

    __slots__ = ()

    def flush(self, least_pages: int) -> int:
        """Say that everything is durable."""
        readable = self.readable.get()
        bit()
        self.flushed.set(readable)
        return readable


def _mark_first(self: CleanCommitLog) -> bool:
    first = self._log.segments[0]
    if self._log.flushed_where.get() >= first.end_offset:
        return _original_remove_first(self)
    first.__class__ = _GoingSegment
    return False


FLUSH_HOLD_FAILED_FAKES_PROGRESS = Mutant(
    "flush-hold-failed-fakes-progress",
    "a flush that finds its segment marked for removal counts it as durable",
    (Patch(CleanCommitLog, "_remove_first", _mark_first),),
    ("POS", "CLEAN", "CKPT", "DUR"),
    Ranges(
        retention={"deletes_segments": (True,)},
        sync_flush=(False,),
        commit_log_bytes=(2048,),
        messages={"body_bytes_max": (300, 900)},
        producers=(3,),
        messages_each=(16,),
        pauses={"chance": (0.5,), "ms_max": (30,)},
        sync_ms_max=(10,),
    ),
)


# #7 flush-stuck-nonzero-base: the flush position is 0 after a start, whatever the first segment is. Once
# retention has removed that of offset 0, no segment holds the position, and it never moves again. The flush of this
# store takes the next segment then, so that is left out, too.
_original_set_log_positions = Recovery._set_log_positions


def _set_flushed_to_zero(self: Recovery, trusted: int) -> None:
    _original_set_log_positions(self, trusted)
    bit(self._log.min_offset > 0)
    self._log.flushed_where.set(0)


FLUSH_STUCK_NONZERO_BASE = Mutant(
    "flush-stuck-nonzero-base",
    "nothing is ever synced in a log whose first segment does not begin at 0",
    (
        Patch(Recovery, "_set_log_positions", _set_flushed_to_zero),
        Patch(SegmentQueue, "at_or_after", SegmentQueue.find),
    ),
    ("LIVE", "QUIET", "DUR", "STATUS"),
    Ranges(
        retention={"deletes_segments": (True,)},
        commit_log_bytes=(2048,),
        messages={"body_bytes_max": (300, 900)},
        messages_each=(16,),
        pauses={"chance": (0.5,)},
    ),
)

"""Bugs of the transient pool: commits from its buffers to the file."""

from errno import ENOSPC
from typing import Any

from ....store.errors import is_disk_full
from ....store.log import transient_pool
from ....store.log.segment import Segment
from ....store.log.transient_pool import BufferedSegment, BufferedSegmentQueue, CommitRealTimeService
from ....store.message_store import MessageStore
from ....store.running_flags import RefusalReason
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs


@bug("transient-fake-commit", BufferedSegment, "_write", found_by=("POS", "LIVE", "QUIET", "DUR"))
@needs(sync_flush=(False,), memory={"transient_pool": (True,)})
def write_nothing(self: BufferedSegment, at: int, end: int) -> None:
    """A commit advances the committed position without a write to the file."""
    bit()


@bug(
    "transient-read-wrote-position",
    BufferedSegment,
    "__init__",
    found_by=("LIVE", "QUIET", "POS", "CQ-VALID", "CQ-COMPLETE", "VIS", "READ"),
)
@needs(sync_flush=(False,), memory={"transient_pool": (True,)}, consumers=(0, 1, 2))
def init_with_wrote_readable(self: BufferedSegment, *given: Any, **named: Any) -> None:
    """Readers see buffered bytes that are not in the file yet."""
    init_with_wrote_readable.original(self, *given, **named)
    self.readable = self.wrote
    bit()


@init_with_wrote_readable.also(BufferedSegmentQueue, "committed_where")
def _committed_where(self: BufferedSegmentQueue) -> int:
    for segment in self.segments:
        committed = _committed(segment)
        if committed < self.segment_bytes:
            return segment.base_offset + committed
    return 0 if not self.segments else self.segments[-1].end_offset


def _committed(segment: Segment) -> int:
    return segment.committed.get() if isinstance(segment, BufferedSegment) else segment.wrote.get()


@init_with_wrote_readable.also(BufferedSegmentQueue, "max_offset")
def _max_wrote_offset(self: BufferedSegmentQueue) -> int:
    last = self.last_segment()
    return 0 if last is None else last.base_offset + last.wrote.get()


# Found in this store: in a sparse file, the commit allocates blocks. A retry succeeds once the disk has space.
def _notify_if_committed(service: CommitRealTimeService) -> bool:
    """Notify the next service if more was committed, as `commit` does after an error. Return whether it was."""
    where = service._queue.committed_where
    if where == service._committed_where:
        return False
    service._committed_where = where
    service.on_committed()
    return True


@bug("full-disk-ends-commits", CommitRealTimeService, "commit", found_by=("LIVE", "QUIET", "STATUS"))
@needs(
    sync_flush=(False,),
    memory={"transient_pool": (True,)},
    capacity_bytes=(10_000, 16_000),
    faults={"sparse": (True,)},
    disk=("ext4-ordered", "process-kill"),
    endings=("stop",),
)
def commit_or_refuse_for_good(self: CommitRealTimeService, least_pages: int) -> bool:
    """After a commit on a full disk, the store refuses puts and stops uncleanly although space returns."""
    try:
        self._queue.commit(least_pages)
    except OSError as error:
        self.last_error = error
        self._flags.refuse_until_restart(RefusalReason.NOT_WRITEABLE, str(error))
        bit(is_disk_full(error))
    return _notify_if_committed(self)


@bug("final-drain-stops-early", MessageStore, "shutdown", found_by=("DUR", "LIVE", "QUIET"))
@needs(
    sync_flush=(False,),
    memory={"transient_pool": (True,)},
    producers=(2, 3),
    messages_each=(8, 16),
    endings=("stop in traffic",),
)
def shut_committer_down_first(self: MessageStore) -> bool:
    """With the transient pool, the last commit of a stop comes before the last put."""
    if self.commit is not None:
        bit()
        self.commit.shutdown()
    return shut_committer_down_first.original(self)


# apache/bookkeeper issue 4855. After the disk has space again, the log has zeros in place of the messages.
@bug("failed-commit-counts", BufferedSegment, "commit", found_by=("POS", "DUR"))
@needs(SCENARIOS["full-disk-commit-waits"].ranges)
def commit_or_pass_over(self: BufferedSegment, least_pages: int) -> int:
    """A failed commit advances the committed position."""
    try:
        return commit_or_pass_over.original(self, least_pages)
    except OSError:
        wrote = self.wrote.get()
        bit(self.committed.get() < wrote)
        self.committed.set(wrote)
        raise


# RocketMQ 4.x calls MappedFileQueue.commit ten times at a stop.
@bug("commit-ends-with-segment", BufferedSegmentQueue, "commit", found_by=("LIVE", "DUR", "QUIET"))
@needs(
    sync_flush=(False,),
    memory={"transient_pool": (True,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300, 900)},
    producers=(3,),
    messages_each=(16, 24),
    endings=("stop in traffic", "stop"),
    faults={"slow_io_chance": (0.5,)},
)
def commit_one_segment(self: BufferedSegmentQueue, least_pages: int = 0) -> int:
    """A commit ends after one segment, also the last one of a stop."""
    where = self.committed_where
    segment = self.find(where)
    if segment is None:
        return where
    committed = segment.base_offset + segment.commit(least_pages)
    following = self.find(committed)
    bit(following is not None and following is not segment and following.wrote.get() > 0)
    return committed


# apache/rocketmq#2563: MappedFile.commit0 ignores the result of FileChannel.write.
@bug("short-commit-counts-as-whole", BufferedSegment, "_write", found_by=("QUIET", "POS", "DUR"))
@needs(SCENARIOS["write-buffer-kill"].ranges, faults={"short_write_chance": (0.3,)})
def write_once(self: BufferedSegment, at: int, end: int) -> None:
    """A commit regards all bytes that it gave to a write as written, also if the write took fewer."""
    if at < end:
        bit(self.file.pwrite(at, self._buffer[at:end]) < end - at)


# RocketMQ's MappedFile.commit0 logs every error of the write and continues. Its code is in apache/rocketmq#2563.
@bug("failed-commit-only-noted", CommitRealTimeService, "commit", found_by=("STATUS",))
@needs(SCENARIOS["write-buffer-kill"].ranges, faults={"failed_write_chance": (0.3,)})
def commit_and_note(self: CommitRealTimeService, least_pages: int) -> bool:
    """After a commit fails, the store refuses puts only if the disk is full, not after another error."""
    try:
        self._queue.commit(least_pages)
    except OSError as error:
        self.last_error = error
        if not bit(not is_disk_full(error)):
            self._flags.add_refusal(RefusalReason.DISK_FULL)
    return _notify_if_committed(self)


@bug("full-quota-ends-commits", transient_pool, "is_disk_full", found_by=("LIVE", "QUIET", "STATUS"))
@needs(SCENARIOS["full-disk-commit-waits"].ranges, faults={"space_error": ("EDQUOT",), "failed_write_chance": (0.0,)})
def is_device_full(error: Exception) -> bool:
    """After a commit that exceeds a quota, the store refuses puts until a restart, although the quota may be raised."""
    is_full = isinstance(error, OSError) and error.errno == ENOSPC
    bit(is_full != is_disk_full(error))
    return is_full

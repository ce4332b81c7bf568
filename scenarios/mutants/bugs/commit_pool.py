"""Bugs of the transient pool: commits from its buffers to the file."""

from functools import wraps
from typing import Any

from ....store.errors import is_disk_full
from ....store.log.segment import Segment
from ....store.log.transient_pool import (
    BufferedSegment,
    BufferedSegmentQueue,
    CommitRealTimeService,
)
from ....store.message_store import MessageStore
from ....store.running_flags import Refusal
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #8 transient-fake-commit: a commit moves its position and writes nothing; the bytes stay in the buffer.
# Readers find zeros where messages should be, and nothing is left after a restart.
def _write_nothing(self: BufferedSegment, at: int, end: int) -> None:
    """Write nothing."""
    bit()


TRANSIENT_FAKE_COMMIT = Mutant(
    "transient-fake-commit",
    "committing moves the committed position without writing the bytes to the file",
    (Patch(BufferedSegment, "_write", _write_nothing),),
    ("POS", "LIVE", "QUIET", "DUR"),
    Ranges(sync_flush=(False,), memory={"transient_pool": (True,)}),
)


# #9 transient-read-wrote-position: readers go by the written position although a buffer is in front of the
# file. What is not committed yet is zeros to them, or a part of a record.
_original_init = BufferedSegment.__init__


@wraps(_original_init)
def _init_with_wrote_readable(self: BufferedSegment, *given: Any, **named: Any) -> None:
    _original_init(self, *given, **named)
    self.readable = self.wrote
    bit()


def _committed_where(self: BufferedSegmentQueue) -> int:
    for segment in self.segments:
        committed = _committed(segment)
        if committed < self.segment_bytes:
            return segment.base_offset + committed
    return 0 if not self.segments else self.segments[-1].end_offset


def _committed(segment: Segment) -> int:
    return segment.committed.get() if isinstance(segment, BufferedSegment) else segment.wrote.get()


def _max_wrote_offset(self: BufferedSegmentQueue) -> int:
    last = self.last()
    return 0 if last is None else last.base_offset + last.wrote.get()


TRANSIENT_READ_WROTE_POSITION = Mutant(
    "transient-read-wrote-position",
    "readers may see what was put to a buffer and is not in the file yet",
    (
        Patch(BufferedSegment, "__init__", _init_with_wrote_readable),
        Patch(BufferedSegmentQueue, "committed_where", property(_committed_where)),
        Patch(BufferedSegmentQueue, "max_offset", property(_max_wrote_offset)),
    ),
    ("LIVE", "QUIET", "POS", "CQ-VALID", "CQ-COMPLETE", "VIS", "READ"),
    Ranges(sync_flush=(False,), memory={"transient_pool": (True,)}, consumers=(0, 1, 2)),
)


# full-disk-ends-commits: a commit that meets a full disk ends all puts until a restart, though it is done
# again once there is room. Found in this store, under ASYNC_FLUSH with the pool on a sparse disk: a block is
# first asked for when a commit writes.
def _commit_or_refuse_for_good(self: CommitRealTimeService, least_pages: int) -> bool:
    try:
        self._queue.commit(least_pages)
    except OSError as error:
        self.last_error = error
        self._flags.refuse_for_good(Refusal.NOT_WRITEABLE)
        bit(is_disk_full(error))
    where = self._queue.committed_where
    if where == self._committed_where:
        return False
    self._committed_where = where
    self.on_committed()
    return True


FULL_DISK_ENDS_COMMITS = Mutant(
    "full-disk-ends-commits",
    "a commit without room refuses puts for good, and keeps a stop from being clean, though room has returned",
    (Patch(CommitRealTimeService, "commit", _commit_or_refuse_for_good),),
    ("LIVE", "QUIET", "STATUS"),
    Ranges(
        sync_flush=(False,),
        memory={"transient_pool": (True,)},
        capacity_bytes=(10_000, 16_000),
        faults={"sparse": (True,)},
        disk=("ext4-ordered", "process-kill"),
        endings=("stop",),
    ),
)


# #46 final-drain-stops-early: a stop commits what is there and ends the committer before puts are refused. A put that
# is answered between the two has its bytes in the buffer only; the exit is not clean, or the put is lost.
_original_shutdown = MessageStore.shutdown


def _shut_committer_down_first(self: MessageStore) -> bool:
    if self.commit is not None:
        bit()
        self.commit.shutdown()
    return _original_shutdown(self)


FINAL_DRAIN_STOPS_EARLY = Mutant(
    "final-drain-stops-early",
    "with a buffer in front of the log, the last commit of a stop comes before the last put",
    (Patch(MessageStore, "shutdown", _shut_committer_down_first),),
    ("DUR", "LIVE", "QUIET"),
    Ranges(
        sync_flush=(False,),
        memory={"transient_pool": (True,)},
        producers=(2, 3),
        messages_each=(8, 16),
        endings=("stop in traffic",),
    ),
)

"""Bugs of plain attributes: changes of shared tables that are not atomic.

These changes make no system call between their steps, so only runs that switch tasks at attribute accesses find the
bugs.
"""

from ....store.log.allocate import WAIT_MS, AllocateMappedFileService
from ....store.log.flush import GroupCommitRequest, GroupCommitService
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.log.transient_pool import BufferedSegmentQueue
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ..mutant import bit, bug, needs


@bug("allocate-table-without-lock", AllocateMappedFileService, "take_segment", found_by=("LIVE",))
@needs(attribute_points=(True,), commit_log_bytes=(2048,), messages_each=(16,))
def take_out_without_lock(self: AllocateMappedFileService, base_offset: int) -> Segment | None:
    """A put removes its segment from the table while the service iterates over the table."""
    with self._lock:
        request = self._register_request(base_offset, 2)
        assert request is not None, "there is no end of the budget"
        self._register_request(base_offset + self._queue.segment_bytes, 1)
    self.signal.notify()
    if request.segment is None and request.error is None:
        request.done.wait(WAIT_MS)
    if request.segment is None and request.error is None:
        return None
    del self._requests[base_offset]
    return request.segment


# The mutant reads the segment list attribute four times instead of once.
@bug("row-read-by-index", SegmentQueue, "find", found_by=("LIVE", "STATUS", "CLEAN", "POS"))
@needs(
    attribute_points=(True,),
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(2048,),
    consumers=(2,),
    messages={"body_bytes_max": (300, 900)},
    messages_each=(16,),
    pauses={"chance": (0.5,)},
    sync_ms_max=(10,),
    disturbances={"paused_task_chance": (1.0,)},
    starved_steps_max=(500,),
)
def find_in_changing_row(self: SegmentQueue, offset: int) -> Segment | None:
    """A reader gets the wrong segment if retention removes the first segment after the reader computed the index."""
    if not self.segments:
        return None
    first_offset = self.segments[0].base_offset
    index = (offset - first_offset) // self.segment_bytes
    if not 0 <= index < len(self.segments):
        return None
    try:
        found = self.segments[index]
    except IndexError:
        bit()
        raise
    bit(found.base_offset != first_offset + index * self.segment_bytes)
    return found


# Found in this store.
@bug("committed-where-reads-segments-twice", BufferedSegmentQueue, "committed_where", found_by=("LIVE",))
@needs(
    attribute_points=(True,),
    sync_flush=(False,),
    memory={"transient_pool": (True,)},
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300, 900)},
    messages_each=(16,),
    sync_ms_max=(10,),
    disturbances={"paused_task_chance": (1.0,)},
)
def committed_where_in_older_segments(self: BufferedSegmentQueue) -> int:
    """A reader looks for the first uncommitted segment, which was added after the reader got the list of segments."""
    segments = self.segments
    if not segments:
        return 0
    index, last = self.segment_index_of(self._open_base), len(segments) - 1
    bit(index > last)
    while index < last and segments[index].readable.get() == self.segment_bytes:
        index += 1
    self._open_base = segments[index].base_offset
    return self._open_base + segments[index].readable.get()


@bug("group-commit-copies-then-clears", GroupCommitService, "submit", found_by=("LIVE", "STATUS"))
@needs(attribute_points=(True,), sync_flush=(True,), producers=(3,))
def submit_without_lock(self: GroupCommitService, request: GroupCommitRequest) -> None:
    """A put between the copying and the clearing of a round's requests never completes."""
    if self._closed:
        request.complete(self.flush_to(request.end_offset))
    else:
        self._requests.append(request)
        self.signal.notify()


@submit_without_lock.also(GroupCommitService, "take_requests")
def _copy_then_clear(self: GroupCommitService) -> list[GroupCommitRequest]:
    taken = list(self._requests)
    cleared = self._requests
    bit(len(cleared) > len(taken))
    cleared.clear()
    return taken


# A commit replaces the table with a changed copy, so that a persist can read the old table without a lock.
@bug("commit-to-stale-table", ConsumerOffsetManager, "commit_offset", found_by=("REDEL", "META", "QUIET"))
@needs(attribute_points=(True,), consuming={"commits_offsets": (True,)}, consumers=(2,), endings=("stop",))
def commit_in_new_table(self: ConsumerOffsetManager, group: str, topic: str, queue_id: int, offset: int) -> None:
    """If two groups commit at the same time, one commit is lost."""
    key, before = f"{topic}@{group}", self._offsets
    unpointed = vars(self)  # access without a scheduling point
    commits = unpointed.get("commits", 0)
    table = {**before, key: {**before.get(key, {}), queue_id: offset}}
    self._offsets = table  # the other group may commit before the assignment
    bit(unpointed.get("commits", 0) != commits)
    unpointed["commits"] = unpointed.get("commits", 0) + 1

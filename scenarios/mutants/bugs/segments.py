"""Bugs of segments: creation, load, append and removal."""

from collections.abc import Callable

from ....store.directories import directory_of
from ....store.log.allocate import AllocateMappedFileService
from ....store.log.segment import Segment, first_nonzero
from ....store.log.segment_queue import SegmentQueue, file_name_of
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs


# A flush before the write counts unwritten bytes as durable.
@bug("append-advances-before-write", Segment, "append", found_by=("POS", "STATUS", "DUR", "LIVE", "QUIET", "PREFIX"))
@needs(sync_flush=(True,), producers=(3,), messages_each=(16,), messages={"no_wait_chance": (0.5,)})
def advance_then_append(self: Segment, position: int, data: bytes | bytearray) -> None:
    """The write position advances before the bytes are written."""
    self.wrote.set(position + len(data))
    bit()
    self.file.store(position, data)


@bug(
    "no-dir-fsync-on-rollover",
    AllocateMappedFileService,
    "make_durable",
    found_by=("DUR", "START", "PREFIX", "CQ-VALID"),
)
@needs(disk=("strict-posix",), sync_flush=(True,), commit_log_bytes=(2048,))
def sync_all_but_name(self: AllocateMappedFileService, path: str) -> None:
    """A power cut removes the directory entry of a new segment, and so acknowledged messages."""
    self.world.files.sync(path)
    bit()


# RocketMQ waits 5 s for a segment (AllocateMappedFileService.waitTimeOut).
@bug("segment-not-awaited", AllocateMappedFileService, "take_segment", found_by=("STATUS", "TX", "SCHED"))
@needs(commit_log_bytes=(1024,), messages_each=(16,), messages={"body_bytes_max": (700,)})
def take_finished_segment(self: AllocateMappedFileService, base_offset: int) -> Segment | None:
    """A put that needs a new segment is refused if the creation of the segment has not ended."""
    request = self._requests.get(base_offset)
    if bit(request is not None and request.segment is None and request.error is None):
        return None
    return take_finished_segment.original(self, base_offset)


# With a pool, the broker soon refuses all sends as busy. RocketMQ keeps such a request in its table, too.
@bug("late-segment-created-twice", AllocateMappedFileService, "take_segment", found_by=("STATUS",))
@needs(
    SCENARIOS["shutdown-under-load"].ranges,
    sync_flush=(False,),
    memory={"transient_pool": (True,)},
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300, 700)},
    faults={"slow_sync_chance": (0.4,), "slow_sync_ms_max": (12_000,)},
)
def take_and_forget_late_segment(self: AllocateMappedFileService, base_offset: int) -> Segment | None:
    """After a put gives up on a new segment, the next put creates the segment again, and its first buffer is lost."""
    taken = take_and_forget_late_segment.original(self, base_offset)
    if taken is None:
        with self._lock:
            request = self._requests.get(base_offset)
            if bit(request is not None and request.segment is None and request.error is None):
                del self._requests[base_offset]
    return taken


# A crash between the creation and the extension of a segment leaves an empty file.
@bug("zero-length-trailing-file", SegmentQueue, "is_expendable", found_by=("START",))
@needs(commit_log_bytes=(2048,), endings=("crash in traffic",))
def is_expendable_if_whole(self: SegmentQueue, base_offset: int) -> bool:
    """An empty last segment, as after a crash, prevents the store from opening."""
    path = self.path(base_offset)
    status = self._world.files.status(path)
    if status is None or status.is_directory or bit(status.size_bytes != self.segment_bytes):
        return False
    file = self._world.files.map(path, status.size_bytes)
    expendable = first_nonzero(file.view(0, status.size_bytes)) is None
    file.close()
    return expendable


@bug("load-stops-on-odd-file", SegmentQueue, "load", found_by=("DUR", "START", "CLEAN"))
@needs(commit_log_bytes=(2048,), messages={"body_bytes_max": (300, 900)}, endings=("stop and odd file",))
def load_up_to_odd_file(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    """A load silently ignores a segment of the wrong size and all later segments."""
    files, segments = self._world.files, []
    for base in self._find_base_offsets():
        path = self.path(base)
        status = files.status(path)
        if status is None or bit(status.size_bytes != self.segment_bytes):
            break
        segment = Segment(self._world.tasks, files.map(path, self.segment_bytes), base, self._label)
        segment.set_positions(self.segment_bytes, self.segment_bytes)
        segments.append(segment)
    self.segments = tuple(segments)


_RESERVED_MS = 72 * 3_600_000


# Found in this store: if a restored backup lacks a segment, the load removes all earlier segments.
@bug("old-front-removed", SegmentQueue, "load", found_by=("DUR",))
@needs(SCENARIOS["log-segment-missing"].ranges)
def load_without_old_front(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    """A load removes the segments before a gap if they are older than the retention time."""
    load_without_old_front.original(self, before_loss=before_loss)
    files, expired_ms = self._world.files, self._world.clock.now_ms() - _RESERVED_MS
    for gap in self.gaps:
        front = [segment for segment in self.segments if segment.base_offset < int(file_name_of(gap.file))]
        statuses = [files.status(segment.file.path) for segment in front]
        if all(status is not None and status.mtime_ms <= expired_ms for status in statuses):
            self.segments = self.segments[len(front) :]
            for segment in front:
                bit()
                self.remove_file(segment.base_offset)


# If the computed index has another segment, RocketMQ falls back to a search.
@bug(
    "gap-shifts-segment-lookup",
    SegmentQueue,
    "find",
    found_by=("READ", "LIVE", "DUR", "START", "PREFIX", "STATUS", "QUIET"),
)
@needs(SCENARIOS["log-segment-missing"].ranges)
def find_by_division(self: SegmentQueue, offset: int) -> Segment | None:
    """A look-up of a record after a gap in the log reads the wrong segment."""
    segments = self.segments
    if not segments:
        return None
    index = (offset - segments[0].base_offset) // self.segment_bytes
    found = segments[index] if 0 <= index < len(segments) else None
    bit(found is not find_by_division.original(self, offset))
    return found


# When the log grows, the old files become part of the log again. In RocketMQ, a reader with a reference prevents the
# removal of a segment. The mutant removes no segment.
@bug(
    "truncate-forgets-undeleted-file",
    SegmentQueue,
    "_remove_last",
    found_by=("PREFIX", "QOFF", "START", "CQ-COMPLETE", "SCAN", "FILES"),
)
@needs(
    sync_flush=(False,),
    disk=("ext4-ordered", "strict-posix"),
    commit_log_bytes=(1024, 2048),
    messages={"body_bytes_max": (300,), "property_bytes_max": (0,), "equal_sizes": (True,), "batch_chance": (0.0,)},
    messages_each=(8,),
    lives=(2, 3),
    endings=("crash in traffic", "crash at rest"),
)
def forget_last(self: SegmentQueue) -> bool:
    """Truncated segments remain on the disk, and their records reappear."""
    segment = self.segments[-1]
    dirty = first_nonzero(segment.file.view(0, segment.size_bytes)) is not None
    bit()
    self.segments = self.segments[:-1]
    segment.file.close()
    return dirty


@forget_last.also(AllocateMappedFileService, "make_segment")
def _make_from_leftover(self: AllocateMappedFileService, base_offset: int) -> Segment:
    path = self._queue.path(base_offset)
    file = self.world.files.map(path, self._queue.segment_bytes)
    self.make_durable(path)
    return self._wrap_in_segment(file, base_offset)


# The zeros of the killed recovery are only in the page cache. The next recovery does not sync the zeros, so a power cut
# restores the old bytes.
@bug("truncation-trusts-cached-zeros", Segment, "zero_from", found_by=("POS",))
@needs(SCENARIOS["queue-offset-gap"].ranges)
def zero_visible_bytes_only(self: Segment, position: int, *, syncs_zeros: bool = False) -> bool:
    """Records that a killed recovery truncated reappear after the next recovery."""
    cleared = zero_visible_bytes_only.original(self, position)
    bit(syncs_zeros and not cleared)
    return cleared


# etcd-io/etcd issue 6368.
@bug(
    "directory-synced-once", AllocateMappedFileService, "make_durable", found_by=("DUR", "START", "PREFIX", "CQ-VALID")
)
@needs(sync_all_but_name.needs)
def sync_first_name(self: AllocateMappedFileService, path: str) -> None:
    """A process syncs each directory of the log for its first segment only."""
    directory = directory_of(path)
    synced: list[str] = vars(self).setdefault("_synced_directories", [])
    self.world.files.sync(path)
    if not bit(directory in synced):
        self.world.files.sync_directory(directory)
        synced.append(directory)


@bug("misnamed-segment-ignored", SegmentQueue, "is_ignored", found_by=("START",))
@needs(SCENARIOS["wrong-segment-size"].ranges)
def is_any_name_ignored(self: SegmentQueue, path: str) -> bool:
    """A load ignores a file in the directory of the log whose name is no offset."""
    return is_any_name_ignored.original(self, path) or bit()

"""Bugs of the allocation of segments: order, failures, warm-up, locks in memory and write buffers."""

from ....store.directories import directory_of
from ....store.log.allocate import AllocateMappedFileService, SegmentWarmUp
from ....store.log.segment import Segment, segment_name
from ....store.log.transient_pool import BufferedSegment
from ....store.world import MappedFile
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_WARM = Ranges(
    memory={"warm_files": (True,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    heals=(True,),
)
_FULL = SCENARIOS["full-disk-puts-refused"].ranges


# RocketMQ orders the requests by size and offset (AllocateRequest.compareTo).
@bug("new-segments-newest-first", AllocateMappedFileService, "run_once", found_by=("FILES",))
@needs(SCENARIOS["segment-allocation-crash"].ranges)
def make_newest_first(self: AllocateMappedFileService) -> None:
    """A spare segment is created before the segment that a put waits for."""
    with self._lock:
        waiting = self._waiting_requests()
        request = max(waiting, key=lambda one: one.base_offset, default=None)
    if request is None:
        make_newest_first.original(self)
        return
    bit(len(waiting) > 1)
    try:
        request.segment = self.make_segment(request.base_offset)
    except OSError as error:
        path = error.filename or f"{self._queue.directory}/{segment_name(request.base_offset)}"
        self.failure = path, self._queue.segment_bytes, error
        self._fail_requests_from(0, error)
    else:
        self.failure = None
        request.done.notify()


@bug("failed-segment-passed-over", AllocateMappedFileService, "_fail_requests_from", found_by=("FILES",))
@needs(_FULL, faults={"failed_creation_chance": (0.5,)}, producers=(1,), messages_each=(3,), endings=("crash at rest",))
def fail_one_request(self: AllocateMappedFileService, base_offset: int, error: OSError) -> None:
    """After a failed creation of a segment, the next one is created."""
    with self._lock:
        bit(len(self._waiting_requests()) > 1)
        request = self._requests[base_offset]
        request.error = error
    request.done.notify()


# RocketMQ's putRequestAndReturnMappedFile returns null while hasException is set.
@bug("failed-creation-refuses-next-put", AllocateMappedFileService, "take_segment", found_by=("STATUS",))
@needs(_FULL)
def take_unless_failed(self: AllocateMappedFileService, base_offset: int) -> Segment | None:
    """After a failed creation, the next put is refused although its segment can be created."""
    with self._lock:
        known = self._requests.get(base_offset)
        if bit(known is not None and known.error is not None):
            self._register_request(base_offset, self._remaining_request_budget())
            self.signal.notify()
            return None
    return take_unless_failed.original(self, base_offset)


# RocketMQ's MappedFile opens an existing file. A power cut then removes the file and its messages.
@bug("failed-segment-taken-over", AllocateMappedFileService, "make_segment", found_by=("DUR", "START", "PREFIX"))
@needs(
    sync_flush=(True,),
    disk=("strict-posix",),
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    faults={"failed_directory_sync_chance": (0.3,)},
    directories={"log_directories": (1,)},
    endings=("crash at rest",),
)
def take_over_file(self: AllocateMappedFileService, base_offset: int) -> Segment:
    """After a failed sync of a new segment, the retry uses the file without another sync."""
    files, path = self.world.files, self._queue.path(base_offset)
    unsynced: set[int] = vars(self).setdefault("_unsynced", set())
    status = files.status(path)
    if bit(base_offset in unsynced and status is not None and status.size_bytes == self._queue.segment_bytes):
        return self._wrap_in_segment(files.map(path, self._queue.segment_bytes), base_offset)
    if status is not None:
        files.unlink(path)
    if files.status(directory_of(path)) is None:
        files.make_directories(directory_of(path))
    file = files.map(path, self._queue.segment_bytes)
    try:
        if self.warm_up is not None:
            self.warm_up.warm(base_offset, file)
        self.make_durable(path)
    except OSError:
        unsynced.add(base_offset)
        self._close_file(base_offset, file)
        raise
    return self._wrap_in_segment(file, base_offset)


@bug("failed-creation-keeps-buffer", AllocateMappedFileService, "make_segment", found_by=("STATUS", "LIVE"))
@needs(_FULL, sync_flush=(False,), memory={"transient_pool": (True,)})
def borrow_before_creation(self: AllocateMappedFileService, base_offset: int) -> Segment:
    """If the creation of a segment fails, its write buffer does not return to the pool."""
    try:
        return borrow_before_creation.original(self, base_offset)
    except OSError:
        if self._pool is not None:
            bit(self._pool.borrow_buffer() is not None)
        raise


# With the transient pool, the broker soon refuses all sends as busy.
@bug("removed-spare-keeps-buffer", AllocateMappedFileService, "_release_segment", found_by=("STATUS",))
@needs(sync_flush=(False,), memory={"transient_pool": (True,)}, endings=("stop",))
def release_file_only(self: AllocateMappedFileService, segment: Segment) -> None:
    """An unused segment that is removed keeps its write buffer."""
    self._close_file(segment.base_offset, segment.file)
    bit(isinstance(segment, BufferedSegment))


@bug("warm-up-after-hand-over", AllocateMappedFileService, "make_segment", found_by=("PREFIX", "DUR", "POS", "STATUS"))
@needs(
    sync_flush=(True,),
    memory={"warm_files": (True,)},
    settings={"flush_least_pages_when_warm_mapped_file": (1,)},
    commit_log_bytes=(16_384,),
    messages={"body_bytes_max": (3000,)},
    messages_each=(16,),
)
def hand_over_first(self: AllocateMappedFileService, base_offset: int) -> Segment:
    """A segment is warmed up after a put can use it, so the warm-up overwrites messages."""
    warm_up, self.warm_up = self.warm_up, None
    try:
        segment = hand_over_first.original(self, base_offset)
    finally:
        self.warm_up = warm_up
    if warm_up is not None:
        request = self._requests[base_offset]
        request.segment = segment
        request.done.notify()
        bit()
        warm_up.warm(base_offset, segment.file)
    return segment


@bug("mlock-refusal-ends-creation", SegmentWarmUp, "warm", found_by=("STATUS", "LIVE"))
@needs(_WARM, faults={"refused_lock_chance": (0.3,)})
def warm_up_or_fail(self: SegmentWarmUp, base_offset: int, file: MappedFile) -> None:
    """If the kernel refuses to lock a new segment in memory, the creation fails."""
    refusals = self.refusals
    warm_up_or_fail.original(self, base_offset, file)
    if bit(self.refusals > refusals) and self.last_refusal is not None:
        raise self.last_refusal


# RocketMQ never unlocks a segment before it removes it. Here, the look-up uses the offset of the new segment.
@bug("full-segment-stays-locked", SegmentWarmUp, "unlock_later", found_by=("QUIET",))
@needs(_WARM)
def unlock_other_later(self: SegmentWarmUp, base_offset: int) -> None:
    """A full segment stays locked in memory for good."""
    bit(base_offset in self._locked)


@bug("unlock-one-per-request", SegmentWarmUp, "unlock_due", found_by=("QUIET",))
@needs(_WARM)
def unlock_first(self: SegmentWarmUp) -> int | None:
    """The service unlocks one full segment, and then sleeps until the next request although other segments wait."""
    first, rest = self._due[:1], self._due[1:]
    self._due = first
    left_ms = unlock_first.original(self)
    self._due = [*self._due, *rest]
    bit(left_ms is None and bool(rest))
    return left_ms


# apache/kafka PR 10405 (KAFKA-3968). SQLite ignores these errors, because some systems cannot sync directories.
@bug("failed-name-sync-ignored", AllocateMappedFileService, "make_durable", found_by=("DUR", "PREFIX"))
@needs(
    sync_flush=(True,),
    faults={"failed_directory_sync_chance": (0.3,)},
    disk=("strict-posix",),
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    lives=(2,),
    endings=("crash in traffic", "crash at rest"),
)
def sync_name_if_possible(self: AllocateMappedFileService, path: str) -> None:
    """A new segment is used although the sync of its directory failed, so a power cut removes the segment."""
    self.world.files.sync(path)
    try:
        self.world.files.sync_directory(directory_of(path))
    except OSError:
        bit()

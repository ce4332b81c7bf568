"""Segment allocation: creates commit-log segments ahead of need.

RocketMQ's AllocateMappedFileService. Each request for a segment also requests the next one. So a put at the end of a
segment rarely waits until a file is created, extended and synced. A put uses a segment only after the segment's name
and size are durable. Otherwise a power cut could remove the file and its acknowledged records.

The service creates segments in order of their offsets, and stops at the first failure. Otherwise a crash could leave a
segment without its predecessor, and an empty log would seem to begin at that segment.

The first write to a mapped page waits for memory and, under memory pressure, for the disk. With
`warm_mapped_file_enable` the allocating task therefore touches every page of a new segment and locks it in memory until
it is full (RocketMQ's warmMappedFile). The task counts refused locks (no permission or too little memory).
"""

from dataclasses import dataclass

from ..config import FlushDiskType, StoreConfig
from ..directories import directory_of, make_directory
from ..marks import count_mark, is_forced
from ..service import Service
from ..world import MappedFile, Signal, World
from .segment import PAGE_BYTES, Segment, segment_name
from .segment_queue import SegmentQueue
from .transient_pool import BufferedSegment, TransientStorePool

WAIT_MS = 5_000  # RocketMQ AllocateMappedFileService.waitTimeOut

_LABEL = "commitlog"
_SEGMENTS_PER_REQUEST = 2
"""The requested segment and the next one."""

UNLOCK_AFTER_MS = 6_000
"""A full segment stays locked in memory for this long, because most readers read the newest records."""


class SegmentWarmUp:
    """Touches, locks and later unlocks segments. Tasks other than the allocating task may call only `unlock_later`."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self.refusals = 0
        """Number of failed calls of mlock, munlock or madvise."""
        self.last_refusal: OSError | None = None
        self._clock = world.clock
        self._syncs = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._sync_bytes = config.flush_least_pages_when_warm_mapped_file * PAGE_BYTES
        self._lock = world.tasks.lock("warm-up")
        self._locked: dict[int, MappedFile] = {}
        """Locked segments that still receive appends, by base offset."""
        self._due: list[tuple[int, MappedFile]] = []
        """(monotonic time in ns, full segment to unlock at that time), earliest first."""

    def warm(self, base_offset: int, file: MappedFile) -> None:
        """Touch every page of a new segment and lock the segment in memory.

        After an OSError the caller must remove the file.
        """
        synced = 0
        for at in range(0, file.size_bytes, PAGE_BYTES):
            if self._syncs and at - synced >= self._sync_bytes:
                file.msync(synced, at)
                synced = at
            file.store(at, b"\0")
        if self._syncs:
            file.msync(synced, file.size_bytes)
        try:
            file.mlock()
        except OSError as refusal:
            self._count_refusal(refusal)
        else:
            with self._lock:
                self._locked[base_offset] = file
        try:
            file.advise_will_need()
        except OSError as refusal:
            self._count_refusal(refusal)

    def forget_segment(self, base_offset: int) -> None:
        """Stop tracking a segment. Call this before the segment is unmapped, which also unlocks the segment."""
        with self._lock:
            self._locked.pop(base_offset, None)

    def unlock_later(self, base_offset: int) -> None:
        due_ns = self._clock.monotonic_ns() + UNLOCK_AFTER_MS * 1_000_000
        with self._lock:
            file = self._locked.pop(base_offset, None)
            if file is not None:
                self._due.append((due_ns, file))

    def unlock_due(self) -> int | None:
        """Unlock all due segments. Returns the ms until the next segment is due, None if all are unlocked."""
        while self._due:
            due_ns, file = self._due[0]
            left_ns = due_ns - self._clock.monotonic_ns()
            if left_ns > 0:
                return -(-left_ns // 1_000_000)
            with self._lock:
                self._due.pop(0)
            try:
                file.munlock()
            except OSError as refusal:
                self._count_refusal(refusal)
            except ValueError:
                pass  # retention has unmapped the segment, which unlocked it
        return None

    def _count_refusal(self, refusal: OSError) -> None:
        self.refusals += 1
        self.last_refusal = refusal


@dataclass(slots=True, eq=False)
class _SegmentRequest:
    base_offset: int
    done: Signal
    segment: Segment | None = None
    error: OSError | None = None


class AllocateMappedFileService(Service):
    """Creates the segments of one queue in order of their offsets."""

    name = "allocate"

    def __init__(
        self,
        world: World,
        queue: SegmentQueue,
        *,
        pool: TransientStorePool | None = None,
        needs_buffer: bool = False,
        warm_up: SegmentWarmUp | None = None,
    ) -> None:
        """needs_buffer: request a segment only if `pool` has a free buffer."""
        super().__init__(world)
        self._queue = queue
        self._pool = pool
        self._needs_buffer = needs_buffer
        self.warm_up = warm_up
        self._lock = world.tasks.lock("allocate requests")
        self._requests: dict[int, _SegmentRequest] = {}
        self.failure: tuple[str, int, OSError] | None = None
        """(path of the error, intended size, error) of the last failed creation."""

    def take_segment(self, base_offset: int) -> Segment | None:
        """Return the segment at base_offset, and request the next one. The preceding segment must be full.

        Returns None if the creation failed, if a required buffer is not free, or after 5 s. After a timeout, a later
        call can return the segment.
        """
        if self.warm_up is not None:
            self.warm_up.unlock_later(base_offset - self._queue.segment_bytes)
        with self._lock:
            budget = self._remaining_request_budget()
            known = self._requests.get(base_offset)
            request = self._register_request(base_offset, budget)
            if request is None:
                return None
            self._register_request(base_offset + self._queue.segment_bytes, budget - (request is not known))
        self.signal.notify()
        if request.segment is None and request.error is None:
            count_mark("put waits for segment")
            request.done.wait(WAIT_MS)
        if request.segment is None and request.error is None:
            count_mark("segment wait timed out")
            return None
        with self._lock:
            del self._requests[base_offset]
        segment = request.segment
        assert segment is None or segment.base_offset == base_offset, (segment, base_offset)
        return segment

    def _remaining_request_budget(self) -> int:
        """Return how many more segments may be requested. The caller must hold the lock."""
        if self._pool is None or not self._needs_buffer:
            return _SEGMENTS_PER_REQUEST
        return self._pool.available - len(self._waiting_requests())

    def _register_request(self, base_offset: int, budget: int) -> _SegmentRequest | None:
        request = self._requests.get(base_offset)
        if request is None or request.error is not None:
            if budget <= 0:
                return None
            request = _SegmentRequest(base_offset, self.world.tasks.signal("allocated"))
            self._requests[base_offset] = request
        return request

    def _waiting_requests(self) -> list[_SegmentRequest]:
        return [r for r in self._requests.values() if r.segment is None and r.error is None]

    def run_once(self) -> None:
        with self._lock:
            request = min(self._waiting_requests(), key=lambda one: one.base_offset, default=None)
        if request is None:
            self.signal.wait(None if self.warm_up is None else self.warm_up.unlock_due())
            return
        try:
            request.segment = self.make_segment(request.base_offset)
        except OSError as error:
            count_mark("segment creation failed")
            # Not `SegmentQueue.path`, because its search of all log directories may fail too.
            path = error.filename or f"{self._queue.directory}/{segment_name(request.base_offset)}"
            self.failure = path, self._queue.segment_bytes, error
            self._fail_requests_from(request.base_offset, error)
        else:
            self.failure = None
            request.done.notify()

    def _fail_requests_from(self, base_offset: int, error: OSError) -> None:
        """Mark the requests as failed. A later `take_segment` can request these segments again."""
        with self._lock:
            failed = [request for request in self._waiting_requests() if request.base_offset >= base_offset]
            for request in failed:
                request.error = error
        for request in failed:
            request.done.notify()

    def make_segment(self, base_offset: int) -> Segment:
        """Create one zeroed, durable segment. After an OSError, remove the incomplete file."""
        files, path = self.world.files, self._queue.path(base_offset)
        directory = directory_of(path)
        if files.status(directory) is None:  # an operator removed the directory after the start
            make_directory(files, directory)
        if files.status(path) is not None:
            count_mark("leftover segment replaced")
            files.unlink(path)  # an old file's bytes must not appear in the new segment
        file = None
        try:
            file = files.map(path, self._queue.segment_bytes)
            if self.warm_up is not None:
                self.warm_up.warm(base_offset, file)
            self.make_durable(path)
        except OSError:
            if file is not None:
                self._close_file(base_offset, file)
            if files.status(path) is not None:
                files.unlink(path)
            raise
        return self._wrap_in_segment(file, base_offset)

    def _wrap_in_segment(self, file: MappedFile, base_offset: int) -> Segment:
        arguments = (self.world.tasks, file, base_offset, _LABEL)
        if self._pool is None:
            return Segment(*arguments)
        buffer = None if is_forced("no buffer") else self._pool.borrow_buffer()
        if buffer is None:
            count_mark("no buffer")
            return Segment(*arguments)
        return BufferedSegment(*arguments, pool=self._pool, buffer=buffer)

    def make_durable(self, path: str) -> None:
        self.world.files.sync(path)
        self.world.files.sync_directory(directory_of(path))

    def remove_segments_before(self, base_offset: int) -> bool:
        """Durably remove segments before base_offset, the start of a log that is still empty.

        Otherwise the next load would regard an empty file before base_offset as the end of the log. Such a file can
        also remain after a failed creation. Returns False while a segment is being created. After an OSError, call
        again.
        """
        with self._lock:
            earlier = sorted(base for base in self._requests if base < base_offset)
        for base in reversed(earlier):
            request = self._requests[base]
            if request.segment is None and request.error is None:
                request.done.wait(WAIT_MS)
            if request.segment is not None:
                self._queue.remove_file(base)
                self._release_segment(request.segment)
            elif request.error is None:
                return False
            with self._lock:
                del self._requests[base]
        for base in reversed(self._queue.expendable_files_before(base_offset)):
            self._queue.remove_file(base)
        return True

    def finish_remaining_work(self) -> None:
        """Remove unused segments, newest first. If a removal fails, the file stays and does no harm."""
        unused = [request for request in self._requests.values() if request.segment is not None]
        self._requests.clear()
        for request in unused:
            assert request.segment is not None
            self._release_segment(request.segment)
        for base_offset in sorted((request.base_offset for request in unused), reverse=True):
            try:
                self._queue.remove_file(base_offset)
            except OSError:
                return  # removing earlier segments would leave a gap

    @property
    def is_idle(self) -> bool:
        """Whether all requested segments are created or have failed."""
        return not self._waiting_requests()

    @property
    def unused_segments(self) -> list[Segment]:
        """The created segments that no put has taken yet."""
        return [request.segment for request in self._requests.values() if request.segment is not None]

    def _release_segment(self, segment: Segment) -> None:
        self._close_file(segment.base_offset, segment.file)
        if isinstance(segment, BufferedSegment):
            segment.give_buffer_back()

    def _close_file(self, base_offset: int, file: MappedFile) -> None:
        if self.warm_up is not None:
            self.warm_up.forget_segment(base_offset)
        file.close()

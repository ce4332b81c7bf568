"""Segment allocation: makes commit-log segments before they are needed. RocketMQ's AllocateMappedFileService.

A put that reaches the end of a segment must not pay for creating, extending and syncing a file, so each request also
names the segment after it. A segment is handed out only when its name and size are durable: records acknowledged in
it would otherwise vanish with the name.

Segments are made in their order, and none behind one that could not be: a crash would leave it without what belongs in
front of it, and a log that has never held anything would seem to begin there.

The first store to a page that is not in memory waits for the system to find one, and under memory pressure for the
disk. With `warm_mapped_file_enable` the allocating task therefore touches every page of a new segment and asks the
system to keep them: RocketMQ's warmMappedFile, and munlock when the segment is full. The system may refuse, for want
of permission or memory. The segment is then as good as any other, and the refusal is noted.
"""

from dataclasses import dataclass

from ..config import FlushDiskType, StoreConfig
from ..directories import directory_of, make_directory
from ..marks import forces, hit
from ..service import Service
from ..world import MappedFile, Signal, World
from .segment import PAGE_BYTES, Segment
from .segment_queue import SegmentQueue
from .transient_pool import BufferedSegment, TransientStorePool

WAIT_MS = 5_000  # RocketMQ AllocateMappedFileService.waitTimeOut
"""How long a put waits for its segment."""

_LABEL = "commitlog"
_AT_ONCE = 2
"""How many segments one call may order: the one that is needed, and the one after it."""

UNLOCK_AFTER_MS = 6_000
"""How long a segment stays locked after its last put: readers are close behind."""


class WarmUp:
    """Touches, locks and, later, unlocks segments. Belongs to the task that allocates, but for `unlock_later`."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self.refusals = 0
        """How often the system would not lock, unlock or advise."""
        self.last_refusal: OSError | None = None
        self._clock = world.clock
        self._syncs = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._sync_bytes = config.flush_least_pages_when_warm_mapped_file * PAGE_BYTES
        self._lock = world.tasks.lock("warm-up")
        self._locked: dict[int, MappedFile] = {}
        """Segments in memory that are still appended to, by base offset."""
        self._due: list[tuple[int, MappedFile]] = []
        """Closed ones, with the ns of the monotonic clock when they are to be unlocked; in that order."""

    def warm(self, base_offset: int, file: MappedFile) -> None:
        """Touch every page of a new segment and lock them. OSError if a sync fails, for which the segment must go."""
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
            self._note(refusal)
        else:
            with self._lock:
                self._locked[base_offset] = file
        try:
            file.advise_will_need()
        except OSError as refusal:
            self._note(refusal)

    def forget(self, base_offset: int) -> None:
        """Take a segment out that is about to be closed and removed; its locks go with its map."""
        with self._lock:
            self._locked.pop(base_offset, None)

    def unlock_later(self, base_offset: int) -> None:
        """Have a segment unlocked in a while that is appended to no more."""
        due_ns = self._clock.monotonic_ns() + UNLOCK_AFTER_MS * 1_000_000
        with self._lock:
            file = self._locked.pop(base_offset, None)
            if file is not None:
                self._due.append((due_ns, file))

    def unlock_due(self) -> int | None:
        """Unlock what is due; return in how many ms there is more, None if there is nothing to wait for."""
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
                self._note(refusal)
            except ValueError:
                pass  # removed and closed meanwhile: its locks went with its map
        return None

    def _note(self, refusal: OSError) -> None:
        self.refusals += 1
        self.last_refusal = refusal


@dataclass(slots=True, eq=False)
class _Request:
    base_offset: int
    done: Signal
    segment: Segment | None = None
    error: OSError | None = None


class AllocateMappedFileService(Service):
    """One task that makes segments of one queue, the lowest offset first."""

    name = "allocate"

    def __init__(
        self,
        world: World,
        queue: SegmentQueue,
        *,
        pool: TransientStorePool | None = None,
        needs_buffer: bool = False,
        warm_up: WarmUp | None = None,
    ) -> None:
        """pool lends its buffers to new segments; with needs_buffer there is no segment without one."""
        super().__init__(world)
        self._queue = queue
        self._pool = pool
        self._needs_buffer = needs_buffer
        self.warm_up = warm_up
        self._lock = world.tasks.lock("allocate requests")
        self._requests: dict[int, _Request] = {}
        self.failure: tuple[str, int, OSError] | None = None
        """Which file could not be made, how long it was to be, and why; None if the last one was."""

    def take(self, base_offset: int) -> Segment | None:
        """Return the segment that begins at base_offset, and order the one after it.

        None when it could not be made, or not within 5 s; the request then stands, and a later call finds its result.
        None at once, too, if it needs a buffer and none is to be had. The segment in front of it is full.
        """
        if self.warm_up is not None:
            self.warm_up.unlock_later(base_offset - self._queue.segment_bytes)
        with self._lock:
            budget = self._budget()
            known = self._requests.get(base_offset)
            request = self._register(base_offset, budget)
            if request is None:
                return None
            self._register(base_offset + self._queue.segment_bytes, budget - (request is not known))
        self.signal.notify()
        if request.segment is None and request.error is None:
            hit("put waits for segment")
            request.done.wait(WAIT_MS)
        if request.segment is None and request.error is None:
            hit("no segment in time")
            return None
        with self._lock:
            del self._requests[base_offset]
        segment = request.segment
        assert segment is None or segment.base_offset == base_offset, (segment, base_offset)
        return segment

    def _budget(self) -> int:
        """Return how many segments may be ordered now. The caller holds the lock."""
        if self._pool is None or not self._needs_buffer:
            return _AT_ONCE
        return self._pool.available - len(self._waiting())

    def _register(self, base_offset: int, budget: int) -> _Request | None:
        """Return the request for a segment, None if it is a new one and there is no budget for it."""
        request = self._requests.get(base_offset)
        if request is None or request.error is not None:
            if budget <= 0:
                return None
            request = _Request(base_offset, self.world.tasks.signal("allocated"))
            self._requests[base_offset] = request
        return request

    def _waiting(self) -> list[_Request]:
        return [r for r in self._requests.values() if r.segment is None and r.error is None]

    def step(self) -> None:
        """Make the lowest segment asked for; wait if there is none."""
        with self._lock:
            # The lowest first: after a crash, a segment without its predecessor would be a gap in the log.
            request = min(self._waiting(), key=lambda one: one.base_offset, default=None)
        if request is None:
            self.signal.wait(None if self.warm_up is None else self.warm_up.unlock_due())
            return
        try:
            request.segment = self.make(request.base_offset)
        except OSError as error:
            hit("segment not made")
            self.failure = self._queue.path(request.base_offset), self._queue.segment_bytes, error
            self._fail_from(request.base_offset, error)
        else:
            self.failure = None
            request.done.notify()

    def _fail_from(self, base_offset: int, error: OSError) -> None:
        """Fail the request for a segment, and those for all behind it: whoever needs one of them asks anew."""
        with self._lock:
            failed = [request for request in self._waiting() if request.base_offset >= base_offset]
            for request in failed:
                request.error = error
        for request in failed:
            request.done.notify()

    def make(self, base_offset: int) -> Segment:
        """Make one segment, zeroed and durable, or nothing: a half made file goes away before its error is raised."""
        files, path = self.world.files, self._queue.path(base_offset)
        directory = directory_of(path)
        if files.status(directory) is None:  # it went after the start, which made its name durable
            make_directory(files, directory)
        if files.status(path) is not None:
            hit("leftover replaced")
            files.unlink(path)  # a leftover's bytes must not become the new segment's
        file = None
        try:
            file = files.map(path, self._queue.segment_bytes)
            if self.warm_up is not None:
                self.warm_up.warm(base_offset, file)
            self.make_durable(path)
        except OSError:
            if file is not None:
                self._close(base_offset, file)
            if files.status(path) is not None:
                files.unlink(path)
            raise
        return self._segment(file, base_offset)

    def _segment(self, file: MappedFile, base_offset: int) -> Segment:
        """Return the segment of a new file, with a buffer if there is a pool and it has one left."""
        place = (self.world.tasks, file, base_offset, _LABEL)
        if self._pool is None:
            return Segment(*place)
        buffer = None if forces("no buffer") else self._pool.borrow()
        if buffer is None:
            hit("no buffer")
            return Segment(*place)
        return BufferedSegment(*place, pool=self._pool, buffer=buffer)

    def make_durable(self, path: str) -> None:
        """Make the new file's size and name survive a power cut."""
        self.world.files.sync(path)
        self.world.files.sync_directory(directory_of(path))

    def begin_at(self, base_offset: int) -> bool:
        """Remove, durably, what was ordered in front of base_offset, where a row without segments is about to begin.

        It was for a beginning that came to nothing; an empty file in front of the row would be the log's end at the
        next load. False if one is still being made. Raises OSError if a file does not go; another call tries again.
        """
        with self._lock:
            early = sorted(base for base in self._requests if base < base_offset)
        for base in reversed(early):
            request = self._requests[base]
            if request.segment is None and request.error is None:
                request.done.wait(WAIT_MS)
            if request.segment is not None:
                self._queue.remove_file(base)
                self._close(base, request.segment.file)
            elif request.error is None:
                return False
            with self._lock:
                del self._requests[base]
        return True

    def finish(self) -> None:
        """Remove segments that were made and never used, the last one first; one that will not go is harmless."""
        made = [request for request in self._requests.values() if request.segment is not None]
        self._requests.clear()
        for request in sorted(made, key=lambda request: -request.base_offset):
            assert request.segment is not None
            self._close(request.base_offset, request.segment.file)
            try:
                self._queue.remove_file(request.base_offset)
            except OSError:
                return  # removing those in front of it would leave a gap

    def _close(self, base_offset: int, file: MappedFile) -> None:
        if self.warm_up is not None:
            self.warm_up.forget(base_offset)
        file.close()

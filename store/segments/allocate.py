"""Makes commit-log segments before they are needed: RocketMQ's AllocateMappedFileService.

A put that reaches the end of a segment must not pay for creating, extending and syncing a file, so each request also
names the segment after it. A segment is handed out only when its name and size are durable: records acknowledged in
it would otherwise vanish with the name.
"""

from ..service import Service
from ..world import Signal, World
from .segment import Segment
from .segment_queue import SegmentQueue

WAIT_MS = 5_000
"""How long a put waits for its segment."""


class _Request:
    __slots__ = ("base_offset", "done", "error", "segment")

    def __init__(self, base_offset: int, done: Signal) -> None:
        self.base_offset = base_offset
        self.done = done
        self.segment: Segment | None = None
        self.error: OSError | None = None


class AllocateMappedFileService(Service):
    """One task that makes segments of one queue, the lowest offset first."""

    name = "allocate"

    def __init__(self, world: World, queue: SegmentQueue) -> None:
        super().__init__(world)
        self._queue = queue
        self._lock = world.tasks.lock("allocate requests")
        self._requests: dict[int, _Request] = {}

    def take(self, base_offset: int) -> Segment | None:
        """Return the segment that begins at base_offset, and order the one after it.

        None when it could not be made, or not within 5 s; the request then stands, and a later call finds its result.
        """
        with self._lock:
            request = self._register(base_offset)
            self._register(base_offset + self._queue.segment_bytes)
        self.signal.notify()
        if request.segment is None and request.error is None:
            request.done.wait(WAIT_MS)
        if request.segment is None and request.error is None:
            return None
        with self._lock:
            del self._requests[base_offset]
        return request.segment

    def _register(self, base_offset: int) -> _Request:
        request = self._requests.get(base_offset)
        if request is None or request.error is not None:
            request = _Request(base_offset, self.world.tasks.signal("allocated"))
            self._requests[base_offset] = request
        return request

    def step(self) -> None:
        """Make the lowest segment asked for; wait if there is none."""
        request = self._next_request()
        if request is None:
            self.signal.wait(None)
            return
        try:
            request.segment = self.make(request.base_offset)
        except OSError as error:
            request.error = error
        request.done.notify()

    def _next_request(self) -> _Request | None:
        with self._lock:
            waiting = [r for r in self._requests.values() if r.segment is None and r.error is None]
        return min(waiting, key=lambda request: request.base_offset, default=None)

    def make(self, base_offset: int) -> Segment:
        """Make one segment, zeroed and durable, or nothing: a half made file goes away before its error is raised."""
        files, path = self.world.files, self._queue.path(base_offset)
        files.make_directories(self._queue.directory)
        if files.status(path) is not None:
            files.unlink(path)  # a leftover's bytes must not become the new segment's
        file = None
        try:
            file = files.map(path, self._queue.segment_bytes)
            self.make_durable(path)
        except OSError:
            if file is not None:
                file.close()
            if files.status(path) is not None:
                files.unlink(path)
            raise
        return Segment(self.world.tasks, file, base_offset, "commitlog")

    def make_durable(self, path: str) -> None:
        """Make the new file's size and name survive a power cut."""
        self.world.files.sync(path)
        self.world.files.sync_directory(self._queue.directory)

    def finish(self) -> None:
        """Remove segments that were made and never used, the last one first; one that will not go is harmless."""
        made = [request for request in self._requests.values() if request.segment is not None]
        self._requests.clear()
        for request in sorted(made, key=lambda request: -request.base_offset):
            assert request.segment is not None
            request.segment.file.close()
            try:
                self._queue.remove_file(request.base_offset)
            except OSError:
                return  # removing those in front of it would leave a gap

"""Memory that puts go to before the page cache has them: RocketMQ's TransientStorePool.

One buffer of a segment's size per segment being written. They are made once, so that memory is taken and pinned when
the store starts and not in the midst of traffic, and come back when all of a segment is in its file.
"""

from ..world import World


class TransientStorePool:
    """Buffers of one size, lent to segments. They come back uncleared: a commit moves only what was put."""

    def __init__(self, world: World, buffer_bytes: int, count: int) -> None:
        self._world = world
        self._buffer_bytes = buffer_bytes
        self._count = count
        self._lock = world.tasks.lock("transient pool")
        self._buffers: list[memoryview] = []
        """The front is the end: the buffer that came back last is warm, and goes first."""

    def fill(self) -> None:
        """Make the buffers. MemoryError or OSError(ENOMEM) if the system has not that much."""
        buffers = [self._world.files.buffer(self._buffer_bytes) for _ in range(self._count)]
        with self._lock:
            self._buffers = buffers

    @property
    def available(self) -> int:
        """Return how many buffers could be borrowed now."""
        return len(self._buffers)

    def borrow(self) -> memoryview | None:
        """Take a buffer, None if all are out."""
        with self._lock:
            return self._buffers.pop() if self._buffers else None

    def give_back(self, buffer: memoryview) -> None:
        """Return a buffer that nobody writes to any more."""
        with self._lock:
            self._buffers.append(buffer)

    def drain(self) -> None:
        """Let the memory go: what is out goes with its segment."""
        with self._lock:
            self._buffers = []

"""Has a segment's pages in memory before puts need them: RocketMQ's warmMappedFile, and munlock when it is full.

The first store to a page that is not there waits for the system to find one, and under memory pressure for the disk.
So the task that allocates touches every page of a new segment and asks the system to keep them. It may refuse, for want
of permission or memory: the segment is then as good as any other, and the refusal is noted.
"""

from ..config import FlushDiskType, StoreConfig
from ..world import MappedFile, World
from .segment import PAGE_BYTES

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

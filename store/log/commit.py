"""Moves the log from the buffers of the transient pool to its files: RocketMQ's CommitRealTimeService.

Until then a message is in the memory of this process only: nobody sees it, and a kill takes it back. What a failed
write left in the buffer is tried again: unlike a sync, a write that succeeds has done what the one before it did not.
For want of room, which holes of a sparse file meet as late as this, puts are refused until there is some again; any
other failure ends them until a restart, as a failed sync does.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..marks import hit
from ..retention.disk_usage import is_disk_full
from ..running_flags import Refusal, RunningFlags
from ..service import Service
from ..world import World
from .buffered_queue import BufferedSegmentQueue


class CommitRealTimeService(Service):
    """Commit what has gathered whenever puts wake it, everything every so often."""

    name = "commit-real-time"

    def __init__(
        self, world: World, config: StoreConfig, queue: BufferedSegmentQueue, flags: RunningFlags
    ) -> None:
        super().__init__(world)
        self.on_committed: Callable[[], None] = _nobody
        """Called after there was more to see in the log."""
        self.last_error: OSError | None = None
        self._config = config
        self._queue = queue
        self._flags = flags
        self._committed_where = 0
        """What was announced last."""
        self._thorough_ns = 0
        """When there was something to commit, or everything was, the last time."""

    def start(self) -> None:
        """Begin to commit what is put from now on; everything for the first time in one interval."""
        self._committed_where = self._queue.committed_where
        self._thorough_ns = self.world.clock.monotonic_ns()
        super().start()

    def step(self) -> None:
        """Wait for a put, or one interval; commit whole pages, or everything if that was long ago."""
        self.signal.wait(self._config.commit_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = self._config.commit_commit_log_least_pages
        if now_ns - self._thorough_ns >= self._config.commit_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        if self.commit(least_pages):
            self._thorough_ns = self.world.clock.monotonic_ns()

    def commit(self, least_pages: int) -> bool:
        """Commit what is able to be; return whether there is more to see than before, and say so if there is."""
        try:
            self._queue.commit(least_pages)
        except OSError as error:
            hit("commit failed")
            self.last_error = error
            if is_disk_full(error):
                self._flags.refuse(Refusal.DISK_FULL)  # retention takes it back once it has seen room
            else:
                self._flags.refuse_for_good(Refusal.NOT_WRITEABLE)
        where = self._queue.committed_where
        if where == self._committed_where:
            return False
        self._committed_where = where
        self.on_committed()
        return True

    def finish(self) -> None:
        """Commit everything. Puts have ended by now: nothing can come behind it."""
        self.commit(0)


def _nobody() -> None:
    """Do nothing."""

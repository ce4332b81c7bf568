"""Queue flush service: syncs the queues, then the checkpoint.

RocketMQ's FlushConsumeQueueService.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..index.index_service import IndexFiles
from ..log.checkpoint import StoreCheckpoint
from ..service import Service, do_nothing
from ..world import World
from .consume_queue_table import ConsumeQueueTable
from .dispatch import DispatchService


class FlushConsumeQueueService(Service):
    """Flushes whole pages at short intervals, and all bytes and the checkpoint at longer intervals."""

    name = "flush-consume-queue"

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        queues: ConsumeQueueTable,
        dispatch: DispatchService,
        checkpoint: StoreCheckpoint,
    ) -> None:
        super().__init__(world)
        self.last_error: OSError | None = None
        self.on_interval: Callable[[], None] = do_nothing
        self.index: IndexFiles | None = None
        """The index, None without one. Full index files are synced."""
        self._config = config
        self._queues = queues
        self._dispatch = dispatch
        self._checkpoint = checkpoint
        self.durable_to = world.tasks.cell("queues durable to")
        """The entries of all records before this log offset are durable."""
        self._thorough_ns = world.clock.monotonic_ns()

    def run_once(self) -> None:
        self.signal.wait(self._config.flush_interval_consume_queue_ms)
        self.on_interval()
        now_ns = self.world.clock.monotonic_ns()
        thorough_ns = self._config.flush_consume_queue_thorough_interval_ms * 1_000_000
        try:
            if now_ns - self._thorough_ns >= thorough_ns:
                self._thorough_ns = now_ns
                self.flush_thoroughly()
            else:
                for queue in self._queues.all_queues():
                    queue.flush(self._config.flush_consume_queue_least_pages)
                if self._flush_full_index_files():
                    self._checkpoint.flush()
        except OSError as error:
            self.last_error = error  # the checkpoint does not advance, so the next recovery rebuilds later entries

    def request_full_flush(self) -> None:
        self._thorough_ns -= self._config.flush_consume_queue_thorough_interval_ms * 1_000_000
        self.wake()

    def flush_thoroughly(self) -> None:
        # Read before the flush, because the flush may miss entries that are added during it.
        dispatched_to = self._dispatch.reput_from.get()
        assert dispatched_to >= 0, dispatched_to
        dispatched_ms = self._dispatch.dispatched_store_timestamp_ms
        self._queues.make_durable()
        self.last_error = self.last_error or self._queues.sync_error  # a sync in another task may have failed
        if self.last_error is None:  # after a failed sync, a later success does not prove durability
            self._checkpoint.advance_queue_time(dispatched_ms)
            self.durable_to.set(dispatched_to)
        self._flush_full_index_files()
        self._checkpoint.flush()

    def _flush_full_index_files(self) -> bool:
        """Sync full index files. Returns whether the checkpoint's index time advanced."""
        if self.index is None or self.last_error is not None:
            return False
        self.index.make_full_durable()
        return self._checkpoint.advance_index_time(self.index.durable_timestamp_ms)

    def finish_remaining_work(self) -> None:
        try:
            self.flush_thoroughly()
            if self.index is not None:
                self.index.make_durable()
        except OSError as error:
            self.last_error = error

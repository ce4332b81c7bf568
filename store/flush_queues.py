"""Moves consume queues to the disk, and the checkpoint after them: RocketMQ's FlushConsumeQueueService."""

from .checkpoint import StoreCheckpoint
from .config import StoreConfig
from .consume_queue import ConsumeQueueTable
from .dispatch import DispatchService
from .service import Service
from .world import World


class FlushConsumeQueueService(Service):
    """Flush full pages every so often, everything with the checkpoint less often."""

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
        self._config = config
        self._queues = queues
        self._dispatch = dispatch
        self._checkpoint = checkpoint
        self._thorough_ns = world.clock.monotonic_ns()

    def step(self) -> None:
        """Wait one interval, then flush."""
        self.signal.wait(self._config.flush_interval_consume_queue_ms)
        now_ns = self.world.clock.monotonic_ns()
        thorough_ns = self._config.flush_consume_queue_thorough_interval_ms * 1_000_000
        try:
            if now_ns - self._thorough_ns >= thorough_ns:
                self._thorough_ns = now_ns
                self.flush_thoroughly()
            else:
                for queue in self._queues.all():
                    queue.flush(self._config.flush_consume_queue_least_pages)
        except OSError as error:
            self.last_error = error  # the checkpoint stays where it is: recovery will rebuild from there

    def flush_thoroughly(self) -> None:
        """Make every queue durable, then say so in the checkpoint, in this order."""
        dispatched_ms = self._dispatch.dispatched_store_timestamp_ms
        self._queues.make_durable()
        if self.last_error is None:
            self._checkpoint.queues_are_durable_to(dispatched_ms)
        self._checkpoint.flush()

    def finish(self) -> None:
        """Flush everything a last time."""
        try:
            self.flush_thoroughly()
        except OSError as error:
            self.last_error = error

"""The one task that keeps the store from outgrowing its disk: RocketMQ's timers around its cleaning services."""

from ..config import StoreConfig
from ..log.commit_log import CommitLog
from ..queues.consume_queue_table import ConsumeQueueTable
from ..queues.flush_queues import FlushConsumeQueueService
from ..running_flags import RunningFlags
from ..service import Service
from ..world import World
from .clean_commit_log import CleanCommitLog
from .clean_consume_queue import CleanConsumeQueue
from .watermark import DiskWatermark

FIRST_CHECK_MS = 1_000
CHECK_INTERVAL_MS = 10_000
FIRST_CLEAN_MS = 60_000


class RetentionService(Service):
    """Looks at the disk every so often, and cleans the log and what leads into it at intervals of its own."""

    name = "retention"

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        commit_log: CommitLog,
        queues: ConsumeQueueTable,
        flags: RunningFlags,
        flush_queues: FlushConsumeQueueService,
    ) -> None:
        super().__init__(world)
        self.last_error: OSError | None = None
        """What last kept a file from being removed."""
        self.watermark = DiskWatermark(world.files, config, flags)
        log = commit_log.queue
        self.log = CleanCommitLog(world, config, log, self.watermark, flush_queues, self._pause_or_end)
        self.queues = CleanConsumeQueue(config, log, commit_log, queues, self._pause_or_end)
        self._interval_ns = config.clean_resource_interval_ms * 1_000_000
        self._pass_lock = world.tasks.lock("retention pass")
        self._check_ns = self._clean_ns = 0
        """When to look at the disk next, and when to clean."""

    def start(self) -> None:
        """Begin: the first look at the disk is a second away, the first cleaning a minute."""
        now_ns = self.world.clock.monotonic_ns()
        self._check_ns = now_ns + FIRST_CHECK_MS * 1_000_000
        self._clean_ns = now_ns + FIRST_CLEAN_MS * 1_000_000
        super().start()

    def delete_manually(self) -> None:
        """Delete what has expired whatever the hour, now and in some passes to come: RocketMQ's admin command."""
        self.log.delete_manually()
        self._clean_ns = 0
        self.wake()

    def step(self) -> None:
        """Wait for what is due first, and do it."""
        clock = self.world.clock
        left_ns = min(self._check_ns, self._clean_ns) - clock.monotonic_ns()
        if left_ns > 0:
            self.signal.wait(-(-left_ns // 1_000_000))
        if self.is_stopping:
            return
        now_ns = clock.monotonic_ns()
        if now_ns >= self._clean_ns:
            self._clean_ns = now_ns + self._interval_ns
            self.clean()
        if now_ns >= self._check_ns:
            self._check_ns = now_ns + CHECK_INTERVAL_MS * 1_000_000
            self.watermark.measure()

    def clean(self) -> None:
        """Do one pass. What goes wrong in it is noted, and tried again in a later one."""
        with self._pass_lock:
            for run in (self.log.run, self.queues.run):
                try:
                    run()
                except OSError as error:
                    self.last_error = error

    def remove_expired_queues(self) -> None:
        """Remove the queues all of whose messages have left the log. Raises OSError if a file does not go."""
        with self._pass_lock:
            self.queues.remove_expired_queues()

    def _pause_or_end(self, ms: int) -> bool:
        """Let ms pass; return False if the service is to end."""
        self.pause(ms)
        return not self.is_stopping

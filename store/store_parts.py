"""Parts of a store: the one place where its services are made and joined.

    puts -> log -> flush (and commit, if there is a pool) -> dispatch -> queues, index, light queues -> whoever waits

Nothing runs here; `MessageStore` starts and stops it all.
"""

from collections.abc import Callable

from .config import BrokerRole, FlushDiskType, StoreConfig
from .delivery.schedule import ScheduleMessageService
from .formats.delay_level import parse_delay_levels
from .index.index_service import IndexService
from .log.allocate import AllocateMappedFileService, WarmUp
from .log.checkpoint import StoreCheckpoint
from .log.commit_log import CommitLog
from .log.directories import SegmentDirectories
from .log.flush import FlushCommitLogService, FlushRealTimeService, GroupCommitService
from .log.segment_queue import SegmentQueue
from .log.transient_pool import BufferedSegmentQueue, CommitRealTimeService, TransientStorePool
from .message import Message, PutMessageResult
from .queues.consume_queue_table import ConsumeQueueTable
from .queues.dispatch import ArrivalNotifier, DispatchService, ExtendedQueueDispatcher, LightQueueDispatcher
from .queues.flush_queues import FlushConsumeQueueService
from .replication.group_transfer import GroupTransfer
from .retention.cleaning import RetentionService
from .running_flags import RunningFlags
from .service import Service
from .stats import StoreStats
from .world import World


class StoreParts:
    """The parts of one store. put: how a delayed message's copy gets into the log."""

    def __init__(self, world: World, config: StoreConfig, put: Callable[[Message], PutMessageResult]) -> None:
        self.world = world
        self.config = config
        self.flags = RunningFlags(world.tasks)
        self.delays_ms = parse_delay_levels(config.message_delay_level)
        self.checkpoint = StoreCheckpoint(world, config.checkpoint_path)
        self.log_directories = SegmentDirectories.of_commit_log(world.files, config)
        self.pool: TransientStorePool | None = None
        self.commit: CommitRealTimeService | None = None
        self.log = self._make_log()
        self.queues = ConsumeQueueTable(
            world,
            config.consume_queue_directory,
            config.mapped_file_size_consume_queue,
            config.consume_queue_ext_directory if config.enable_consume_queue_ext else None,
            config.mapped_file_size_consume_queue_ext,
        )
        self.allocate = AllocateMappedFileService(
            world,
            self.log,
            pool=self.pool,
            needs_buffer=config.fast_fail_if_no_buffer_in_store_pool,
            warm_up=WarmUp(world, config) if config.warm_mapped_file_enable else None,
        )
        self.flush = self._make_flush()
        self.commit_log = CommitLog(world, config, self.log, self.allocate, self.flush)
        if config.broker_role is BrokerRole.SYNC_MASTER:
            self.commit_log.group_transfer = GroupTransfer(world, config)
        self.dispatch = DispatchService(
            world, config, self.commit_log, self.queues, self.flags, self.delays_ms
        )
        self.extended: ExtendedQueueDispatcher | None = None
        """What dispatches into queues with an extension, if they have one."""
        if config.enable_consume_queue_ext:
            self.extended = ExtendedQueueDispatcher(self.queues, self.delays_ms)
            self.dispatch.dispatchers[0] = self.extended.dispatch
        if config.enable_multi_dispatch:
            light = LightQueueDispatcher(self.queues, self.delays_ms, lmq=config.enable_lmq)
            self.dispatch.dispatchers.append(light.dispatch)
        self.flush_queues = FlushConsumeQueueService(
            world, config, self.queues, self.dispatch, self.checkpoint
        )
        self.index: IndexService | None = None
        """Leads from keys to messages, if settings ask for it."""
        if config.message_index_enable:
            self.index = IndexService(world, config, self.flags)
            self.dispatch.dispatchers.append(self.index.dispatch)
            self.flush_queues.index = self.index.table
        self.stats = StoreStats(world, self.commit_log)
        self.flush_queues.on_interval = self.stats.sample
        if config.broker_role is BrokerRole.SLAVE:
            self.dispatch.dispatchers.append(self.stats.record_dispatched)
        self.on_arriving = ArrivalNotifier(config, self.dispatch.on_arriving, self.delays_ms)
        """Whoever wants to be told of each message that can be pulled: `append` a listener."""
        self.schedule = ScheduleMessageService(
            world,
            config,
            self.commit_log,
            self.queues,
            self.dispatch.readable_limit,
            self.delays_ms,
            put,
        )
        self.dispatch.on_scheduled = self.schedule.wake
        self.retention = RetentionService(
            world, config, self.commit_log, self.queues, self.flags, self.flush_queues
        )
        if self.index is not None:
            self.retention.queues.expirers.append(self.index.delete_expired)
        for service in self.services:
            service.on_failure = self.flags.service_failed
        self._on_readable: Callable[[], None] = self.dispatch.wake
        if self.commit is not None:
            self.commit_log.on_appended = self.commit.wake
            self.commit.on_committed = self._on_committed
        else:
            self._wake_on_more()

    @property
    def services(self) -> list[Service]:
        """Return every service that has a task of its own while the store runs; on a slave nothing is delivered."""
        services = [self.allocate, self.flush, self.dispatch, self.flush_queues, self.retention]
        if self.commit is not None:
            services.append(self.commit)
        if self.config.broker_role is not BrokerRole.SLAVE:
            services.append(self.schedule)
        return services

    def follow(self, wake: Callable[[], None]) -> None:
        """Have wake called, too, whenever more of the log may be read."""
        earlier = self._on_readable

        def wake_both() -> None:
            earlier()
            wake()

        self._on_readable = wake_both
        if self.commit is None:
            self._wake_on_more()

    def _wake_on_more(self) -> None:
        """Have those told who wait for more of the log by whatever makes more of it readable."""
        if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            self.flush.on_flushed = self._on_readable
        else:
            self.commit_log.on_appended = self._on_readable

    def _make_log(self) -> SegmentQueue:
        """Return the log's row of segments, with the pool and the task behind it if puts go to memory first."""
        world, config, segment_bytes = self.world, self.config, self.config.mapped_file_size_commit_log
        place = (world, config.commit_log_directory, segment_bytes, "commitlog", self.log_directories)
        if not config.is_transient_store_pool_effective:
            return SegmentQueue(*place)
        self.pool = TransientStorePool(world, segment_bytes, config.transient_store_pool_size)
        log = BufferedSegmentQueue(*place)
        self.commit = CommitRealTimeService(world, config, log, self.flags)
        return log

    def _on_committed(self) -> None:
        """Have what reached the files dispatched, and flushed if the flusher does not keep to its interval."""
        self._on_readable()
        if not self.config.flush_commit_log_timed:
            self.flush.wake()

    def _make_flush(self) -> FlushCommitLogService:
        services = self.world, self.config, self.log, self.checkpoint, self.flags
        if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            return GroupCommitService(*services)
        flush = FlushRealTimeService(*services)
        flush.woken_by_puts = not self.config.flush_commit_log_timed and self.commit is None
        return flush

    def close_files(self) -> None:
        """Give every map back, without a word to the disk."""
        self.checkpoint.close()
        if self.pool is not None:
            self.pool.drain()
        self.log.close()
        self.queues.close()
        if self.index is not None:
            self.index.close()

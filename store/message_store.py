"""Message store: RocketMQ's DefaultMessageStore.

    store = MessageStore(real_world(), StoreConfig("/var/lib/mq"))
    store.load()
    store.start()
    store.put_message(Message.create("Orders", b"hello", tags="new"))
    store.get_message("Orders", 0, 0).records
    store.shutdown()

MessageStore creates the services and connects them:

    puts -> log -> flush (and commit, with a pool) -> dispatch -> queues, index, light queues -> listeners
"""

from collections.abc import Callable
from functools import partial

from .config import BrokerRole, FlushDiskType, StoreConfig
from .delivery.schedule import ScheduleMessageService
from .directories import make_directory
from .errors import StoreError, StoreLockedError, StoreNotReadableError
from .filters.message_filter import MessageFilter, TagFilter
from .formats.delay_level import parse_delay_levels
from .formats.java_hash import java_length
from .formats.message import MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES, MessageRecord
from .formats.messages import GetMessageResult, Message, MessageBatch, PutMessageResult, PutMessageStatus
from .index.index_service import IndexService
from .index.key_query import KeyQuerier, QueryMessageResult
from .log.allocate import AllocateMappedFileService, SegmentWarmUp
from .log.checkpoint import StoreCheckpoint
from .log.commit_log import CommitLog
from .log.flush import FlushCommitLogService, FlushRealTimeService, GroupCommitService
from .log.group_transfer import GroupTransfer
from .log.put_wait import PutWait, wait_for_answer
from .log.segment_queue import SegmentDirectories, SegmentQueue
from .log.transient_pool import BufferedSegmentQueue, CommitRealTimeService, TransientStorePool
from .marks import count_mark
from .queues.consume_queue_table import ConsumeQueueTable
from .queues.dispatch import ArrivalNotifier, Dispatcher, DispatchService, ExtendedQueueDispatcher, LightQueueDispatcher
from .queues.flush_queues import FlushConsumeQueueService
from .queues.pull import QueuePuller, offset_by_time
from .recovery.index_recovery import IndexRecovery
from .recovery.recovery import Recovery, RecoveryReport
from .recovery.segment_times import SegmentTimes
from .retention.cleaning import RetentionService
from .running_flags import RefusalReason, RunningFlags
from .runtime_info import disk_info, schedule_info, stats_info, trouble_info
from .service import Service
from .stats import FAST_PUT_NS, StoreStats
from .world import FileLock, World

_STALL_MS_MAX = 10_000_000
"""If the put lock seems to be held for longer, RocketMQ regards the start time as stale."""


class MessageStore:
    """A store in one directory, with the operations of producers, consumers and operators."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self.world = world
        self.config = config
        self.flags = flags = RunningFlags(world.tasks)
        self.delays_ms = delays_ms = parse_delay_levels(config.message_delay_level)
        self.checkpoint = StoreCheckpoint(world, config.checkpoint_path)
        self._is_sync_flush = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self.log_directories = SegmentDirectories.of_commit_log(world.files, config)
        self.pool: TransientStorePool | None = None
        self.commit: CommitRealTimeService | None = None
        self.log = self._make_log()
        self.queues = queues = ConsumeQueueTable(
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
            warm_up=SegmentWarmUp(world, config) if config.warm_mapped_file_enable else None,
        )
        kind = GroupCommitService if self._is_sync_flush else FlushRealTimeService
        self.flush: FlushCommitLogService = kind(world, config, self.log, self.checkpoint, self.flags)
        self.commit_log = CommitLog(world, config, self.log, self.allocate, self.flush)
        if config.broker_role is BrokerRole.SYNC_MASTER:
            self.commit_log.group_transfer = GroupTransfer(world, config)
        self.dispatch = DispatchService(world, config, self.commit_log, queues, flags, delays_ms)
        self.extended: ExtendedQueueDispatcher | None = None
        """Dispatcher for queues with extension files; None without them."""
        if config.enable_consume_queue_ext:
            self.extended = ExtendedQueueDispatcher(queues, delays_ms)
            self.dispatch.dispatchers[0] = self.extended.dispatch
        if config.enable_multi_dispatch:
            light = LightQueueDispatcher(queues, delays_ms, lmq=config.enable_lmq)
            self.dispatch.dispatchers.append(light.dispatch)
        self.flush_queues = FlushConsumeQueueService(world, config, queues, self.dispatch, self.checkpoint)
        self.index: IndexService | None = None
        if config.message_index_enable:
            self.index = IndexService(world, config, flags)
            self.dispatch.dispatchers.append(self.index.dispatch)
            self.dispatch.plain_dispatchers[self.index.dispatch] = self.index.put_plain
            self.flush_queues.index = self.index.table
        self.stats = StoreStats(world, self.commit_log)
        self.flush_queues.on_interval = self.stats.take_sample_if_due
        if config.broker_role is BrokerRole.SLAVE:
            self.dispatch.dispatchers.append(self.stats.count_replicated)
        self.on_arriving = ArrivalNotifier(config, self.dispatch.on_arriving, delays_ms)
        """Listeners, called with each message that consumers can now pull. `append` adds a listener."""
        self.dispatch.awaits = self.on_arriving.awaits
        limit = self.dispatch.readable_limit
        self.schedule = ScheduleMessageService(
            world, config, self.commit_log, queues, limit, delays_ms, self.put_message
        )
        self.dispatch.on_scheduled = self.schedule.wake
        self.retention = RetentionService(world, config, self.commit_log, queues, flags, self.flush_queues)
        if self.index is not None:
            self.retention.queues.expirers.append(self.index.table.delete_expired)
        for service in self.services:
            service.on_failure = flags.service_failed
        self._on_readable: Callable[[], None] = self.dispatch.wake
        if self.commit is not None:
            self.commit_log.on_appended = self.commit.wake
            self.commit.on_committed = self._on_committed
        else:
            self._connect_on_readable()
        self._puller = QueuePuller(config, self.commit_log, limit, world.core)
        self._querier = KeyQuerier(self.commit_log, world.core)
        self.last_recovery: RecoveryReport | None = None
        self._lock: FileLock | None = None
        self._is_started = False
        self._accepting = world.tasks.cell("accepting")
        self._shut_down = world.tasks.cell("shut down")
        self._now_ns = world.clock.monotonic_ns

    @property
    def services(self) -> list[Service]:
        services = [self.allocate, self.flush, self.dispatch, self.flush_queues, self.retention]
        if self.commit is not None:
            services.append(self.commit)
        if self.config.broker_role is not BrokerRole.SLAVE:
            services.append(self.schedule)
        return services

    def call_when_readable(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever more of the log becomes readable. Earlier callbacks stay registered."""
        earlier = self._on_readable

        def wake_both() -> None:
            earlier()
            wake()

        self._on_readable = wake_both
        if self.commit is None:
            self._connect_on_readable()

    def _connect_on_readable(self) -> None:
        if self._is_sync_flush:
            self.flush.on_flushed = self._on_readable
        else:
            self.commit_log.on_appended = self._on_readable

    def _make_log(self) -> SegmentQueue:
        world, config, segment_bytes = self.world, self.config, self.config.mapped_file_size_commit_log
        arguments = (world, config.commit_log_directory, segment_bytes, "commitlog", self.log_directories)
        if not config.is_transient_store_pool_effective:
            return SegmentQueue(*arguments)
        self.pool = TransientStorePool(world, segment_bytes, config.transient_store_pool_size)
        log = BufferedSegmentQueue(*arguments)
        self.commit = CommitRealTimeService(world, config, log, self.flags)
        return log

    def _on_committed(self) -> None:
        self._on_readable()
        if not self.config.flush_commit_log_timed:
            self.flush.wake()

    # -- start and stop ----------------------------------------------------------------------------

    def load(self, *, clean_exit: bool | None = None) -> RecoveryReport:
        """Lock the directory, map its files, and recover.

        clean_exit: whether the last shutdown was clean; None: use the marker file. Raises StoreLockedError if another
        instance is running, CorruptFileError if the directory cannot belong to a store, OSError if the disk fails.
        These errors release the lock. No file changes before the lock is held.
        """
        try:
            self._lock_directory()
            return self._load_locked(clean_exit)
        except (StoreError, OSError):
            self.close()
            raise

    def _load_locked(self, clean_exit: bool | None) -> RecoveryReport:
        files = self.world.files
        if clean_exit is None:
            clean_exit = files.status(self.config.abort_path) is None
        self.log.load()
        damage = self.checkpoint.load()
        unknown_entries = [*self.log.unknown_entries, *self.queues.load(before_loss=self.checkpoint.reset_queue_time)]
        report = self.last_recovery = self.recover(clean_exit=clean_exit)
        report.unknown_entries = unknown_entries
        if clean_exit:  # a crash can shorten a file before its size is durable
            report.findings += self.queues.extended
        if damage is not None:
            report.findings.append(damage)
        self.schedule.load()
        if self.schedule.file.damage is not None:
            report.findings.append(self.schedule.file.damage)
        return report

    def recover(self, *, clean_exit: bool) -> RecoveryReport:
        config, log, queues, checkpoint = self.config, self.log, self.queues, self.checkpoint
        core = self.world.core
        recovery = Recovery(config, log, queues, checkpoint, self.delays_ms, clean_exit=clean_exit, core=core)
        if self.index is not None:
            recovery.index = IndexRecovery(self.index, log, checkpoint, config, clean_exit=clean_exit)
        times = SegmentTimes(self.world.files, [log, *(queue.queue for queue in queues.all_queues())])
        report = recovery.run()
        times.restore_mtimes(self.commit_log, queues.all_queues())
        self.commit_log.continue_after(report.last_store_timestamp_ms)
        # Read after recovery. Before, a queue can lack entries, and its offsets would be assigned twice.
        counted = {(queue.topic, queue.queue_id): queue.max_offset for queue in queues.all_queues()}
        self.commit_log.topic_queue_table = counted | report.counted
        self.dispatch.reput_from.set(report.dispatched_to)
        if report.lacks_room is None:
            self.dispatch.dispatched_store_timestamp_ms = report.last_store_timestamp_ms
        else:
            self.flags.add_refusal(RefusalReason.DISK_FULL)  # retention allows puts again when the disk has space
        return report

    def _lock_directory(self) -> None:
        files = self.world.files
        # The lock comes before the sync, so that a second instance is refused even if the sync fails.
        make_directory(files, self.config.store_path_root_dir, once_made=self._acquire_file_lock)
        files.write(self.config.lock_path, b"lock")

    def _acquire_file_lock(self) -> None:
        try:
            self._lock = self.world.files.lock(self.config.lock_path)
        except BlockingIOError as error:
            count_mark("directory in use at start")
            raise StoreLockedError(f"{self.config.lock_path}: locked by another running store") from error

    def start(self) -> None:
        """Make the marker of an unclean exit durable, then start the services and accept puts.

        Raises RuntimeError if the store is not loaded or was started before. Without a load, the store would ignore
        existing files, which another instance may have locked.
        """
        if self._lock is None or self._is_started:
            found = "a running store" if self._is_started else "a store that was not loaded"
            raise RuntimeError(f"start: expected a store that was loaded, found {found}")
        self._is_started = True
        files, root = self.world.files, self.config.store_path_root_dir
        if self.pool is not None:
            self.pool.fill()
        for path in self.log_directories.writable:
            make_directory(files, path, below=root)
        make_directory(files, self.config.consume_queue_directory, below=root)
        if self.queues.ext_directory is not None:
            make_directory(files, self.queues.ext_directory, below=root)
        self.checkpoint.limit_to_log_end(self.commit_log.last_store_timestamp_ms)
        self.checkpoint.limit_index_time(self.commit_log.last_store_timestamp_ms)
        self.mark_running()  # syncs the names in the root, including those created above
        self.schedule.persist_correction()
        for service in (self.allocate, self.flush, self.dispatch, self.flush_queues):
            service.start()
        if self.commit is not None:
            self.commit.start()
        self.retention.start()
        if self.config.broker_role is not BrokerRole.SLAVE:  # on a slave, only replication writes to the log
            self._accepting.set(1)
            self.schedule.start()

    def mark_running(self) -> None:
        """Create the marker file. If a later start finds the file, the last exit was unclean."""
        files = self.world.files
        files.write(self.config.abort_path, b"")
        # Otherwise a power cut can lose the marker's name but keep pages of the log, and the next start would trust the
        # log.
        files.sync_directory(self.config.store_path_root_dir)

    def shutdown(self) -> bool:
        """Stop accepting puts, make all data durable, and stop. Return whether the exit was clean.

        After an unclean exit, the next load recovers. Causes are a failed sync, records that are not dispatched, and a
        removal of the marker that may not be durable.
        """
        self._accepting.set(0)
        self._shut_down.set(1)
        self.retention.shutdown()
        self.stop_puts()  # before the commit service stops, or a later put would stay in its buffer
        if self.commit is not None:
            self.commit.shutdown()  # before the flush service stops, because it must flush all committed bytes
        self.flush.shutdown()
        self.dispatch.shutdown()
        self.flush_queues.shutdown()
        self.allocate.shutdown()
        self.schedule.try_to_persist()  # persists the progress now that all copies are durable
        clean = self.is_clean() and self._mark_stopped()
        if not clean:
            count_mark("unclean stop")
        self.close()
        return clean

    def stop_puts(self) -> None:
        """Accept no more puts, and end delayed delivery. A second call has no effect."""
        self._accepting.set(0)
        self.schedule.shutdown()
        self.commit_log.close()

    def _mark_stopped(self) -> bool:
        try:
            self.world.files.unlink(self.config.abort_path)
            self.world.files.sync_directory(self.config.store_path_root_dir)
        except OSError:
            return False
        return True

    def is_clean(self) -> bool:
        """Return whether all written data is durable and dispatched."""
        return (
            not self.flags.has_failed
            and self.log.flushed_where.get() == self.log.put_offset
            and self.dispatch.behind_bytes == 0  # a start without the marker file trusts the queues
            and self.flush_queues.last_error is None
        )

    def close(self) -> None:
        """Release the maps and the lock without flushing."""
        self.checkpoint.close()
        if self.pool is not None:
            self.pool.drain()
        self.log.close()
        self.queues.close()
        if self.index is not None:
            self.index.table.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- expiry ------------------------------------------------------------------------------------

    def execute_delete_files_manually(self) -> None:
        """Delete expired segments at any hour, now and in the next 19 passes."""
        self.retention.delete_manually()

    def clean_expired_consumer_queue(self) -> None:
        """Remove queues without a message in the log (RocketMQ's admin command 306).

        The next message of a removed queue has queue offset 0. Raises OSError if a file cannot be removed.
        """
        self.retention.remove_expired_queues()

    # -- puts --------------------------------------------------------------------------------------

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message. The result's status tells whether it is durable."""
        return wait_for_answer(self.begin_put(message))

    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        """Store a batch completely in one segment, or not at all."""
        return wait_for_answer(self.begin_put(batch))

    def begin_put(
        self, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
    ) -> PutMessageResult | PutWait:
        """Store a message or a batch. Returns the result, or a PutWait if the result is not known yet.

        on_known: called when the PutWait may have its result, by any task, possibly before this method returns. Without
        on_known, the caller must call `PutWait.wait`.
        """
        begin_ns = self._now_ns()
        refused = self._find_put_refusal(message)
        if refused is not None:
            return PutMessageResult(refused)
        put = self.commit_log.begin_put(message, on_known)
        if isinstance(message, MessageBatch) and put.append is not None:
            self.stats.count_batch(put.append.message_count)
        if isinstance(put, PutWait):
            put.call_when_answered(partial(self._count_put_time, begin_ns))
        else:
            self._count_put_time(begin_ns)
        return put

    def _count_put_time(self, begin_ns: int) -> None:
        duration_ns = self._now_ns() - begin_ns
        assert duration_ns >= 0, duration_ns
        if duration_ns >= FAST_PUT_NS:
            self.stats.count_slow_put(duration_ns)

    def _find_put_refusal(self, message: Message | MessageBatch) -> PutMessageStatus | None:
        if not self._accepting.get() or not self.flags.is_writeable:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        if self.commit_log.begin_time_in_lock_ms and self.is_os_page_cache_busy:
            return PutMessageStatus.OS_PAGECACHE_BUSY
        if isinstance(message, MessageBatch):
            return PutMessageStatus.MESSAGE_ILLEGAL if len(message.head.topic) > MAX_TOPIC_BYTES else None
        properties = message.properties
        if len(message.topic) > MAX_TOPIC_BYTES or (
            2 * len(properties) > MAX_PROPERTIES_BYTES and java_length(properties) > MAX_PROPERTIES_BYTES
        ):
            return PutMessageStatus.MESSAGE_ILLEGAL
        return None

    @property
    def is_accepting(self) -> bool:
        """Whether the store has started as a master, and its stop has not begun."""
        return bool(self._accepting.get())

    @property
    def is_os_page_cache_busy(self) -> bool:
        """Return whether a put holds the put lock for so long that the disk probably stalls."""
        begin_ms = self.commit_log.begin_time_in_lock_ms
        if begin_ms == 0:
            return False
        held_ms = self.world.clock.now_ms() - begin_ms
        return self.config.os_page_cache_busy_time_out_ms < held_ms < _STALL_MS_MAX

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """Return whether the transient store pool has no free buffer. A broker then refuses producers."""
        return self.pool is not None and self.pool.available == 0

    # -- reads -------------------------------------------------------------------------------------

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int = 32,
        tags: str | None = None,
        wanted: MessageFilter | None = None,
    ) -> GetMessageResult:
        """Pull up to max_messages from a queue offset on; tags is a subscription such as `A || B`.

        wanted: a filter instead of tags, such as `SqlMessageFilter`. Every method that reads records or queue files
        raises StoreNotReadableError if reads are refused; RocketMQ returns null.
        """
        self._require_readable()
        begin_ns = self._now_ns()
        queue = self.queues.find_or_create(topic, queue_id)
        try:
            result = self._puller.get_message(queue, offset, max_messages, wanted or TagFilter.parse(tags))
        except ValueError:
            self._require_readable()  # a shutdown may have closed the maps during the read
            raise
        self.stats.count_get(self._now_ns() - begin_ns, result)
        if result.fall_behind_bytes >= 0 and self.config.disk_fall_recorded:
            self.stats.fall_behind_bytes[topic, queue_id] = result.fall_behind_bytes
        return result

    def _require_readable(self) -> None:
        if self._shut_down.get():
            raise StoreNotReadableError("the store is shut down")
        if not self.flags.is_readable:
            raise StoreNotReadableError(f"the store is switched to not readable: running flags {self.flags.bits}")

    def look_message_by_offset(self, physical_offset: int) -> MessageRecord | None:
        """Return the record at a log offset, None if no record begins there."""
        self._require_readable()
        if physical_offset < 0:
            return None
        try:
            return self.commit_log.record_at(physical_offset, self.dispatch.readable_limit())
        except ValueError:
            self._require_readable()
            raise

    def query_message(self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int) -> QueryMessageResult:
        """Return a topic's newest messages with a key and a store time in [begin_ms, end_ms + 999], oldest first."""
        self._require_readable()
        if self.index is None:
            return QueryMessageResult()
        limit = self.dispatch.readable_limit()
        try:
            return self._querier.query_message(self.index, topic, key, max_messages, begin_ms, end_ms, limit)
        except ValueError:
            self._require_readable()
            raise

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.queues.find_or_create(topic, queue_id).max_offset

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset; -1 for an unknown queue."""
        queue = self.queues.find(topic, queue_id)
        return -1 if queue is None else queue.min_offset

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        self._require_readable()
        queue = self.queues.find_or_create(topic, queue_id)
        try:
            limit = self.dispatch.readable_limit()
            return offset_by_time(self.world.files, self.commit_log, queue, timestamp_ms, limit)
        except ValueError:
            self._require_readable()
            raise

    @property
    def max_phy_offset(self) -> int:
        return self.log.max_offset

    @property
    def min_phy_offset(self) -> int:
        """First log offset; -1 for an empty log."""
        return self.log.min_offset

    # -- monitoring --------------------------------------------------------------------------------

    @property
    def dispatchers(self) -> list[Dispatcher]:
        return self.dispatch.dispatchers

    @property
    def dispatch_behind_bytes(self) -> int:
        return self.dispatch.behind_bytes

    def runtime_info(self) -> dict[str, str]:
        self.stats.take_sample_if_due()
        return {
            **stats_info(self.stats, self.world.clock.now_ms(), self.dispatch.waiting_bytes_max),
            **disk_info(self.world.files, self.config),
            "commitLogMinOffset": str(self.min_phy_offset),
            "commitLogMaxOffset": str(self.max_phy_offset),
            **schedule_info(self.schedule.offsets, self.queues),
            **trouble_info(self.flags, self.dispatch),
        }

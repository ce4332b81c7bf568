"""Message store: RocketMQ's DefaultMessageStore. Open a directory, put, get, look up, shut down.

store = MessageStore(real_world(), StoreConfig("/var/lib/mq"))
store.load()
store.start()
store.put_message(Message.of("Orders", b"hello", tags="new"))
store.get_message("Orders", 0, 0).records
store.shutdown()
"""

from .config import BrokerRole, StoreConfig
from .errors import StoreLockedError, StoreNotReadableError
from .filters.message_filter import MessageFilter, TagFilter
from .formats.message import MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES, MessageRecord
from .index.index_recovery import IndexRecovery
from .index.index_service import QueryMessageResult, query_message
from .log.recovery import Recovery, RecoveryReport
from .log.segment_times import SegmentTimes
from .marks import hit
from .message import GetMessageResult, Message, MessageBatch, PutMessageResult, PutMessageStatus
from .queues.dispatch import Dispatcher
from .queues.pull import Puller, offset_by_time
from .runtime_info import disk_info, schedule_info, stats_info, trouble_info
from .stats import FAST_PUT_NS
from .store_parts import StoreParts
from .world import FileLock, World

_STALL_MS_MAX = 10_000_000
"""A put cannot have held the lock longer: a larger figure means that none holds it."""


class MessageStore(StoreParts):
    """One store directory: its life, and what producers, consumers and operators ask of it."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        super().__init__(world, config, self.put_message)
        self._puller = Puller(config, self.commit_log, self.dispatch.readable_limit)
        self._lock: FileLock | None = None
        self._accepting = world.tasks.cell("accepting")
        self._shut_down = world.tasks.cell("shut down")
        self._now_ns = world.clock.monotonic_ns

    # -- life --------------------------------------------------------------------------------------

    def load(self, *, clean_exit: bool | None = None) -> RecoveryReport:
        """Lock the directory, map what is there, and recover it.

        clean_exit says how the last life ended, where something else than the marker in the directory does.
        Raises StoreLockedError if another instance is alive, CorruptFileError if the directory cannot be a store's,
        OSError if the disk fails. Nothing on disk has changed before the lock is held.
        """
        self._lock_directory()
        files = self.world.files
        if clean_exit is None:
            clean_exit = files.status(self.config.abort_path) is None
        reserved_ms = self.config.file_reserved_time_hours * 3_600_000
        self.log.load(expired_mtime_ms=self.world.clock.now_ms() - reserved_ms)
        damage = self.checkpoint.load()
        strays = [*self.log.strays, *self.queues.load(before_loss=self.checkpoint.queues_begin_again)]
        report = self.recover(clean_exit=clean_exit)
        report.strays = strays
        if damage is not None:
            report.findings.append(damage)
        self.schedule.load()
        return report

    def recover(self, *, clean_exit: bool) -> RecoveryReport:
        """Bring log and queues to one consistent state, and let puts and dispatch go on from there."""
        recovery = Recovery(
            self.config, self.log, self.queues, self.checkpoint, self.delays_ms, clean_exit=clean_exit
        )
        if self.index is not None:
            recovery.index = IndexRecovery(
                self.index, self.log, self.checkpoint, self.config, clean_exit=clean_exit
            )
        times = SegmentTimes(self.world.files, [self.log, *(queue.queue for queue in self.queues.all())])
        report = recovery.run()
        times.put_back(self.commit_log, self.queues.all())
        self.commit_log.last_store_timestamp_ms = report.last_store_timestamp_ms
        self.commit_log.topic_queue_table = {
            (queue.topic, queue.queue_id): queue.max_offset for queue in self.queues.all()
        }
        self.dispatch.reput_from.set(report.end_offset)
        self.dispatch.dispatched_store_timestamp_ms = report.last_store_timestamp_ms
        return report

    def _lock_directory(self) -> None:
        root, files = self.config.store_path_root_dir, self.world.files
        files.make_directories(root)
        try:
            self._lock = files.lock(self.config.lock_path)
        except BlockingIOError as error:
            hit("start on a live directory")
            raise StoreLockedError(f"{self.config.lock_path}: held by another live store") from error
        files.write(self.config.lock_path, b"lock")

    def start(self) -> None:
        """Start the services and accept puts, once the marker of an unclean exit is durable."""
        files, root = self.world.files, self.config.store_path_root_dir
        if self.pool is not None:
            self.pool.fill()
        self.log_directories.make(root)
        files.make_directories(self.config.consume_queue_directory)
        if self.queues.ext_directory is not None:
            files.make_directories(self.queues.ext_directory)
        self.mark_running()
        files.sync_directory(root.rpartition("/")[0] or "/")
        self.schedule.persist_correction()
        for service in (self.allocate, self.flush, self.dispatch, self.flush_queues):
            service.start()
        if self.commit is not None:
            self.commit.start()
        self.retention.start()
        if self.config.broker_role is not BrokerRole.SLAVE:  # whose log only its master writes to
            self._accepting.set(1)
            self.schedule.start()

    def mark_running(self) -> None:
        """Create the marker that tells the next start how this one ended."""
        files = self.world.files
        files.write(self.config.abort_path, b"")
        files.sync_directory(self.config.store_path_root_dir)

    def shutdown(self) -> bool:
        """Stop accepting, make everything durable, and end; return whether the exit was clean.

        It is not when a sync failed or records are not dispatched: the marker then stays, and the next load recovers.
        It is not either when the marker cannot be removed for good, though nothing else is missing.
        """
        self._accepting.set(0)
        self._shut_down.set(1)
        self.retention.shutdown()
        self.schedule.shutdown()
        self.commit_log.close()
        if self.commit is not None:
            self.commit.shutdown()  # before the flusher, which is to find all of it
        self.flush.shutdown()
        self.dispatch.shutdown()
        self.flush_queues.shutdown()
        self.allocate.shutdown()
        self.schedule.try_to_persist()  # now that all copies are durable
        clean = self.is_clean() and self._mark_stopped()
        if not clean:
            hit("unclean stop")
        self.close()
        return clean

    def _mark_stopped(self) -> bool:
        """Remove the marker; return whether that is durable."""
        try:
            self.world.files.unlink(self.config.abort_path)
            self.world.files.sync_directory(self.config.store_path_root_dir)
        except OSError:
            return False
        return True

    def is_clean(self) -> bool:
        """Return whether everything written is durable and visible."""
        return (
            not self.flags.has_failed
            and self.log.flushed_where.get() == self.log.put_offset
            and self.dispatch.behind_bytes == 0
            and self.flush_queues.last_error is None
        )

    def close(self) -> None:
        """Give maps and lock back, without a word to the disk."""
        self.close_files()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- expiring ----------------------------------------------------------------------------------

    def execute_delete_files_manually(self) -> None:
        """Delete segments whose time is over in the next 20 passes, the first of them now, whatever the hour."""
        self.retention.delete_manually()

    def clean_expired_consumer_queue(self) -> None:
        """Remove the queues all of whose messages have left the log: RocketMQ's admin command 306.

        The next message in such a queue has queue offset 0 again. Raises OSError if a file does not go.
        """
        self.retention.remove_expired_queues()

    # -- putting -----------------------------------------------------------------------------------

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message; the answer's status says what is promised."""
        begin_ns = self._now_ns()
        refused = self._refusal(message)
        if refused is None and len(message.properties) > MAX_PROPERTIES_BYTES:
            refused = PutMessageStatus.MESSAGE_ILLEGAL
        if refused is not None:
            return PutMessageResult(refused)
        result = self.commit_log.put(message)
        took_ns = self._now_ns() - begin_ns
        if took_ns >= FAST_PUT_NS:
            self.stats.put_was_slow(took_ns)
        return result

    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        """Store a batch: all of it in one segment, or nothing."""
        begin_ns = self._now_ns()
        refused = self._refusal(batch.head)
        if refused is not None:
            return PutMessageResult(refused)
        result = self.commit_log.put(batch)
        if result.append is not None:
            self.stats.batch_stored(result.append.message_count)
        took_ns = self._now_ns() - begin_ns
        if took_ns >= FAST_PUT_NS:
            self.stats.put_was_slow(took_ns)
        return result

    def _refusal(self, message: Message) -> PutMessageStatus | None:
        """Return why nothing can be put now, in RocketMQ's order of checks."""
        if not self._accepting.get() or not self.flags.is_writeable:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        if self.commit_log.begin_time_in_lock_ms and self.is_os_page_cache_busy:
            return PutMessageStatus.OS_PAGECACHE_BUSY
        if len(message.topic) > MAX_TOPIC_BYTES:
            return PutMessageStatus.MESSAGE_ILLEGAL
        return None

    @property
    def is_os_page_cache_busy(self) -> bool:
        """Return whether a put has held the lock for so long that the disk must be stalling."""
        begin_ms = self.commit_log.begin_time_in_lock_ms
        if begin_ms == 0:
            return False
        held_ms = self.world.clock.now_ms() - begin_ms
        return self.config.os_page_cache_busy_time_out_ms < held_ms < _STALL_MS_MAX

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """Return whether a new segment would find no buffer: a broker then turns producers away."""
        return self.pool is not None and self.pool.available == 0

    # -- reading -----------------------------------------------------------------------------------

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

        wanted takes its place where tags are not enough: `SqlMessageFilter`.
        This and all that reads records or queue files raises StoreNotReadableError where RocketMQ answers null.
        """
        self._require_readable()
        begin_ns = self._now_ns()
        queue = self.queues.find_or_create(topic, queue_id)
        try:
            result = self._puller.get_message(queue, offset, max_messages, wanted or TagFilter.parse(tags))
        except ValueError:
            self._require_readable()  # its maps may have been closed meanwhile
            raise
        self.stats.get_answered(self._now_ns() - begin_ns, result)
        if result.fall_behind_bytes >= 0 and self.config.disk_fall_recorded:
            self.stats.fall_behind_bytes[topic, queue_id] = result.fall_behind_bytes
        return result

    def _require_readable(self) -> None:
        if self._shut_down.get():
            raise StoreNotReadableError("the store is shut down")
        if not self.flags.is_readable:
            raise StoreNotReadableError(f"the store was made not readable: running flags {self.flags.bits}")

    def look_message_by_offset(self, physical_offset: int) -> MessageRecord | None:
        """Return the record that begins at a log offset, None if none does."""
        self._require_readable()
        if physical_offset < 0:
            return None
        try:
            return self.commit_log.record_at(physical_offset, self.dispatch.readable_limit())
        except ValueError:
            self._require_readable()
            raise

    def query_message(
        self, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int
    ) -> QueryMessageResult:
        """Return the newest messages of a topic that have a key, stored in [begin_ms, end_ms + 999], oldest first."""
        self._require_readable()
        if self.index is None:
            return QueryMessageResult()
        limit = self.dispatch.readable_limit()
        try:
            return query_message(
                self.index, self.commit_log, limit, topic, key, max_messages, begin_ms, end_ms
            )
        except ValueError:
            self._require_readable()
            raise

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset behind the last visible message."""
        return self.queues.find_or_create(topic, queue_id).max_offset

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the first message, -1 for a queue never seen."""
        queue = self.queues.find(topic, queue_id)
        return -1 if queue is None else queue.min_offset

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a time."""
        self._require_readable()
        queue = self.queues.find_or_create(topic, queue_id)
        try:
            return offset_by_time(
                self.world.files, self.commit_log, queue, timestamp_ms, self.dispatch.readable_limit()
            )
        except ValueError:
            self._require_readable()
            raise

    @property
    def max_phy_offset(self) -> int:
        """Return the log offset behind the last record."""
        return self.log.max_offset

    @property
    def min_phy_offset(self) -> int:
        """Return the first log offset, -1 for an empty log."""
        return self.log.min_offset

    # -- watching ----------------------------------------------------------------------------------

    @property
    def dispatchers(self) -> list[Dispatcher]:
        """Return what each record is handed to, in order."""
        return self.dispatch.dispatchers

    @property
    def dispatch_behind_bytes(self) -> int:
        """Return how much of the log is not visible yet."""
        return self.dispatch.behind_bytes

    def runtime_info(self) -> dict[str, str]:
        """Return what a broker tells of its store, under RocketMQ's names."""
        self.stats.sample()
        return {
            **stats_info(self.stats, self.world.clock.now_ms(), self.dispatch.waiting_bytes_max),
            **disk_info(self.world.files, self.config),
            "commitLogMinOffset": str(self.min_phy_offset),
            "commitLogMaxOffset": str(self.max_phy_offset),
            **schedule_info(self.schedule.offsets, self.queues),
            **trouble_info(self.flags, self.dispatch),
        }

"""The store: RocketMQ's DefaultMessageStore. Open a directory, put, get, look up, shut down.

store = MessageStore(real_world(), StoreConfig("/var/lib/mq"))
store.load()
store.start()
store.put_message(Message.of("Orders", b"hello", tags="new"))
store.get_message("Orders", 0, 0).records
store.shutdown()
"""

from .checkpoint import StoreCheckpoint
from .commit_log import CommitLog
from .config import FlushDiskType, StoreConfig
from .consume_queue import ConsumeQueueTable
from .dispatch import DispatchService
from .errors import StoreLockedError
from .flush import FlushCommitLogService, FlushRealTimeService, GroupCommitService
from .flush_queues import FlushConsumeQueueService
from .formats.delay_level import parse_delay_levels
from .formats.message import MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES, MessageRecord
from .get_result import GetMessageResult
from .message import Message, MessageBatch
from .offset_by_time import offset_by_time
from .pull import Puller
from .put_result import PutMessageResult, PutMessageStatus
from .recovery import Recovery, RecoveryReport
from .running_flags import RunningFlags
from .segments.allocate import AllocateMappedFileService
from .segments.segment_queue import SegmentQueue
from .tag_filter import TagFilter
from .world import FileLock, World

_STALL_MS_MAX = 10_000_000
"""A put cannot have held the lock longer: a larger figure means that none holds it."""


class MessageStore:
    """One store directory, and the services that keep it."""

    def __init__(self, world: World, config: StoreConfig) -> None:
        self.world = world
        self.config = config
        self.flags = RunningFlags(world.tasks)
        self.delays_ms = parse_delay_levels(config.message_delay_level)
        self.checkpoint = StoreCheckpoint(world, config.checkpoint_path)
        self.log = SegmentQueue(
            world, config.commit_log_directory, config.mapped_file_size_commit_log, "commitlog"
        )
        self.queues = ConsumeQueueTable(
            world, config.consume_queue_directory, config.mapped_file_size_consume_queue
        )
        self.allocate = AllocateMappedFileService(world, self.log)
        self.flush = self._make_flush()
        self.commit_log = CommitLog(world, config, self.log, self.allocate, self.flush)
        self.dispatch = DispatchService(
            world, config, self.commit_log, self.queues, self.flags, self.delays_ms
        )
        self.flush_queues = FlushConsumeQueueService(
            world, config, self.queues, self.dispatch, self.checkpoint
        )
        self._puller = Puller(config, self.commit_log, self.dispatch.readable_limit)
        self._lock: FileLock | None = None
        self._accepting = world.tasks.cell("accepting")
        if config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            self.flush.on_flushed = self.dispatch.wake
        else:
            self.commit_log.on_appended = self.dispatch.wake

    def _make_flush(self) -> FlushCommitLogService:
        kind = (
            GroupCommitService
            if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
            else FlushRealTimeService
        )
        return kind(self.world, self.config, self.log, self.checkpoint, self.flags)

    # -- life --------------------------------------------------------------------------------------

    def load(self) -> RecoveryReport:
        """Lock the directory, map what is there, and recover it.

        Raises StoreLockedError if another instance is alive, CorruptFileError if the directory cannot be a store's,
        OSError if the disk fails. Nothing on disk has changed before the lock is held.
        """
        self._lock_directory()
        files = self.world.files
        clean_exit = files.status(self.config.abort_path) is None
        self.log.load()
        self.queues.load()
        self.checkpoint.load()
        return self.recover(clean_exit=clean_exit)

    def recover(self, *, clean_exit: bool) -> RecoveryReport:
        """Bring log and queues to one consistent state, and let puts and dispatch go on from there."""
        report = Recovery(
            self.config, self.log, self.queues, self.checkpoint, self.delays_ms, clean_exit=clean_exit
        ).run()
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
            raise StoreLockedError(f"{self.config.lock_path}: held by another live store") from error
        files.write(self.config.lock_path, b"lock")

    def start(self) -> None:
        """Start the services and accept puts, once the marker of an unclean exit is durable."""
        files, root = self.world.files, self.config.store_path_root_dir
        for directory in (self.config.commit_log_directory, self.config.consume_queue_directory):
            files.make_directories(directory)
        self.mark_running()
        files.sync_directory(root.rpartition("/")[0] or "/")
        for service in (self.allocate, self.flush, self.dispatch, self.flush_queues):
            service.start()
        self._accepting.set(1)

    def mark_running(self) -> None:
        """Create the marker that tells the next start how this one ended."""
        files = self.world.files
        files.write(self.config.abort_path, b"")
        files.sync_directory(self.config.store_path_root_dir)

    def shutdown(self) -> bool:
        """Stop accepting, make everything durable, and end; return whether the exit was clean.

        It is not when a sync failed or records are not dispatched: the marker then stays, and the next load recovers.
        """
        self._accepting.set(0)
        self.commit_log.close()
        self.flush.shutdown()
        self.dispatch.shutdown()
        self.flush_queues.shutdown()
        self.allocate.shutdown()
        clean = self.is_clean()
        if clean:
            self.world.files.unlink(self.config.abort_path)
            self.world.files.sync_directory(self.config.store_path_root_dir)
        self.close()
        return clean

    def is_clean(self) -> bool:
        """Return whether everything written is durable and visible."""
        log_end = self.log.max_offset
        return (
            self.flags.is_writeable
            and self.log.flushed_where.get() == log_end
            and self.dispatch.behind_bytes == 0
            and self.flush_queues.last_error is None
        )

    def close(self) -> None:
        """Give maps and lock back, without a word to the disk."""
        self.checkpoint.close()
        self.log.close()
        self.queues.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- putting -----------------------------------------------------------------------------------

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message; the answer's status says what is promised."""
        refused = self._refusal(message)
        if refused is None and len(message.properties) > MAX_PROPERTIES_BYTES:
            refused = PutMessageStatus.MESSAGE_ILLEGAL
        return PutMessageResult(refused) if refused is not None else self.commit_log.put(message)

    def put_messages(self, batch: MessageBatch) -> PutMessageResult:
        """Store a batch: all of it in one segment, or nothing."""
        refused = self._refusal(batch.head)
        return PutMessageResult(refused) if refused is not None else self.commit_log.put(batch)

    def _refusal(self, message: Message) -> PutMessageStatus | None:
        """Return why nothing can be put now, in RocketMQ's order of checks."""
        if not self._accepting.get() or not self.flags.is_writeable:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        if self.is_os_page_cache_busy:
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

    # -- reading -----------------------------------------------------------------------------------

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_messages: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """Pull up to max_messages from a queue offset on; tags is a subscription such as `A || B`."""
        queue = self.queues.find_or_create(topic, queue_id)
        return self._puller.get_message(queue, offset, max_messages, TagFilter.parse(tags))

    def look_message_by_offset(self, physical_offset: int) -> MessageRecord | None:
        """Return the record that begins at a log offset, None if none does."""
        if physical_offset < 0:
            return None
        return self.commit_log.record_at(physical_offset, self.dispatch.readable_limit())

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset behind the last visible message."""
        return self.queues.find_or_create(topic, queue_id).max_offset

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the first message, -1 for a queue never seen."""
        queue = self.queues.find(topic, queue_id)
        return -1 if queue is None else queue.min_offset

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the queue offset of the message stored nearest to a time."""
        queue = self.queues.find_or_create(topic, queue_id)
        return offset_by_time(
            self.world.files, self.commit_log, queue, timestamp_ms, self.dispatch.readable_limit()
        )

    @property
    def max_phy_offset(self) -> int:
        """Return the log offset behind the last record."""
        return self.log.max_offset

    @property
    def min_phy_offset(self) -> int:
        """Return the first log offset, -1 for an empty log."""
        return self.log.min_offset

"""Partitioned log: a store with one log per topic-partition, for comparison with a shared log.

The store writes records in RocketMQ's encoding through file descriptors, and reads by a sparse offset index. Under sync
flush, puts into one partition share a sync, and partitions sync in parallel. Async flush has the settings of the shared
log: an interval, and a number of dirty pages. The store has no recovery, retention, batches, property handling or
replication. Two simplifications make it faster than a real store: it never syncs the index (Kafka syncs it with the
log), and it finds the partitions to flush in no time.
"""

from ....store.config import StoreConfig
from ....store.directories import directory_of, make_directory
from ....store.formats.message import encode_record, place_records
from ....store.formats.messages import Message
from ....store.service import Service
from ....store.world import Signal, World
from .partition_files import OpenFile, PartitionSegment

_PAGE_BYTES = 4096
_WAITING = "group commit done"
"""Signal name that host models recognize as group commit."""


class Partition:
    """One partition. Invariant: the first `durable_bytes` of its `end_bytes` survive a power cut."""

    def __init__(self, world: World, open_file: OpenFile, directory: str, segment_bytes: int) -> None:
        self.lock = world.tasks.lock(f"partition {directory}")
        self.segments: list[PartitionSegment] = []
        self.end_bytes = 0
        self.durable_bytes = 0
        self._world = world
        self._open_file = open_file
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._unsynced: list[PartitionSegment] = []
        self._is_syncing = False
        self._has_failed = False
        self._waiters: list[Signal] = []

    @property
    def next_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else 0

    def append(self, record: bytearray, store_timestamp_ms: int) -> int:
        """Append a record; return the new size of the partition. Raises OSError after a failed sync."""
        with self.lock:
            self._check_not_failed()
            segment = self._segment_for(len(record))
            place_records(
                record,
                (0,),
                queue_offset=segment.next_offset,
                physical_offset=segment.size_bytes,
                store_timestamp_ms=store_timestamp_ms,
                born_host_v6=False,
            )
            segment.append(bytes(record))
            if not self._unsynced or self._unsynced[-1] is not segment:
                self._unsynced.append(segment)
            self.end_bytes += len(record)
            assert self.durable_bytes < self.end_bytes, (self.durable_bytes, self.end_bytes)
            return self.end_bytes

    def _segment_for(self, size_bytes: int) -> PartitionSegment:
        last = self.segments[-1] if self.segments else None
        if last is not None and last.size_bytes + size_bytes <= self._segment_bytes:
            return last
        return self._add_segment()

    def create(self) -> None:
        with self.lock:
            if not self.segments:
                self._add_segment()

    def _add_segment(self) -> PartitionSegment:
        files = self._world.files
        if not self.segments:
            root = directory_of(self._directory)
            make_directory(files, self._directory, below=root)
            files.sync_directory(root)
        segment = PartitionSegment(self._open_file, self._directory, self.next_offset)
        files.sync_directory(self._directory)
        self.segments.append(segment)
        return segment

    def read(self, offset: int, records_max: int) -> list[bytes]:
        """Return up to records_max records from one segment; none at the end of the partition."""
        for segment in reversed(self.segments):
            if segment.base_offset <= offset:
                return segment.read(offset, records_max)
        return []

    def make_durable(self, end_bytes: int) -> None:
        """Wait until `end_bytes` are durable through a sync of any task. Raises OSError after a failed sync."""
        while True:
            with self.lock:
                self._check_not_failed()
                if self.durable_bytes >= end_bytes:
                    return
                waiting = None
                if self._is_syncing:
                    waiting = self._world.tasks.signal(_WAITING)
                    self._waiters.append(waiting)
                else:
                    self._is_syncing = True
                    segments, covered_bytes = self._unsynced, self.end_bytes
                    self._unsynced = []
            if waiting is not None:
                waiting.wait(None)
            else:
                self._sync_and_wake(segments, covered_bytes)

    def _sync_and_wake(self, segments: list[PartitionSegment], covered_bytes: int) -> None:
        """Sync, and wake up waiting tasks. A failed sync is never retried."""
        failed = True
        try:
            for segment in segments:
                segment.sync()
            failed = False
        finally:
            with self.lock:
                self._is_syncing = False
                self._has_failed = self._has_failed or failed
                if not failed:
                    assert self.durable_bytes <= covered_bytes <= self.end_bytes, "the earliest bytes survive"
                    self.durable_bytes = covered_bytes
                waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter.notify()

    def _check_not_failed(self) -> None:
        if self._has_failed:
            text = "a sync failed, so the durable end is unknown"
            raise OSError(f"{self._directory}: {text}")

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


class PartitionFlusher(Service):
    """Async flush: flushes partitions with many dirty pages frequently, and all partitions rarely."""

    name = "flush-partitions"

    def __init__(self, world: World, config: StoreConfig, partitions: list[Partition]) -> None:
        super().__init__(world)
        self._config = config
        self._partitions = partitions
        self._thorough_ns = world.clock.monotonic_ns()

    def run_once(self) -> None:
        config = self._config
        self.signal.wait(config.flush_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = config.flush_commit_log_least_pages
        if now_ns - self._thorough_ns >= config.flush_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        self.flush(least_pages)

    def flush(self, least_pages: int) -> None:
        """Flush partitions with at least `least_pages` dirty pages; 0 means any dirty data."""
        for partition in list(self._partitions):
            end, durable = partition.end_bytes, partition.durable_bytes
            pages = end // _PAGE_BYTES - durable // _PAGE_BYTES
            if end > durable and pages >= least_pages:
                partition.make_durable(end)

    def finish_remaining_work(self) -> None:
        self.flush(0)


class PartitionedLog:
    """All partitions of one directory."""

    def __init__(self, world: World, open_file: OpenFile, config: StoreConfig, *, is_sync: bool) -> None:
        """config: directory, segment size and flush settings, in the same fields as for the shared log."""
        self._world = world
        self._open_file = open_file
        self._config = config
        self._is_sync = is_sync
        self._lock = world.tasks.lock("partitions")
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._in_order: list[Partition] = []
        self._flusher = PartitionFlusher(world, config, self._in_order)

    def start(self) -> None:
        root = self._config.store_path_root_dir
        make_directory(self._world.files, root)
        if not self._is_sync:
            self._flusher.start()

    def shutdown(self) -> None:
        """Flush and close all partitions. Puts must not follow."""
        if not self._is_sync:
            self._flusher.shutdown()
        for partition in self._in_order:
            partition.close()

    def create(self, topic: str, queue_id: int) -> None:
        """Create a partition's files before its first put."""
        self.partition(topic, queue_id).create()

    def put(self, message: Message) -> None:
        """Store a message, durably under sync flush. Raises OSError after a failed sync."""
        record = encode_record(
            topic=message.topic.encode(),
            properties=message.properties.encode(),
            body=message.body,
            queue_id=message.queue_id,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host,
            store_timestamp_ms=0,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )
        partition = self.partition(message.topic, message.queue_id)
        end_bytes = partition.append(record, self._world.clock.now_ms())
        if self._is_sync:
            partition.make_durable(end_bytes)

    def read(self, topic: str, queue_id: int, offset: int, records_max: int) -> list[bytes]:
        return self.partition(topic, queue_id).read(offset, records_max)

    def partition(self, topic: str, queue_id: int) -> Partition:
        """Return a partition. A new one has no files yet."""
        key = (topic, queue_id)
        found = self._partitions.get(key)
        if found is None:
            with self._lock:
                found = self._partitions.get(key)
                if found is None:
                    directory = f"{self._config.store_path_root_dir}/{topic}-{queue_id}"
                    segment_bytes = self._config.mapped_file_size_commit_log
                    found = Partition(self._world, self._open_file, directory, segment_bytes)
                    self._in_order.append(found)
                    self._partitions[key] = found
        return found

"""Flush services: sync the log by group (SYNC_FLUSH) or timer (ASYNC_FLUSH).

After a failed sync the store refuses puts, and no pending put returns PUT_OK. A later successful sync does not prove
that the data is durable, because Linux reports each lost page only once.
"""

from abc import abstractmethod
from collections.abc import Callable

from ..config import StoreConfig
from ..formats.messages import PUT_OK, PutMessageStatus
from ..marks import count_mark, is_forced
from ..running_flags import RefusalReason, RunningFlags
from ..service import NS_PER_MS, Service, do_nothing, ms_until
from ..world import Signal, TasksInTurn, World
from .checkpoint import StoreCheckpoint
from .segment_queue import SegmentQueue


class FlushCommitLogService(Service):
    """Base of both flush modes: runs one flush at a time and handles a failed flush."""

    def __init__(
        self, world: World, config: StoreConfig, queue: SegmentQueue, checkpoint: StoreCheckpoint, flags: RunningFlags
    ) -> None:
        super().__init__(world)
        self.config = config
        self.queue = queue
        self.checkpoint = checkpoint
        self.flags = flags
        self.on_flushed: Callable[[], None] = do_nothing
        self._flush_lock = world.tasks.lock(f"{self.name} flush")
        self._sync_failed = False

    @abstractmethod
    def start_durability_wait(
        self, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
    ) -> "GroupCommitRequest | None":
        """Request a sync of the log up to end_offset. `wait` is the WAIT property of the put.

        Returns None if the put need not wait for the disk. on_known: see `GroupCommitRequest`.
        """

    def wait_durable(self, end_offset: int, *, wait: bool) -> PutMessageStatus:
        request = self.start_durability_wait(end_offset, wait=wait)
        return PUT_OK if request is None else request.wait()

    def flush_to(self, end_offset: int, least_pages: int = 0) -> bool:
        """Flush until the log is durable up to end_offset (True) or a flush makes no progress (False)."""
        if self.queue.flushed_where.get() >= end_offset:
            self._advance_checkpoint()
            return True
        with self._flush_lock:
            # Each flush covers only one segment.
            while self.queue.flushed_where.get() < end_offset:
                if not self._flush_once(least_pages):
                    return False
        return True

    def _advance_checkpoint(self) -> None:
        """Advance the checkpoint to the store time of the last record if that record is durable.

        `_flush_once` misses this time if it syncs a record before the put has set the record's store time.
        """
        last = self.queue.last_segment()
        if last is None:
            return
        stored_ms = last.readable_store_timestamp_ms  # read before `readable`, so this record ends before `readable`
        is_later = stored_ms > self.checkpoint.physic_msg_timestamp_ms
        # `max_offset` would be wrong: a segment without a write buffer may already contain newer records while the
        # buffer of the previous segment is not committed.
        if is_later and self.queue.flushed_where.get() >= last.base_offset + last.readable.get():
            self.checkpoint.advance_log_time(stored_ms)

    def _flush_once(self, least_pages: int) -> bool:
        if self._sync_failed:
            return False
        try:
            moved = self.queue.flush(least_pages)
        except OSError as error:
            # Linux reports a write-back error once and marks the pages clean (errseq_t), so a second sync would not
            # write these pages.
            self._sync_failed = True
            self.flags.refuse_until_restart(RefusalReason.NOT_WRITEABLE, f"a sync of the log failed: {error}")
            return False
        if moved:  # set after the sync: recovery assumes a durable log up to the checkpoint
            self.checkpoint.advance_log_time(self.queue.flushed_store_timestamp_ms)
            self.on_flushed()
        return moved

    def finish_remaining_work(self) -> None:
        self.flush_to(self.queue.max_offset)


class FlushRealTimeService(FlushCommitLogService):
    """ASYNC_FLUSH: flushes whole pages at short intervals and all bytes at longer intervals."""

    name = "flush-real-time"
    woken_by_puts = False
    """Whether each put wakes the service. False in RocketMQ's timed mode and with a transient store pool."""
    _thorough_ns = 0
    """Monotonic time of the last flush of all bytes."""

    def start(self) -> None:
        config = self.config
        self.woken_by_puts = not (config.flush_commit_log_timed or config.is_transient_store_pool_effective)
        self._thorough_ns = self.world.clock.monotonic_ns()
        super().start()

    def start_durability_wait(self, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None) -> None:
        if self.woken_by_puts:
            self.signal.notify()

    def run_once(self) -> None:
        self.signal.wait(self.config.flush_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = self.config.flush_commit_log_least_pages
        if now_ns - self._thorough_ns >= self.config.flush_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        self.flush_to(self.queue.max_offset, least_pages)


class GroupCommitRequest:
    """A put that waits for a sync until a deadline. Invariant: `complete` runs once."""

    __slots__ = ("_clock", "_done", "_durable", "_gave_up", "_on_known", "due_ns", "end_offset")

    def __init__(
        self, world: World, end_offset: int, timeout_ms: int, on_known: Callable[[], None] | None = None
    ) -> None:
        """on_known: called by the task that calls `complete`. Without on_known, the caller must call `wait`."""
        self.end_offset = end_offset
        self._clock = world.clock
        self.due_ns = world.clock.monotonic_ns() + timeout_ms * NS_PER_MS
        self._done: Signal | None = None
        if on_known is None:
            self._done = world.tasks.signal("group commit done")
            on_known = self._done.notify
        self._on_known = on_known
        self._durable: bool | None = None
        """Whether the log is durable up to the end of the put; None if unknown. Set before `notify`."""
        self._gave_up = False

    def complete(self, durable: bool, unnotified: list[Signal] | None = None) -> None:
        """Set the result of the sync. No effect after the deadline.

        With the list `unnotified`, the signal of a waiting put is added to it; without a list, the signal is notified.
        """
        assert self._durable is None, "complete may run only once"
        self._durable = durable
        if unnotified is None or self._done is None:
            self._on_known()
        else:
            unnotified.append(self._done)
        if self._gave_up and durable:
            count_mark("sync after put timeout")

    def wait(self) -> PutMessageStatus:
        assert self._done is not None, "a request with on_known has no signal to wait for"
        if self._done.wait(ms_until(self.due_ns, self._clock)) and self._durable:
            return PUT_OK
        self._gave_up = True
        return PutMessageStatus.FLUSH_DISK_TIMEOUT

    def poll(self, now_ns: int) -> PutMessageStatus | None:
        """Return the status; None before the sync has ended and before the deadline."""
        if self._durable is not None and not self._gave_up:
            return PUT_OK if self._durable else PutMessageStatus.FLUSH_DISK_TIMEOUT
        if now_ns < self.due_ns:
            return None
        self._gave_up = True
        return PutMessageStatus.FLUSH_DISK_TIMEOUT


class GroupCommitService(FlushCommitLogService):
    """SYNC_FLUSH: all puts that arrive during one sync share the next sync."""

    name = "group-commit"

    def __init__(
        self, world: World, config: StoreConfig, queue: SegmentQueue, checkpoint: StoreCheckpoint, flags: RunningFlags
    ) -> None:
        super().__init__(world, config, queue, checkpoint, flags)
        self._lock = self.world.tasks.lock("group commit requests")
        self._requests: list[GroupCommitRequest] = []
        self._in_turn = world.tasks if isinstance(world.tasks, TasksInTurn) else None
        self._closed = False

    def start_durability_wait(
        self, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
    ) -> GroupCommitRequest | None:
        if not wait:
            self.signal.notify()
            return None
        request = GroupCommitRequest(self.world, end_offset, self.config.sync_flush_timeout_ms, on_known)
        self.submit(request)
        return request

    def submit(self, request: GroupCommitRequest) -> None:
        assert request.end_offset > 0, request.end_offset
        with self._lock:
            closed = self._closed
            if not closed:  # checked under the lock: no task would handle a request added later
                self._requests.append(request)
        if closed:
            request.complete(self.flush_to(request.end_offset))
        else:
            self.signal.notify()

    def run_once(self) -> None:
        # `wait` consumes the notification before the requests are taken. In the reverse order, a request that arrives
        # in between would wait until the next put.
        self.signal.wait(None)
        self.commit(self.take_requests())

    def take_requests(self) -> list[GroupCommitRequest]:
        with self._lock:
            taken, self._requests = self._requests, []
        return taken

    def commit(self, requests: list[GroupCommitRequest]) -> None:
        # If the simulation forces this branch, each request syncs the log itself.
        is_skipped = bool(requests) and is_forced("group commit again")
        if not is_skipped and not self.flush_to(self.queue.max_offset) and requests:
            count_mark("group commit failed")
        # The durable end is read after the flush. RocketMQ flushes at most twice and checks only before each flush, so
        # a put at the start of a segment, which needs both flushes, gets a timeout.
        durable_to = self.queue.flushed_where.get()
        in_turn = self._in_turn
        unnotified: list[Signal] | None = None if in_turn is None else []
        for request in requests:
            request.complete(durable_to >= request.end_offset or self._flush_for_request(request), unnotified)
        if in_turn is not None and unnotified:
            in_turn.notify_in_turn(unnotified)

    def _flush_for_request(self, request: GroupCommitRequest) -> bool:
        count_mark("group commit again")
        return self.flush_to(request.end_offset)

    def finish_remaining_work(self) -> None:
        """Complete pending requests. Each later put syncs the log itself."""
        with self._lock:
            self._closed = True
        self.commit(self.take_requests())

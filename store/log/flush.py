"""Flush services: move the log to the disk by group commit (SYNC_FLUSH) or timed flush (ASYNC_FLUSH).

A failed sync ends the store's willingness to write. Kernels report a lost page once and forget it, so a second sync
that succeeds proves nothing, and no put that waited is answered OK.
"""

from abc import abstractmethod
from collections.abc import Callable

from ..config import StoreConfig
from ..formats.messages import PutMessageStatus
from ..marks import forces, hit
from ..running_flags import Refusal, RunningFlags
from ..service import NS_PER_MS, Service, do_nothing, ms_until
from ..world import Signal, World
from .checkpoint import StoreCheckpoint
from .segment_queue import SegmentQueue


class FlushCommitLogService(Service):
    """What both ways of flushing share: one flush at a time, and what a failed one means."""

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        queue: SegmentQueue,
        checkpoint: StoreCheckpoint,
        flags: RunningFlags,
    ) -> None:
        super().__init__(world)
        self.config = config
        self.queue = queue
        self.checkpoint = checkpoint
        self.flags = flags
        self.on_flushed: Callable[[], None] = do_nothing
        """Called after the durable part of the log grew."""
        self._flush_lock = world.tasks.lock(f"{self.name} flush")
        self._sync_failed = False
        """Belongs to whoever holds the flush lock."""

    @abstractmethod
    def begin_durable(
        self, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
    ) -> "GroupCommitRequest | None":
        """Begin to make the log durable up to end_offset for a put; wait is its WAIT property.

        None: nothing was promised but the page cache. on_known: as `GroupCommitRequest` has it.
        """

    def wait_durable(self, end_offset: int, *, wait: bool) -> PutMessageStatus:
        """Answer a put whose records end at end_offset, when its answer is known; wait is its WAIT property."""
        request = self.begin_durable(end_offset, wait=wait)
        return PutMessageStatus.PUT_OK if request is None else request.wait()

    def flush_to(self, end_offset: int, least_pages: int = 0) -> bool:
        """Flush until the log is durable up to end_offset, or nothing moves; return whether it is.

        One call of the queue's flush covers one segment, and a record may sit in the next one.
        """
        if self.queue.flushed_where.get() >= end_offset:
            self._vouch_for_last()
            return True
        with self._flush_lock:
            # All segments, not the newest alone: the end of the one before may be unsynced after a rollover.
            while self.queue.flushed_where.get() < end_offset:
                if not self._flush_once(least_pages):
                    return False
        return True

    def _vouch_for_last(self) -> None:
        """Have the checkpoint know the time of the last record if that is durable.

        A flush that came between a record's bytes and its time has made it durable under the time before.
        """
        last = self.queue.last()
        if last is None:
            return
        stored_ms = last.readable_store_timestamp_ms  # first: what is put later is no matter
        is_news = stored_ms > self.checkpoint.physic_msg_timestamp_ms
        # Not `max_offset`: behind a segment whose buffer is not committed yet, one without a buffer has newer records.
        if is_news and self.queue.flushed_where.get() >= last.base_offset + last.readable.get():
            self.checkpoint.log_is_durable_to(stored_ms)

    def _flush_once(self, least_pages: int) -> bool:
        if self._sync_failed:
            return False
        try:
            moved = self.queue.flush(least_pages)
        except OSError:
            # Linux reports a write-back error once and marks the pages clean (errseq_t), so a second sync writes none.
            self._sync_failed = True
            self.flags.refuse_for_good(Refusal.NOT_WRITEABLE)
            return False
        if moved:  # after the sync: recovery trusts the log up to the checkpoint
            self.checkpoint.log_is_durable_to(self.queue.flushed_store_timestamp_ms)
            self.on_flushed()
        return moved

    def finish(self) -> None:
        """Flush everything."""
        self.flush_to(self.queue.max_offset)


class FlushRealTimeService(FlushCommitLogService):
    """ASYNC_FLUSH: flush what has gathered every so often, everything less often."""

    name = "flush-real-time"
    woken_by_puts = False
    """Whether each put has it look for full pages; in RocketMQ's timed mode, and behind a pool, it does not."""
    _thorough_ns = 0
    """When everything was flushed last."""

    def start(self) -> None:
        """Begin to flush; the first thorough flush is one interval away."""
        config = self.config
        self.woken_by_puts = not (config.flush_commit_log_timed or config.is_transient_store_pool_effective)
        self._thorough_ns = self.world.clock.monotonic_ns()
        super().start()

    def begin_durable(self, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None) -> None:
        """Promise nothing but the page cache."""
        if self.woken_by_puts:
            self.signal.notify()

    def step(self) -> None:
        """Flush once per interval, or when woken."""
        self.signal.wait(self.config.flush_interval_commit_log_ms)
        now_ns = self.world.clock.monotonic_ns()
        least_pages = self.config.flush_commit_log_least_pages
        if now_ns - self._thorough_ns >= self.config.flush_commit_log_thorough_interval_ms * 1_000_000:
            self._thorough_ns = now_ns
            least_pages = 0
        self.flush_to(self.queue.max_offset, least_pages)


class GroupCommitRequest:
    """A put that waits for the disk, or for its deadline. Invariant: it is answered once."""

    __slots__ = ("_clock", "_done", "_durable", "_gave_up", "_on_known", "due_ns", "end_offset")

    def __init__(
        self, world: World, end_offset: int, timeout_ms: int, on_known: Callable[[], None] | None = None
    ) -> None:
        """on_known: called when it is answered, by whoever does; None: some task will `wait`."""
        self.end_offset = end_offset
        self._clock = world.clock
        self.due_ns = world.clock.monotonic_ns() + timeout_ms * NS_PER_MS
        self._done: Signal | None = None
        if on_known is None:
            self._done = world.tasks.signal("group commit done")
            on_known = self._done.notify
        self._on_known = on_known
        self._durable: bool | None = None
        """The answer: set before anybody is notified, read behind that."""
        self._gave_up = False

    def complete(self, durable: bool) -> None:
        """Answer. Nobody listens any more to what comes after the deadline."""
        assert self._durable is None, "a put is answered once"
        self._durable = durable
        self._on_known()
        if self._gave_up and durable:
            hit("late sync")

    def wait(self) -> PutMessageStatus:
        """Wait for the answer; when the time that began with the request is over, it is FLUSH_DISK_TIMEOUT."""
        assert self._done is not None, "somebody else is notified"
        if self._done.wait(ms_until(self.due_ns, self._clock)) and self._durable:
            return PutMessageStatus.PUT_OK
        self._gave_up = True
        return PutMessageStatus.FLUSH_DISK_TIMEOUT

    def look(self, now_ns: int) -> PutMessageStatus | None:
        """Return the answer without waiting, None if it is not known yet; when its time is over, it is."""
        if self._durable is not None and not self._gave_up:
            return PutMessageStatus.PUT_OK if self._durable else PutMessageStatus.FLUSH_DISK_TIMEOUT
        if now_ns < self.due_ns:
            return None
        self._gave_up = True
        return PutMessageStatus.FLUSH_DISK_TIMEOUT


class GroupCommitService(FlushCommitLogService):
    """SYNC_FLUSH: puts that arrive while a sync runs share the next one."""

    name = "group-commit"

    def __init__(
        self,
        world: World,
        config: StoreConfig,
        queue: SegmentQueue,
        checkpoint: StoreCheckpoint,
        flags: RunningFlags,
    ) -> None:
        super().__init__(world, config, queue, checkpoint, flags)
        self._lock = self.world.tasks.lock("group commit requests")
        self._requests: list[GroupCommitRequest] = []
        self._closed = False

    def begin_durable(
        self, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
    ) -> GroupCommitRequest | None:
        """Have the log made durable up to end_offset by the next sync; the request has the answer in time."""
        if not wait:
            self.signal.notify()
            return None
        request = GroupCommitRequest(self.world, end_offset, self.config.sync_flush_timeout_ms, on_known)
        self.submit(request)
        return request

    def submit(self, request: GroupCommitRequest) -> None:
        """Queue a request for the next sync."""
        assert request.end_offset > 0, request.end_offset
        with self._lock:
            closed = self._closed
            if not closed:  # read `_requests` under the lock: a list that was swapped out is never read again
                self._requests.append(request)
        if closed:
            request.complete(self.flush_to(request.end_offset))
        else:
            self.signal.notify()

    def step(self) -> None:
        """Wait for a put, then commit all that came."""
        # `wait` uses up the notice before the requests are taken. In the other order a request that comes in between
        # would wait for the notice of the next put.
        self.signal.wait(None)
        self.commit(self.take_requests())

    def take_requests(self) -> list[GroupCommitRequest]:
        """Take every request that waits, leaving an empty list."""
        with self._lock:
            taken, self._requests = self._requests, []
        return taken

    def commit(self, requests: list[GroupCommitRequest]) -> None:
        """Sync for all requests, then answer each by what is durable now."""
        # A forced branch leaves out the common sync, so that each request below has one of its own.
        is_left_out = bool(requests) and forces("group commit again")
        if not is_left_out and not self.flush_to(self.queue.max_offset) and requests:
            hit("failed group")
        # Read after the flush. RocketMQ looks before each of two rounds, and never after the last: a record that needs
        # both, at the beginning of a segment, is answered with a time-out.
        durable_to = self.queue.flushed_where.get()
        for request in requests:
            request.complete(durable_to >= request.end_offset or self._flush_again(request))

    def _flush_again(self, request: GroupCommitRequest) -> bool:
        hit("group commit again")
        return self.flush_to(request.end_offset)

    def finish(self) -> None:
        """Answer those that wait; whoever comes later syncs for itself."""
        with self._lock:
            self._closed = True
        self.commit(self.take_requests())

"""Bugs of timers, timeouts, and clocks that were set back."""

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

from ....store.delivery.schedule import ScheduleMessageService
from ....store.formats.consume_queue import QueueEntry
from ....store.formats.messages import AppendMessageResult, PutMessageStatus
from ....store.log.commit_log import CommitLog
from ....store.log.flush import FlushRealTimeService, GroupCommitRequest, GroupCommitService
from ....store.log.group_transfer import GroupTransfer, GroupTransferRequest
from ....store.log.log_time import LogTime
from ....store.log.put_encoder import EncodedPut
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.replication.ha_client import RECONNECT_MS, HAClient
from ....store.retention.cleaning import RetentionService
from ....store.service import NS_PER_MS
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.services.transaction_check import TransactionalMessageCheckService
from ....store.world import World
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.clusters import TROUBLED
from ...claims.catalogue.disturbances import LAST_STEPS
from ..mutant import bit, bug, needs

_TIMES = 10
"""Factor by which mutants lengthen an interval."""


@bug("queue-flush-ten-times-too-slow", FlushConsumeQueueService, "run_once", found_by=("QUIET",))
@needs(heals=(True,), flush={"thorough_interval_ms": (2000,)})
def step_ten_intervals(self: FlushConsumeQueueService) -> None:
    """The store flushes queues and checkpoint only every ten intervals."""
    config, since_ns = self._config, self._thorough_ns
    longer_ms = config.flush_consume_queue_thorough_interval_ms * _TIMES
    self._config = replace(config, flush_consume_queue_thorough_interval_ms=longer_ms)
    try:
        step_ten_intervals.original(self)
    finally:
        self._config = config
    waited_ms = (self.world.clock.monotonic_ns() - since_ns) // 1_000_000
    bit(self._thorough_ns == since_ns and waited_ms >= config.flush_consume_queue_thorough_interval_ms)


@bug("offsets-persisted-ten-times-too-seldom", ConsumerOffsetManager, "run_once", found_by=("REDEL", "QUIET"))
@needs(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    messages_each=(8,),
    endings=("crash at rest",),
)
def persist_ten_times_later(self: ConsumerOffsetManager) -> None:
    """The broker persists consumer offsets only every ten intervals."""
    if not self.signal.wait(self.flush_interval_ms):
        bit()
        self.signal.wait(self.flush_interval_ms * (_TIMES - 1))
    if not self.is_stopping:
        self._try_to_persist()


@bug("slave-reconnects-ten-times-too-late", HAClient, "run_once", found_by=("QUIET", "REP"))
@needs(cluster={"slaves": (1,)}, heals=(True,), lives=(2,), endings=("crash in traffic",))
def step_and_rest(self: HAClient) -> None:
    """A slave waits ten times too long before it reconnects to its master."""
    step_and_rest.original(self)
    if bit(not self.is_stopping and self.diverged is None):
        self.signal.wait(RECONNECT_MS * (_TIMES - 1))


@bug("retention-ten-times-too-slow", RetentionService, "run_clean_pass", found_by=("CLEAN",))
@needs(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (700,), "property_bytes_max": (0,)},
    messages_each=(16, 24),
)
def clean_and_rest(self: RetentionService) -> None:
    """Retention removes expired files only every ten intervals."""
    clean_and_rest.original(self)
    self._clean_ns = self.world.clock.monotonic_ns() + self._interval_ns * _TIMES
    bit()


@bug("delay-waits-for-last-level", ScheduleMessageService, "deliver_due", found_by=("SCHED",))
@needs(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)})
def deliver_and_wait_for_last(self: ScheduleMessageService) -> int | None:
    """A delayed message waits for a later message of another level."""
    waits_ms = [wait_ms for level in self._delays_ms if (wait_ms := self._deliver_level(level)) is not None]
    bit(len(set(waits_ms)) > 1)
    return max(waits_ms, default=None)


@bug("transaction-check-ten-times-too-slow", TransactionalMessageCheckService, "run_once", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(5,))
def step_ten_times_later(self: TransactionalMessageCheckService) -> None:
    """The broker checks transactions only every ten intervals."""
    if not self.signal.wait(self.config.transaction_check_interval_ms):
        bit()
        self.signal.wait(self.config.transaction_check_interval_ms * (_TIMES - 1))
    if not self.is_stopping:
        self.check_half_messages()


@bug("transaction-check-ten-times-too-often", TransactionalMessageCheckService, "run_once", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(5,))
def step_ten_times_in_an_interval(self: TransactionalMessageCheckService) -> None:
    """The broker checks transactions ten times in each interval."""
    self.signal.wait(self.config.transaction_check_interval_ms // _TIMES)
    if not self.is_stopping:
        bit()
        self.check_half_messages()


@bug("waiting-level-blocks-higher", ScheduleMessageService, "deliver_due", found_by=("SCHED", "QUIET"))
@needs(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)})
def deliver_up_to_a_wait(self: ScheduleMessageService) -> int | None:
    """While one delay level waits, the broker delivers no message of a higher level."""
    for number, level in enumerate(self._delays_ms):
        wait_ms = self._deliver_level(level)
        if wait_ms is not None:
            bit(number + 1 < len(self._delays_ms))
            return wait_ms
    return None


@bug("thorough-flush-ten-times-late", FlushRealTimeService, "run_once", found_by=("QUIET",))
@needs(sync_flush=(False,), heals=(True,))
def flush_step_ten_intervals(self: FlushRealTimeService) -> None:
    """Under async flush, a thorough flush occurs only every ten intervals."""
    config, since_ns = self.config, self._thorough_ns
    self.config = replace(
        config, flush_commit_log_thorough_interval_ms=config.flush_commit_log_thorough_interval_ms * _TIMES
    )
    try:
        flush_step_ten_intervals.original(self)
    finally:
        self.config = config
    waited_ms = (self.world.clock.monotonic_ns() - since_ns) // 1_000_000
    bit(self._thorough_ns == since_ns and waited_ms >= config.flush_commit_log_thorough_interval_ms)


@bug("sync-timeout-in-seconds", GroupCommitRequest, "__init__", found_by=("LIVE", "STATUS", "QUIET"))
@needs(sync_flush=(True,), faults={"slow_sync_chance": (0.4,)}, flush={"sync_timeout_ms": (20,)})
def init_in_seconds(
    self: GroupCommitRequest, world: World, end_offset: int, timeout_ms: int, on_known: Callable[[], None] | None = None
) -> None:
    """A put waits a thousand times longer for its flush than configured."""
    init_in_seconds.original(self, world, end_offset, timeout_ms * 1_000, on_known)


@init_in_seconds.also(GroupCommitRequest, "wait")
def _wait_in_seconds(self: GroupCommitRequest) -> PutMessageStatus:
    began_ns = self._clock.monotonic_ns()
    status = _wait_in_seconds.original(self)
    ended_ns = self._clock.monotonic_ns()
    bit((ended_ns - began_ns) * 1_000 > self.due_ns - began_ns)
    return status


# Like RocketMQ, the mutant reads the store time from the wall clock. Recovery starts at the newest segment that begins
# before the checkpoint's time.
@bug("store-time-falls-with-the-clock", CommitLog, "append", found_by=("PREFIX", "CQ-COMPLETE", "CKPT", "DUR", "LIVE"))
@needs(
    recover_whole_log=(False,),
    disturbances={"clock_step_chance": (0.5,)},
    commit_log_bytes=(2048,),
    messages_each=(16,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
    lives=(1, 2),
)
def append_at_wall_time(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    """After the clock was set back, new records have earlier store times, so recovery starts too late in the log."""
    with self._put_lock:
        if self._closed:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        now_ms = self._world.clock.now_ms()
        self.begin_time_in_lock_ms = now_ms
        bit(now_ms < self.last_store_timestamp_ms)
        self.last_store_timestamp_ms = min(self.last_store_timestamp_ms, now_ms)
        try:
            return self._append_locked(encoded, now_ms)
        finally:
            self.begin_time_in_lock_ms = 0


# If bit rot put a far future time into a record, the wall clock never reaches this time.
@bug("log-time-stands-still", LogTime, "_lower_bound_ms", found_by=("QUIET", "SCHED"))
@needs(disturbances={"clock_step_chance": (0.5,)}, delay={"chance": (0.5,)}, heals=(True,), lives=(1, 2))
def least_ms_of_the_newest(self: LogTime, now_ns: int) -> int:
    """While the newest record's time is in the future, the store time stands still, and delayed messages wait."""
    since_ms, _ = self._since
    bit(since_ms > self._clock.now_ms() and least_ms_of_the_newest.original(self, now_ns) > since_ms)
    return since_ms


_asked = WeakKeyDictionary[GroupCommitService, list[GroupCommitRequest]]()


# Semi-synchronous replication of databases degrades likewise, but with a report.
@bug("sync-timeout-degrades", GroupCommitService, "start_durability_wait", found_by=("STATUS", "DUR"))
@needs(sync_flush=(True,), faults={"slow_sync_chance": (0.4,)}, flush={"sync_timeout_ms": (200,)}, producers=(2, 3))
def begin_durable_but_once(
    self: GroupCommitService, end_offset: int, *, wait: bool, on_known: Callable[[], None] | None = None
) -> GroupCommitRequest | None:
    """After one sync timeout, the store acknowledges puts without a sync until the disk has caught up."""
    durable_to = self.queue.flushed_where.get()
    asked = _asked[self] = [each for each in _asked.get(self, ()) if each.end_offset > durable_to]
    if bit(any(each._gave_up for each in asked)):
        self.signal.notify()
        return None
    request = begin_durable_but_once.original(self, end_offset, wait=wait, on_known=on_known)
    if request is not None:
        asked.append(request)
    return request


_without_slave_to = WeakKeyDictionary[GroupTransfer, int]()


@bug("slave-timeout-degrades", GroupTransfer, "submit", found_by=("REP", "STATUS"))
@needs(TROUBLED, cluster={"sync_master": (True,), "gathers": (True,), "slave_timeout_ms": (200,)})
def submit_without_slave(
    self: GroupTransfer, start_offset: int, end_offset: int, on_known: Callable[[], None] | None = None
) -> GroupTransferRequest:
    """After one replication timeout, the master acknowledges puts without a slave until a slave has caught up."""
    behind = _without_slave_to.get(self, 0)
    request = submit_without_slave.original(self, start_offset, end_offset, on_known)
    if behind and not any(replica.has_range(behind - 1, behind) for replica in self.replicas):
        with self._lock:
            waits = request in self._requests
            self._requests = [each for each in self._requests if each is not request]
        if bit(waits):
            request.complete(PutMessageStatus.PUT_OK)
    return request


@submit_without_slave.also(GroupTransfer, "forget_request")
def _forget_but_once(self: GroupTransfer, request: GroupTransferRequest) -> None:
    _forget_but_once.original(self, request)
    _without_slave_to[self] = request.end_offset


# apache/rocketmq issue 577. Each pass but the thorough one flushes whole pages only.
@bug("thorough-flush-postponed", FlushRealTimeService, "run_once", found_by=("QUIET",))
@needs(sync_flush=(False,), heals=(True,))
def flush_and_postpone(self: FlushRealTimeService) -> None:
    """Under async flush, each pass postpones the thorough flush, so the last messages are never flushed."""
    since_ns = self._thorough_ns
    flush_and_postpone.original(self)
    if self._thorough_ns == since_ns:
        self._thorough_ns = self.world.clock.monotonic_ns()
        bit(self.queue.flushed_where.get() < self.queue.max_offset)


# apache/rocketmq issue 2620. Log time does not go back with the wall clock.
@bug("delivery-by-wall-clock", ScheduleMessageService, "_deliver_entry", found_by=("SCHED",))
@needs(SCENARIOS["pauses-and-clock-steps"].ranges, delay={"chance": (0.8,)})
def deliver_by_wall_clock(self: ScheduleMessageService, level: int, entry: QueueEntry) -> int:
    """A delayed message is delivered too early after the wall clock was set back."""
    wall_ms, log_ms, due_ms = self.world.clock.now_ms(), self._commit_log.time.now_ms(), entry.tags_code
    if due_ms >= 0:  # else it is an address in the extension
        delay_ms = self._delays_ms[level]
        bit((wall_ms < due_ms <= wall_ms + delay_ms) != (log_ms < due_ms <= log_ms + delay_ms))
        entry = entry._replace(tags_code=max(due_ms + log_ms - wall_ms, 0))
    return deliver_by_wall_clock.original(self, level, entry)


# RocketMQ's FlushRealTimeService compares System.currentTimeMillis(); apache/accumulo#4245.
@bug("thorough-flush-follows-wall-clock", FlushRealTimeService, "run_once", found_by=("QUIET",))
@needs(SCENARIOS["pauses-and-clock-steps"].ranges, **LAST_STEPS, heals=(True,))
def flush_by_wall_clock(self: FlushRealTimeService) -> None:
    """The interval between two flushes of all bytes is measured with the wall clock, which can step back."""
    clock, config = self.world.clock, self.config
    self.signal.wait(config.flush_interval_commit_log_ms)
    interval_ms, now_ms, now_ns = config.flush_commit_log_thorough_interval_ms, clock.now_ms(), clock.monotonic_ns()
    is_due = now_ms >= vars(self).get("thorough_ms", 0) + interval_ms
    bit(not is_due and now_ns - self._thorough_ns >= 2 * interval_ms * NS_PER_MS)
    if is_due:
        vars(self)["thorough_ms"], self._thorough_ns = now_ms, now_ns
    self.flush_to(self.queue.max_offset, 0 if is_due else config.flush_commit_log_least_pages)

"""Bugs of timers: what has to happen in time happens, but later than settings say."""

from collections.abc import Callable
from dataclasses import replace

from ....store.delivery.schedule import ScheduleMessageService
from ....store.formats.messages import PutMessageStatus
from ....store.log.flush import FlushRealTimeService, GroupCommitRequest
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.replication.ha_client import RECONNECT_MS, HAClient
from ....store.retention.cleaning import RetentionService
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.services.transaction_check import TransactionalMessageCheckService
from ....store.world import World
from ..mutant import bit, bug, needs

_TIMES = 10
"""How much too slow a timer is whose unit was mistaken for another: tenths for whole ones."""


# Queues and checkpoint are made durable, but ten intervals later.
@bug("queue-flush-ten-times-too-slow", FlushConsumeQueueService, "step", found_by=("QUIET",))
@needs(heals=(True,), flush={"thorough_interval_ms": (2000,)})
def step_ten_intervals(self: FlushConsumeQueueService) -> None:
    """Queues and checkpoint become durable long after settings say."""
    config, since_ns = self._config, self._thorough_ns
    longer_ms = config.flush_consume_queue_thorough_interval_ms * _TIMES
    self._config = replace(config, flush_consume_queue_thorough_interval_ms=longer_ms)
    try:
        step_ten_intervals.original(self)
    finally:
        self._config = config
    waited_ms = (self.world.clock.monotonic_ns() - since_ns) // 1_000_000
    bit(self._thorough_ns == since_ns and waited_ms >= config.flush_consume_queue_thorough_interval_ms)


# What consumers have committed is persisted, but ten intervals later.
@bug("offsets-persisted-ten-times-too-seldom", ConsumerOffsetManager, "step", found_by=("REDEL", "QUIET"))
@needs(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    messages_each=(8,),
    endings=("crash at rest",),
)
def persist_ten_times_later(self: ConsumerOffsetManager) -> None:
    """A crash takes ten intervals of what consumers have committed."""
    if not self.signal.wait(self.flush_interval_ms):
        bit()
        self.signal.wait(self.flush_interval_ms * (_TIMES - 1))
    if not self.is_stopping:
        self._try_to_persist()


# A slave rests again after it has rested.
@bug("slave-reconnects-ten-times-too-late", HAClient, "step", found_by=("QUIET",))
@needs(cluster={"slaves": (1,)}, heals=(True,), lives=(2,), endings=("crash in traffic",))
def step_and_rest(self: HAClient) -> None:
    """A slave that has lost its master looks for it again after most of a minute."""
    step_and_rest.original(self)
    if bit(not self.is_stopping and self.diverged is None):
        self.signal.wait(RECONNECT_MS * (_TIMES - 1))


# The next pass of retention is ten intervals away.
@bug("retention-ten-times-too-slow", RetentionService, "clean", found_by=("CLEAN",))
@needs(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (700,), "property_bytes_max": (0,)},
    messages_each=(16, 24),
)
def clean_and_rest(self: RetentionService) -> None:
    """What has expired stays for many intervals of retention."""
    clean_and_rest.original(self)
    self._clean_ns = self.world.clock.monotonic_ns() + self._interval_ns * _TIMES
    bit()


# The task of delayed delivery sleeps until the last of its levels is due.
@bug("delay-waits-for-last-level", ScheduleMessageService, "deliver_due", found_by=("SCHED",))
@needs(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)})
def deliver_and_wait_for_last(self: ScheduleMessageService) -> int | None:
    """A delayed message waits for one of another level that is due later."""
    waits_ms = [wait_ms for level in self._delays_ms if (wait_ms := self._deliver_level(level)) is not None]
    bit(len(set(waits_ms)) > 1)
    return max(waits_ms, default=None)


# transaction-check-in-tenths: the interval between two passes of the check is ten times what settings say.
@bug("transaction-check-ten-times-too-slow", TransactionalMessageCheckService, "step", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(5,))
def step_ten_times_later(self: TransactionalMessageCheckService) -> None:
    """Producers are asked about their transactions, but long after settings say."""
    if not self.signal.wait(self.config.transaction_check_interval_ms):
        bit()
        self.signal.wait(self.config.transaction_check_interval_ms * (_TIMES - 1))
    if not self.is_stopping:
        self.check()


# The levels are gone through in order, and the first that has to wait ends that.
@bug("levels-behind-one-that-waits", ScheduleMessageService, "deliver_due", found_by=("SCHED", "QUIET"))
@needs(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)})
def deliver_up_to_a_wait(self: ScheduleMessageService) -> int | None:
    """Delayed messages of other levels are late while one of a lower level waits."""
    for number, level in enumerate(self._delays_ms):
        wait_ms = self._deliver_level(level)
        if wait_ms is not None:
            bit(number + 1 < len(self._delays_ms))
            return wait_ms
    return None


# All that has gathered is flushed, but ten intervals later.
@bug("thorough-flush-ten-times-late", FlushRealTimeService, "step", found_by=("QUIET",))
@needs(sync_flush=(False,), heals=(True,))
def flush_step_ten_intervals(self: FlushRealTimeService) -> None:
    """Under async flush, what has gathered becomes durable long after settings say."""
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


# How long a put waits for its flush is taken for seconds.
@bug("sync-timeout-in-seconds", GroupCommitRequest, "__init__", found_by=("LIVE", "STATUS", "QUIET"))
@needs(sync_flush=(True,), faults={"slow_sync_chance": (0.4,)}, flush={"sync_timeout_ms": (20,)})
def init_in_seconds(
    self: GroupCommitRequest,
    world: World,
    end_offset: int,
    timeout_ms: int,
    on_known: Callable[[], None] | None = None,
) -> None:
    """A put waits a thousand times longer for its flush than settings say."""
    init_in_seconds.original(self, world, end_offset, timeout_ms * 1_000, on_known)


@init_in_seconds.also(GroupCommitRequest, "wait")
def _wait_in_seconds(self: GroupCommitRequest) -> PutMessageStatus:
    began_ns = self._clock.monotonic_ns()
    status = _wait_in_seconds.original(self)
    ended_ns = self._clock.monotonic_ns()
    bit((ended_ns - began_ns) * 1_000 > self.due_ns - began_ns)
    return status

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
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

_TIMES = 10
"""How much too slow a timer is whose unit was mistaken for another: tenths for whole ones."""


# queue-flush-ten-times-too-slow: queues and checkpoint are made durable, but ten intervals later.
_original_queue_step = FlushConsumeQueueService.step


def _step_ten_intervals(self: FlushConsumeQueueService) -> None:
    config, since_ns = self._config, self._thorough_ns
    longer_ms = config.flush_consume_queue_thorough_interval_ms * _TIMES
    self._config = replace(config, flush_consume_queue_thorough_interval_ms=longer_ms)
    try:
        _original_queue_step(self)
    finally:
        self._config = config
    waited_ms = (self.world.clock.monotonic_ns() - since_ns) // 1_000_000
    bit(self._thorough_ns == since_ns and waited_ms >= config.flush_consume_queue_thorough_interval_ms)


QUEUE_FLUSH_TEN_TIMES_TOO_SLOW = Mutant(
    "queue-flush-ten-times-too-slow",
    "queues and checkpoint become durable long after settings say",
    (Patch(FlushConsumeQueueService, "step", _step_ten_intervals),),
    ("QUIET",),
    Ranges(heals=(True,), flush={"thorough_interval_ms": (2000,)}),
)


# offsets-persisted-ten-times-too-seldom: what consumers have committed is persisted, but ten intervals later.
def _persist_ten_times_later(self: ConsumerOffsetManager) -> None:
    if not self.signal.wait(self.flush_interval_ms):
        bit()
        self.signal.wait(self.flush_interval_ms * (_TIMES - 1))
    if not self.is_stopping:
        self._try_to_persist()


OFFSETS_PERSISTED_TEN_TIMES_TOO_SELDOM = Mutant(
    "offsets-persisted-ten-times-too-seldom",
    "a crash takes ten intervals of what consumers have committed",
    (Patch(ConsumerOffsetManager, "step", _persist_ten_times_later),),
    ("REDEL", "QUIET"),
    Ranges(
        consuming={"commits_offsets": (True,)},
        consumers=(2,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        messages_each=(8,),
        endings=("crash at rest",),
    ),
)


# slave-reconnects-ten-times-too-late: a slave rests again after it has rested.
_original_client_step = HAClient.step


def _step_and_rest(self: HAClient) -> None:
    _original_client_step(self)
    if bit(not self.is_stopping and self.diverged is None):
        self.signal.wait(RECONNECT_MS * (_TIMES - 1))


SLAVE_RECONNECTS_TEN_TIMES_TOO_LATE = Mutant(
    "slave-reconnects-ten-times-too-late",
    "a slave that has lost its master looks for it again after most of a minute",
    (Patch(HAClient, "step", _step_and_rest),),
    ("QUIET",),
    Ranges(cluster={"slaves": (1,)}, heals=(True,), lives=(2,), endings=("crash in traffic",)),
)


# retention-ten-times-too-slow: the next pass of retention is ten intervals away.
_original_retention_clean = RetentionService.clean


def _clean_and_rest(self: RetentionService) -> None:
    _original_retention_clean(self)
    self._clean_ns = self.world.clock.monotonic_ns() + self._interval_ns * _TIMES
    bit()


RETENTION_TEN_TIMES_TOO_SLOW = Mutant(
    "retention-ten-times-too-slow",
    "what has expired stays for many intervals of retention",
    (Patch(RetentionService, "clean", _clean_and_rest),),
    ("CLEAN",),
    Ranges(
        retention={"deletes_segments": (True,)},
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (700,), "property_bytes_max": (0,)},
        messages_each=(16, 24),
    ),
)


# delay-waits-for-last-level: the task of delayed delivery sleeps until the last of its levels is due.
def _deliver_and_wait_for_last(self: ScheduleMessageService) -> int | None:
    waits_ms = [wait_ms for level in self._delays_ms if (wait_ms := self._deliver_level(level)) is not None]
    bit(len(set(waits_ms)) > 1)
    return max(waits_ms, default=None)


DELAY_WAITS_FOR_LAST_LEVEL = Mutant(
    "delay-waits-for-last-level",
    "a delayed message waits for one of another level that is due later",
    (Patch(ScheduleMessageService, "deliver_due", _deliver_and_wait_for_last),),
    ("SCHED",),
    Ranges(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)}),
)


# transaction-check-in-tenths: the interval between two passes of the check is ten times what settings say.
def _step_ten_times_later(self: TransactionalMessageCheckService) -> None:
    if not self.signal.wait(self.config.transaction_check_interval_ms):
        bit()
        self.signal.wait(self.config.transaction_check_interval_ms * (_TIMES - 1))
    if not self.is_stopping:
        self.check()


TRANSACTION_CHECK_TEN_TIMES_TOO_SLOW = Mutant(
    "transaction-check-ten-times-too-slow",
    "producers are asked about their transactions, but long after settings say",
    (Patch(TransactionalMessageCheckService, "step", _step_ten_times_later),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, messages_each=(5,)),
)


# levels-behind-one-that-waits: the levels are gone through in order, and the first that has to wait ends that.
def _deliver_up_to_a_wait(self: ScheduleMessageService) -> int | None:
    for number, level in enumerate(self._delays_ms):
        wait_ms = self._deliver_level(level)
        if wait_ms is not None:
            bit(number + 1 < len(self._delays_ms))
            return wait_ms
    return None


LEVELS_BEHIND_ONE_THAT_WAITS = Mutant(
    "levels-behind-one-that-waits",
    "delayed messages of other levels are late while one of a lower level waits",
    (Patch(ScheduleMessageService, "deliver_due", _deliver_up_to_a_wait),),
    ("SCHED", "QUIET"),
    Ranges(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)}),
)


# thorough-flush-ten-times-late: all that has gathered is flushed, but ten intervals later.
_original_flush_step = FlushRealTimeService.step


def _flush_step_ten_intervals(self: FlushRealTimeService) -> None:
    config, since_ns = self.config, self._thorough_ns
    self.config = replace(
        config, flush_commit_log_thorough_interval_ms=config.flush_commit_log_thorough_interval_ms * _TIMES
    )
    try:
        _original_flush_step(self)
    finally:
        self.config = config
    waited_ms = (self.world.clock.monotonic_ns() - since_ns) // 1_000_000
    bit(self._thorough_ns == since_ns and waited_ms >= config.flush_commit_log_thorough_interval_ms)


THOROUGH_FLUSH_TEN_TIMES_LATE = Mutant(
    "thorough-flush-ten-times-late",
    "under async flush, what has gathered becomes durable long after settings say",
    (Patch(FlushRealTimeService, "step", _flush_step_ten_intervals),),
    ("QUIET",),
    Ranges(sync_flush=(False,), heals=(True,)),
)


# sync-timeout-in-seconds: how long a put waits for its flush is taken for seconds.
_original_init = GroupCommitRequest.__init__
_original_wait = GroupCommitRequest.wait


def _init_in_seconds(
    self: GroupCommitRequest,
    world: World,
    end_offset: int,
    timeout_ms: int,
    on_known: Callable[[], None] | None = None,
) -> None:
    _original_init(self, world, end_offset, timeout_ms * 1_000, on_known)


def _wait_in_seconds(self: GroupCommitRequest) -> PutMessageStatus:
    began_ns = self._clock.monotonic_ns()
    status = _original_wait(self)
    ended_ns = self._clock.monotonic_ns()
    bit((ended_ns - began_ns) * 1_000 > self.due_ns - began_ns)
    return status


SYNC_TIMEOUT_IN_SECONDS = Mutant(
    "sync-timeout-in-seconds",
    "a put waits a thousand times longer for its flush than settings say",
    (Patch(GroupCommitRequest, "__init__", _init_in_seconds), Patch(GroupCommitRequest, "wait", _wait_in_seconds)),
    ("LIVE", "STATUS", "QUIET"),
    Ranges(sync_flush=(True,), faults={"slow_sync_chance": (0.4,)}, flush={"sync_timeout_ms": (20,)}),
)

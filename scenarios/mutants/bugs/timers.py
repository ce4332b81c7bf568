"""Bugs of timers: what has to happen in time happens, but later than settings say."""

from dataclasses import replace

from ....store.delivery.schedule import ScheduleMessageService
from ....store.delivery.transaction_check import TransactionalMessageCheckService
from ....store.queues.consumer_offsets import ConsumerOffsetManager
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.replication.ha_client import RECONNECT_MS, HAClient
from ....store.retention.cleaning import RetentionService
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch

_TIMES = 10
"""How much too slow a timer is whose unit was mistaken for another: tenths for whole ones."""


# queue-flush-ten-times-too-slow: queues and checkpoint are made durable, but ten intervals later.
_original_queue_step = FlushConsumeQueueService.step


def _step_ten_intervals(self: FlushConsumeQueueService) -> None:
    config = self._config
    longer_ms = config.flush_consume_queue_thorough_interval_ms * _TIMES
    self._config = replace(config, flush_consume_queue_thorough_interval_ms=longer_ms)
    try:
        _original_queue_step(self)
    finally:
        self._config = config


QUEUE_FLUSH_TEN_TIMES_TOO_SLOW = Mutant(
    "queue-flush-ten-times-too-slow",
    "queues and checkpoint become durable long after settings say",
    (Patch(FlushConsumeQueueService, "step", _step_ten_intervals),),
    ("QUIET",),
    Ranges(heals=(True,), flush={"thorough_interval_ms": (2000,)}),
)


# offsets-persisted-ten-times-too-seldom: what consumers have committed is persisted, but ten intervals later.
def _persist_ten_times_later(self: ConsumerOffsetManager) -> None:
    self.signal.wait(self._flush_interval_ms * _TIMES)
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
    if not self.is_stopping and self.diverged is None:
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
    waits_ms = [self._deliver_level(level) for level in self._delays_ms]
    return max((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)


DELAY_WAITS_FOR_LAST_LEVEL = Mutant(
    "delay-waits-for-last-level",
    "a delayed message waits for one of another level that is due later",
    (Patch(ScheduleMessageService, "deliver_due", _deliver_and_wait_for_last),),
    ("SCHED",),
    Ranges(delay={"chance": (0.8,)}, messages_each=(16,), pauses={"chance": (0.5,), "ms_max": (300,)}),
)


# transaction-check-in-tenths: the interval between two passes of the check is ten times what settings say.
def _step_ten_times_later(self: TransactionalMessageCheckService) -> None:
    self.signal.wait(self.config.transaction_check_interval_ms * _TIMES)
    if not self.is_stopping:
        self.check()


TRANSACTION_CHECK_TEN_TIMES_TOO_SLOW = Mutant(
    "transaction-check-ten-times-too-slow",
    "producers are asked about their transactions, but long after settings say",
    (Patch(TransactionalMessageCheckService, "step", _step_ten_times_later),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, messages_each=(5,)),
)

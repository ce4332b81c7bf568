"""Bugs of cursors: those that stop short of their end or begin too early, so that a later life does work again."""

from collections.abc import Callable, Mapping

from ....store.broker.versioned_table import DataVersion, Entry, VersionedTable
from ....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.recovery.index_recovery import IndexRecovery
from ....store.recovery.recovery import Recovery
from ....store.services.transaction_queues import OpQueue
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# op-progress-stays: ops are kept although all half messages they decided are settled. Each life of the broker reads
# them again from the first on.
def _keep_all_ops(self: OpQueue, is_settled: Callable[[int], bool]) -> None:
    """Forget nothing."""
    bit(any(all(map(is_settled, halves)) for halves in self._ops.values()))


OP_PROGRESS_STAYS = Mutant(
    "op-progress-stays",
    "progress in the op queue never moves, and every start reads all decisions that were ever made",
    (Patch(OpQueue, "forget", _keep_all_ops),),
    ("QUIET",),
    Ranges(transactions={"chance": (0.5,)}, messages_each=(5,), heals=(True,)),
)


# checkpoint-in-memory: the thorough flush of queues notes what is durable, and writes the checkpoint only if a full
# index file has something new to say.
def _flush_without_checkpoint(self: FlushConsumeQueueService) -> None:
    dispatched_to = self._dispatch.reput_from.get()
    dispatched_ms = self._dispatch.dispatched_store_timestamp_ms
    self._queues.make_durable()
    if self.last_error is None:
        self._checkpoint.queues_are_durable_to(dispatched_ms)
        self.durable_to.set(dispatched_to)
    if self._flush_full_index_files():
        self._checkpoint.flush()
    else:
        bit()


CHECKPOINT_IN_MEMORY = Mutant(
    "checkpoint-in-memory",
    "the checkpoint's times move in memory and reach the disk only when an index file becomes full",
    (Patch(FlushConsumeQueueService, "flush_thoroughly", _flush_without_checkpoint),),
    ("QUIET",),
    Ranges(heals=(True,)),
)


# delay-progress-one-at-a-time: each time progress is persisted, one delivery that has become durable is counted, and
# not all of them.
def _persist_one(self: ScheduleMessageService) -> bool:
    if self._undurable and self._undurable[0][0] <= self._commit_log.queue.flushed_where.get():
        _, level, offset = self._undurable.popleft()
        self._durable[level] = offset
    bit(bool(self._undurable) and self._undurable[0][0] <= self._commit_log.queue.flushed_where.get())
    return self.file.store(encoded_offsets(self._durable))


DELAY_PROGRESS_ONE_AT_A_TIME = Mutant(
    "delay-progress-one-at-a-time",
    "durable progress of delayed delivery falls further and further behind what is delivered",
    (Patch(ScheduleMessageService, "persist", _persist_one),),
    ("QUIET", "REDEL"),
    Ranges(delay={"chance": (0.8,)}, messages_each=(16,)),
)


# recovery-from-oldest-segment: the search for the newest segment that the checkpoint vouches for goes from the front,
# and ends at the first.
_original_trusted_segments = Recovery.trusted_segments


def _oldest_trusted_segment(self: Recovery) -> int:
    if self._clean_exit:
        return max(0, self._begun_segments() - 3)
    limit_ms = self._checkpoint.vouched_timestamp_ms
    for index, segment in enumerate(self._log.segments):
        first_ms = self._first_time_ms(segment)
        if first_ms is not None and 0 < first_ms <= limit_ms:
            bit(_original_trusted_segments(self) != index)
            return index
    return 0


RECOVERY_FROM_OLDEST_SEGMENT = Mutant(
    "recovery-from-oldest-segment",
    "after a crash the whole log is scanned, however much of it the checkpoint vouches for",
    (Patch(Recovery, "trusted_segments", _oldest_trusted_segment),),
    ("SCAN",),
    Ranges(
        recover_whole_log=(False,),
        commit_log_bytes=(1024, 2048),
        flush={"thorough_interval_ms": (2000,)},
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        messages_each=(16,),
        endings=("crash at rest", "crash in traffic"),
    ),
)


# clean-exit-scans-all: a clean exit is believed where the log's end is judged, and not where the scan begins.
_original_scan = Recovery._scan


def _scan_all_after_clean_exit(self: Recovery, first: int, trusted: int) -> object:
    return _original_scan(self, 0 if bit(self._clean_exit and first > 0) else first, trusted)


CLEAN_EXIT_SCANS_ALL = Mutant(
    "clean-exit-scans-all",
    "after a clean stop the whole log is scanned, and not its last segments",
    (Patch(Recovery, "_scan", _scan_all_after_clean_exit),),
    ("SCAN",),
    Ranges(recover_whole_log=(False,), commit_log_bytes=(1024,), messages_each=(16,), endings=("stop",)),
)


# index-rebuilt-after-clean-stop: the index takes every start for one after a crash. A file that is not full is dropped
# after a clean stop as well, and built again from the log.
_original_begin = IndexRecovery.begin


def _begin_as_after_a_crash(self: IndexRecovery) -> object:
    bit(self._clean_exit)
    self._clean_exit = False
    return _original_begin(self)


INDEX_REBUILT_AFTER_CLEAN_STOP = Mutant(
    "index-rebuilt-after-clean-stop",
    "the newest index file is built again after a clean stop, from as far back in the log as it goes",
    (Patch(IndexRecovery, "begin", _begin_as_after_a_crash),),
    ("SCAN",),
    Ranges(
        recover_whole_log=(False,),
        index={"slots": (40,), "entries": (200,)},
        commit_log_bytes=(1024,),
        messages_each=(16,),
        endings=("stop",),
    ),
)


# table-one-change-behind: a table of topics or groups is written before it is changed, so that the file has what was
# true before the newest change.
def _store_before_change(self: VersionedTable[Entry], version: DataVersion, table: Mapping[str, Entry]) -> None:
    self.file.store(self._encoded(*self._state))
    bit()
    self._state = version, dict(table)


TABLE_ONE_CHANGE_BEHIND = Mutant(
    "table-one-change-behind",
    "the newest topic or group is in memory only until another one is made",
    (Patch(VersionedTable, "_store", _store_before_change),),
    ("META",),
    Ranges(broker={"serves": (True,)}, consumers=(1,)),
)


# queue-position-read-after-flush: what was dispatched while the queues were synced is taken for synced, too.
def _flush_then_read_positions(self: FlushConsumeQueueService) -> None:
    before = self._dispatch.reput_from.get()
    self._queues.make_durable()
    dispatched_to = self._dispatch.reput_from.get()
    bit(dispatched_to > before)
    if self.last_error is None:
        self._checkpoint.queues_are_durable_to(self._dispatch.dispatched_store_timestamp_ms)
        self.durable_to.set(dispatched_to)
    self._flush_full_index_files()
    self._checkpoint.flush()


QUEUE_POSITION_READ_AFTER_FLUSH = Mutant(
    "queue-position-read-after-flush",
    "the checkpoint speaks for what was dispatched while queues were synced",
    (Patch(FlushConsumeQueueService, "flush_thoroughly", _flush_then_read_positions),),
    ("CKPT", "CLEAN", "CQ-COMPLETE"),
    Ranges(
        recover_whole_log=(False,),
        flush={"thorough_interval_ms": (2000,)},
        pauses={"chance": (0.5,), "ms_max": (300,)},
        sync_ms_max=(10,),
        disk=("strict-posix",),
        producers=(3,),
        messages_each=(30,),
        topics=(2,),
        queues_per_topic=(4,),
        consume_queue_bytes=(100,),
    ),
)

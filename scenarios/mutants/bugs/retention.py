"""Bugs of retention: what is removed too early, what is never removed, and for how long puts are refused."""

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.half_message import HALF_TOPIC, OP_TOPIC
from ....store.retention import cleaning
from ....store.retention.cleaning import CleanCommitLog, CleanConsumeQueue, DiskWatermark, Pressure
from ....store.running_flags import Refusal
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

_DELETING = Ranges(
    retention={"deletes_segments": (True,)},
    commit_log_bytes=(1024, 2048),
    consume_queue_bytes=(100,),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    messages_each=(16, 24),
    pauses={"chance": (0.5,), "ms_max": (300,)},
)
_original_remove_first = CleanCommitLog._remove_first


# segment-removed-half-dispatched: a segment goes as soon as what its first record added to queues is durable.
def _remove_when_begun(self: CleanCommitLog) -> bool:
    first = self._log.segments[0]
    durable_to = self._flush_queues.durable_to.get()
    if durable_to <= first.base_offset or not bit(durable_to < first.end_offset):
        return _original_remove_first(self)
    removed = self._log.remove_first()
    self._stuck = None
    return removed


SEGMENT_REMOVED_HALF_DISPATCHED = Mutant(
    "segment-removed-half-dispatched",
    "a segment goes when only its beginning is durable in its queues",
    (Patch(CleanCommitLog, "_remove_first", _remove_when_begun),),
    ("CKPT", "CLEAN", "DUR", "LIVE", "POS", "QUIET"),
    SCENARIOS["retention-takes-only-the-oldest"].ranges,  # its variety is what it takes
)


# clean-pass-never-repeated: a pass over queues and index counts as done whatever it has met.
def _run_once(self: CleanConsumeQueue) -> None:
    log_min_offset, cleaned_to = self._log.min_offset, self._cleaned_to
    try:
        _original_run(self)
    except OSError:
        bit(log_min_offset > cleaned_to)
        self._cleaned_to = max(cleaned_to, log_min_offset)
        raise


_original_run = CleanConsumeQueue.run
CLEAN_PASS_NEVER_REPEATED = Mutant(
    "clean-pass-never-repeated",
    "queues and index that failed to lose what expired are not tried again",
    (Patch(CleanConsumeQueue, "run", _run_once),),
    ("CLEAN",),
    SCENARIOS["retention-takes-only-the-oldest"].ranges.replace(
        heals=(True,), faults={"failed_removal_chance": (0.1,)}
    ),
)


# puts-return-late-after-full: puts that were refused for want of room return when the disk is as empty as retention
# wants to have it, and not when there is room again.
_original_measure = DiskWatermark.measure


def _measure_below_used_ratio(self: DiskWatermark) -> Pressure:
    was_full = self._flags.bits & Refusal.DISK_FULL
    pressure = _original_measure(self)
    if was_full and pressure.delete and not self._flags.bits & Refusal.DISK_FULL:
        bit()
        self._flags.refuse(Refusal.DISK_FULL)
    return pressure


PUTS_RETURN_LATE_AFTER_FULL = Mutant(
    "puts-return-late-after-full",
    "puts are refused until the disk is emptier than it has to be",
    (Patch(DiskWatermark, "measure", _measure_below_used_ratio),),
    ("STATUS",),
    Ranges(
        capacity_bytes=(10_000, 16_000, 24_000),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16, 24),
        pauses={"chance": (0.5,), "ms_max": (300, 3000)},
        lives=(1, 2),
        endings=("stop", "crash at rest"),
    ),
)


# transaction-queues-removed: command 306 removes the queue of half messages as any other, as in RocketMQ. It begins
# again at 0, and ops of those that had these numbers before are still there: what is prepared next seems decided.
def _only_delayed_are_numbered_elsewhere(topic: str) -> bool:
    bit(topic in (HALF_TOPIC, OP_TOPIC))
    return topic == SCHEDULE_TOPIC


TRANSACTION_QUEUES_REMOVED = Mutant(
    "transaction-queues-removed",
    "the queue of half messages is removed, and a new one is taken for the decided one of its number",
    (Patch(cleaning, "is_numbered_elsewhere", _only_delayed_are_numbered_elsewhere),),
    ("TX", "CLEAN"),
    Ranges(
        transactions={"chance": (0.35,)},
        retention={"deletes_segments": (True,), "deletes_queues": (True,)},
        commit_log_bytes=(1024,),
        consume_queue_bytes=(100,),
        messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
        messages_each=(16,),
        pauses={"chance": (0.5,), "ms_max": (100,)},
        topics=(1,),
        disk=("nothing-lost",),
        endings=("stop",),
        lives=(3,),
    ),
)

"""Delayed delivery in 4.9.8 over a crash: when messages are due, and how far delivery had come."""

from collections.abc import Mapping

from .....store.config import StoreConfig
from .....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from .....store.formats.delay_level import SCHEDULE_TOPIC
from .....store.log.checkpoint import StoreCheckpoint
from .....store.log.recovery import Recovery
from .....store.log.segment_queue import SegmentQueue
from .....store.queues.consume_queue_table import ConsumeQueueTable
from .....store.queues.queue_replay import QueueReplay
from ....claims.ranges import Ranges
from ...mutant import Mutant, Patch

create = Recovery.__init__
add = QueueReplay.add


def _init(
    self: Recovery,
    config: StoreConfig,
    log: SegmentQueue,
    queues: ConsumeQueueTable,
    checkpoint: StoreCheckpoint,
    delays_ms: Mapping[int, int],
    *,
    clean_exit: bool,
) -> None:
    known_ms = delays_ms if clean_exit else {}
    create(self, config, log, queues, checkpoint, known_ms, clean_exit=clean_exit)


def _add(self: QueueReplay, queue_offset: int, physical_offset: int, size_bytes: int, tags_code: int) -> None:
    """Leave entries of the schedule topic that are there as they are: a replay drops what a queue has already."""
    if self.queue.topic == SCHEDULE_TOPIC:
        there = self.queue.entry(queue_offset)
        if there is not None and there[:2] == (physical_offset, size_bytes):
            tags_code = there.tags_code
    add(self, queue_offset, physical_offset, size_bytes, tags_code)


def _with_delays(ranges: Ranges) -> Ranges:
    return ranges.replace(delay={"chance": (0.8,)}, endings=("crash in traffic",))


DELAY_LEVELS_AFTER_RECOVERY = Mutant(
    "delay-levels-after-recovery",
    "recovery / delayed delivery",
    "after a crash, delayed messages whose queue entries are made anew are delivered at once",
    (Patch(Recovery, "__init__", _init), Patch(QueueReplay, "add", _add)),
    _with_delays,
    ("SCHED", "CQ-VALID"),
)


def _persist(self: ScheduleMessageService) -> bool:
    self._undurable.clear()
    self._durable = dict(self.offsets)
    return self.file.store(encoded_offsets(self.offsets))


def _with_late_syncs(ranges: Ranges) -> Ranges:
    return ranges.replace(
        delay={"chance": (0.8,)},
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (10_000,)},
        endings=("crash in traffic", "crash at rest"),
    )


DELIVERY_PROGRESS_AHEAD = Mutant(
    "delivery-progress-ahead",
    "delayed delivery",
    "progress is persisted as far as copies were put, and a power cut takes copies and leaves it",
    (Patch(ScheduleMessageService, "persist", _persist),),
    _with_late_syncs,
    ("SCHED", "META"),
)


def _persist_correction(self: ScheduleMessageService) -> None:
    """Keep the correction in memory."""


def _with_lost_tails(ranges: Ranges) -> Ranges:
    return ranges.replace(
        delay={"chance": (1.0,)},
        producers=(1,),
        messages_each=(1, 3),
        messages={"body_bytes_max": (0, 40), "property_bytes_max": (0,), "batch_chance": (0.0,)},
        lives=(3,),
        endings=("stop and damage", "crash in load", "crash in traffic"),
    )


UNCORRECTED_PROGRESS_KEPT = Mutant(
    "uncorrected-progress-kept",
    "delayed delivery",
    "progress that was brought back to its queue stays on the disk as it was, for the next crash to skip by",
    (Patch(ScheduleMessageService, "persist_correction", _persist_correction),),
    _with_lost_tails,
    ("SCHED", "META"),
)

"""Mutants of a file, as somebody brings them who has the store and not its catalogue: three, and one without teeth."""

from typing import Any

from tornlog.scenarios.mutants.mutant import Mutant, Patch, bit
from tornlog.store.log.segment import Segment
from tornlog.store.log.segment_queue import SegmentQueue
from tornlog.store.queues.consume_queue import ConsumeQueue, QueueSegments
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager

_flush = SegmentQueue.flush
_commit_offset = ConsumerOffsetManager.commit_offset
_recovered = ConsumeQueue.recovered
_append = Segment.append


def _flush_unless_rolled(self: QueueSegments, least_pages: int = 0) -> bool:
    if bit(len(self.segments) > 1):
        return False
    return _flush(self, least_pages)


def _commit_far(self: ConsumerOffsetManager, group: str, topic: str, queue_id: int, offset: int) -> Any:
    bit(offset > 1)
    return _commit_offset(self, group, topic, queue_id, offset + (offset > 1))


def _recovered_one_short(self: ConsumeQueue, end: int, durable: int) -> None:
    bit(end > 0)
    _recovered(self, max(0, end - 1), durable)


def _append_below_a_gibibyte(self: Segment, position: int, data: bytes | bytearray) -> None:
    if not bit(len(data) > 1 << 30):
        _append(self, position, data)


MUTANTS = {
    mutant.id: mutant
    for mutant in (
        Mutant(
            "queue-flush-ends-at-a-roll",
            "a consume queue is not flushed any more once it has a second segment",
            (Patch(QueueSegments, "flush", _flush_unless_rolled),),
            ("CKPT", "CQ-COMPLETE", "QUIET"),
        ),
        Mutant(
            "offset-committed-one-too-far",
            "a group's progress counts the next message as consumed",
            (Patch(ConsumerOffsetManager, "commit_offset", _commit_far),),
            ("META", "READ"),
        ),
        Mutant(
            "recovered-queue-one-short",
            "a queue that is recovered takes its last entry for free room",
            (Patch(ConsumeQueue, "recovered", _recovered_one_short),),
            ("CQ-COMPLETE", "READ"),
        ),
        Mutant(
            "huge-records-are-forgotten",
            "a record of more than a GiB is not written, which none ever is",
            (Patch(Segment, "append", _append_below_a_gibibyte),),
            ("DUR",),
        ),
    )
}

"""Mutants of a user's file outside the catalogue: three break a promise, one breaks none."""

from typing import Any

from tornlog.scenarios.mutants.mutant import bit, bug
from tornlog.store.log.segment import Segment
from tornlog.store.queues.consume_queue import ConsumeQueue, QueueSegments
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager


@bug("queue-flush-ends-at-a-roll", QueueSegments, "flush", found_by=("CKPT", "CQ-COMPLETE", "QUIET"))
def flush_unless_rolled(self: QueueSegments, least_pages: int = 0) -> bool:
    """A consume queue is never flushed after it has a second segment."""
    if bit(len(self.segments) > 1):
        return False
    return flush_unless_rolled.original(self, least_pages)


@bug("offset-committed-one-too-far", ConsumerOffsetManager, "commit_offset", found_by=("META", "READ"))
def commit_far(self: ConsumerOffsetManager, group: str, topic: str, queue_id: int, offset: int) -> Any:
    """A group's progress counts the next message as consumed."""
    bit(offset > 1)
    return commit_far.original(self, group, topic, queue_id, offset + (offset > 1))


@bug("recovered-queue-one-short", ConsumeQueue, "set_recovered_end", found_by=("CQ-COMPLETE", "READ"))
def recovered_one_short(self: ConsumeQueue, end: int, durable: int) -> None:
    """Recovery of a queue treats its last entry as free space."""
    bit(end > 0)
    recovered_one_short.original(self, max(0, end - 1), durable)


@bug("huge-records-are-forgotten", Segment, "append", found_by=("DUR",))
def append_below_a_gibibyte(self: Segment, position: int, data: bytes | bytearray) -> None:
    """A record of more than 1 GiB is not written. No record is so large."""
    if not bit(len(data) > 1 << 30):
        append_below_a_gibibyte.original(self, position, data)

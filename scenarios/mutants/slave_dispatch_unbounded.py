"""Dispatch believes any queueOffset that is ahead, and fills all in front of it with blank entries.

On a slave that is a number it was sent, and no checksum covers it: one flipped bit, and there is no memory or no disk
for the blanks.
"""

from dataclasses import replace

from ...store.errors import MisplacedRecordError
from ...store.queues.consume_queue import ConsumeQueue
from ..claims.cluster_ranges import CLUSTER
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _check_place(self: ConsumeQueue, queue_offset: int, following: int, physical_offset: int) -> None:
    if queue_offset < following:
        raise MisplacedRecordError(f"{self.topic}/{self.queue_id}", f"{following} or more", queue_offset)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(CLUSTER, cluster={**CLUSTER.cluster, "flipped_bit_chance": (0.5,)})


MUTANT = Mutant(
    "slave-dispatch-unbounded",
    "dispatch thread",
    "one replicated record with a flipped bit in its queueOffset takes the slave's dispatch with it",
    (Patch(ConsumeQueue, "_check_place", _check_place),),
    _narrow,
    ("LIVE",),
)

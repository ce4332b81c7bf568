"""#9 transient-read-wrote-position: readers go by the written position although a buffer is in front of the file.

What is not committed yet is zeros to them, or a part of a record.
"""

from dataclasses import replace

from ...store.log.buffered_queue import BufferedSegmentQueue
from ...store.log.buffered_segment import BufferedSegment
from ...store.log.segment import Segment
from ...store.log.transient_pool import TransientStorePool
from ...store.world import MappedFile, Tasks
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

create = BufferedSegment.__init__


def _init(
    self: BufferedSegment,
    tasks: Tasks,
    file: MappedFile,
    base_offset: int,
    label: str,
    *,
    pool: TransientStorePool,
    buffer: memoryview,
) -> None:
    create(self, tasks, file, base_offset, label, pool=pool, buffer=buffer)
    self.readable = self.wrote


def _committed_where(self: BufferedSegmentQueue) -> int:
    for segment in self.segments:
        committed = _committed(segment)
        if committed < self.segment_bytes:
            return segment.base_offset + committed
    return 0 if not self.segments else self.segments[-1].end_offset


def _committed(segment: Segment) -> int:
    return segment.committed.get() if isinstance(segment, BufferedSegment) else segment.wrote.get()


def _max_offset(self: BufferedSegmentQueue) -> int:
    last = self.last()
    return 0 if last is None else last.base_offset + last.wrote.get()


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(False,), transient_pool=(True,), consumers=(0, 1, 2))


MUTANT = Mutant(
    "transient-read-wrote-position",
    "transient buffer pool / read path",
    "readers may see what was put to a buffer and is not in the file yet",
    (
        Patch(BufferedSegment, "__init__", _init),
        Patch(BufferedSegmentQueue, "committed_where", property(_committed_where)),
        Patch(BufferedSegmentQueue, "max_offset", property(_max_offset)),
    ),
    _narrow,
    ("LIVE", "POS", "CQ-VALID", "CQ-COMPLETE", "VIS", "READ"),
)

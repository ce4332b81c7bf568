"""#42 flush-jumps-to-new-file: after a rollover the flusher goes on in the newest segment; the one before is done.

The bytes at the end of that were never synced, and lie in front of acknowledged ones.
"""

from dataclasses import replace

from ...store.log.segment_queue import SegmentQueue
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _flush(self: SegmentQueue, least_pages: int = 0) -> bool:
    where, segment = self.flushed_where.get(), self.last()
    if segment is None:
        return False
    flushed = segment.base_offset + segment.flush(least_pages)
    if flushed == where:
        return False
    self.flushed_where.set(flushed)
    return True


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, commit_log_bytes=(2048,))


MUTANT = Mutant(
    "flush-jumps-to-new-file",
    "flush / rollover",
    "the end of a full segment is never synced once there is a newer one",
    (Patch(SegmentQueue, "flush", _flush),),
    _narrow,
    ("POS", "STATUS", "DUR", "PREFIX"),
)

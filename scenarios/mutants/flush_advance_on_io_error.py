"""#1 flush-advance-on-io-error: the file's flush catches the sync's error and moves its position all the same.

Group commit compares positions only, so a failed sync looks to it like a good one.
"""

from ...store.log.segment import Segment
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

flush = Segment.flush


def _flush(self: Segment, least_pages: int) -> int:
    wrote = self.wrote.get()
    try:
        return flush(self, least_pages)
    except OSError:
        self.flushed.set(wrote)
        return wrote


def _narrow(ranges: Ranges) -> Ranges:
    return ranges.with_faults(failed_sync_chance=(0.1,))


MUTANT = Mutant(
    "flush-advance-on-io-error",
    "mapped file / flush",
    "a sync that fails moves the flushed position as if it had succeeded",
    (Patch(Segment, "flush", _flush),),
    _narrow,
    ("POS", "STATUS", "DUR", "CKPT"),
)

"""#3 flush-hold-failed-fakes-progress: retention marks a segment as going whose bytes are not durable yet, and a flush
that may not use it any more moves its position all the same.

The store counts no references, so what marks a segment is a class of its own, and that a reader holds it is a removal
that waits for the next pass.
"""

from dataclasses import replace

from ...store.log.segment import Segment
from ...store.retention.clean_commit_log import CleanCommitLog
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

remove_first = CleanCommitLog._remove_first


class _GoingSegment(Segment):
    """A segment that is marked for removal and still there."""

    __slots__ = ()

    def flush(self, least_pages: int) -> int:
        """Say that everything is durable."""
        readable = self.readable.get()
        self.flushed.set(readable)
        return readable


def _remove_first(self: CleanCommitLog) -> bool:
    first = self._log.segments[0]
    if self._log.flushed_where.get() >= first.end_offset:
        return remove_first(self)
    first.__class__ = _GoingSegment
    return False


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        retention=(True,),
        sync_flush=(False,),
        commit_log_bytes=(2048,),
        body_bytes_max=(300, 900),
        producers=(3,),
        messages_each=(16,),
        pause_chance=(0.5,),
        pause_ms_max=(30,),
        sync_ms_max=(10,),
    )


MUTANT = Mutant(
    "flush-hold-failed-fakes-progress",
    "mapped file / flush",
    "a flush that finds its segment marked for removal counts it as durable",
    (Patch(CleanCommitLog, "_remove_first", _remove_first),),
    _narrow,
    ("POS", "CLEAN", "CKPT", "DUR"),
)

"""Bugs of what cannot be read through a map just now: it is taken for missing, or for damaged."""

from ....store.errors import CorruptFileError
from ....store.log.commit_log import CommitLog
from ....store.log.segment import Segment
from ....store.recovery.recovery import Recovery
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_FAILING = Ranges(
    faults={"failed_page_in_chance": (0.05, 0.2)},
    sync_flush=(True,),
    consumers=(1, 2),
    lives=(1, 2, 3),
    endings=("crash at rest", "stop"),
)


# A record whose page cannot be read is answered as one that is not there, so consumers are sent on behind it, and
# whoever looks it up is answered that there is none.
@bug(
    "unreadable-record-is-missing", CommitLog, "record_bytes", found_by=("READ", "IDX", "SCHED", "REDEL", "TX", "QUIET")
)
@needs(_FAILING)
def none_if_unreadable(self: CommitLog, physical_offset: int, size_bytes: int, limit: int) -> bytes | None:
    """A record that cannot be read just now is taken for one that is not there."""
    try:
        return none_if_unreadable.original(self, physical_offset, size_bytes, limit)
    except OSError:
        bit()
        return None


# Recovery takes a segment that cannot be read for damaged, and cuts the log there.
@bug(
    "unreadable-page-ends-recovery", Recovery, "_scan_segment", found_by=("DUR", "PREFIX", "TX", "READ", "POS", "SCHED")
)
@needs(_FAILING)
def damaged_if_unreadable(self: Recovery, segment: Segment, start: int, *, whole_log: bool) -> None:
    """A segment that cannot be read just now is taken for damaged, and the log is cut there."""
    try:
        damaged_if_unreadable.original(self, segment, start, whole_log=whole_log)
    except OSError as error:
        bit()
        raise CorruptFileError(segment.file.path, start, "record", "one that can be read", "an error") from error

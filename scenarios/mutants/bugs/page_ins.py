"""Bugs of what cannot be read through a map just now: it is taken for missing, or for damaged."""

from ....store.errors import CorruptFileError
from ....store.log.commit_log import CommitLog
from ....store.log.segment import Segment
from ....store.recovery.recovery import Recovery
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

_record_bytes = CommitLog.record_bytes
_scan_segment = Recovery._scan_segment
_FAILING = Ranges(
    faults={"failed_page_in_chance": (0.05, 0.2)},
    sync_flush=(True,),
    consumers=(1, 2),
    lives=(1, 2, 3),
    endings=("crash at rest", "stop"),
)


# unreadable-record-is-missing: a record whose page cannot be read is answered as one that is not there, so consumers
# are sent on behind it, and whoever looks it up is answered that there is none.
def _none_if_unreadable(self: CommitLog, physical_offset: int, size_bytes: int, limit: int) -> bytes | None:
    try:
        return _record_bytes(self, physical_offset, size_bytes, limit)
    except OSError:
        bit()
        return None


UNREADABLE_RECORD_IS_MISSING = Mutant(
    "unreadable-record-is-missing",
    "a record that cannot be read just now is taken for one that is not there",
    (Patch(CommitLog, "record_bytes", _none_if_unreadable),),
    ("READ", "IDX", "SCHED", "REDEL", "TX", "QUIET"),
    _FAILING,
)


# unreadable-page-ends-recovery: recovery takes a segment that cannot be read for damaged, and cuts the log there.
def _damaged_if_unreadable(self: Recovery, segment: Segment, start: int, *, whole_log: bool) -> None:
    try:
        _scan_segment(self, segment, start, whole_log=whole_log)
    except OSError as error:
        bit()
        raise CorruptFileError(segment.file.path, start, "record", "one that can be read", "an error") from error


UNREADABLE_PAGE_ENDS_RECOVERY = Mutant(
    "unreadable-page-ends-recovery",
    "a segment that cannot be read just now is taken for damaged, and the log is cut there",
    (Patch(Recovery, "_scan_segment", _damaged_if_unreadable),),
    ("DUR", "PREFIX", "TX", "READ", "POS", "SCHED"),
    _FAILING,
)

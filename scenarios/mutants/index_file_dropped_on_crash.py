"""#28 index-file-dropped-on-crash: index files that are not known to be durable go, and are not made again as a whole.

The log is scanned from where queues need it, whatever the index has lost in front of that.
"""

from dataclasses import replace

from ...store.errors import CorruptFileError
from ...store.log.recovery import Recovery
from ...store.queues.queue_replay import EarlierEntriesMissing
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _scan_enough(self: Recovery, trusted: int) -> CorruptFileError | None:
    try:
        stopped_by = self._scan(0 if self._config.recover_whole_log else trusted, trusted)
    except EarlierEntriesMissing:
        stopped_by = self._scan(0, trusted)
    if self.index is not None:
        self.index.drop_beyond(self._report.end_offset)
    return stopped_by


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        recover_whole_log=(False,),
        index_slots=(5, 40),
        commit_log_bytes=(2048,),
        body_bytes_max=(300,),
        messages_each=(16,),
        pause_chance=(0.5,),
        pause_ms_max=(3000,),
        thorough_interval_ms=(2000,),
        endings=("crash at rest", "crash in traffic"),
    )


MUTANT = Mutant(
    "index-file-dropped-on-crash",
    "index",
    "after a crash the newest index file is deleted, and only what recovery scans for the queues is indexed again",
    (Patch(Recovery, "_scan_enough", _scan_enough),),
    _narrow,
    ("IDX",),
)

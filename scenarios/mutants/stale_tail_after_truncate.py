"""#11 stale-tail-after-truncate: cutting the log resets positions and leaves the bytes behind the cut in place.

When a later record ends exactly where an old one begins, the next recovery walks onto the old ones.
"""

from dataclasses import replace

from ...store.log.recovery import Recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _cut_log(self: Recovery, end_offset: int) -> bool:
    log = self._log
    dirty = False
    while log.segments and log.segments[-1].base_offset > end_offset:
        dirty |= log._remove_last()
    return dirty


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        equal_sizes=(True,),
        batch_chance=(0.0,),
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "stale-tail-after-truncate",
    "recovery / truncation",
    "records behind a cut stay on the disk and come back to life",
    (Patch(Recovery, "cut_log", _cut_log),),
    _narrow,
    ("PREFIX", "QOFF"),
)

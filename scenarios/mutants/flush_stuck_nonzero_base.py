"""#7 flush-stuck-nonzero-base: the flush position is 0 after a start, whatever the first segment is.

Once retention has removed that of offset 0, no segment holds the position, and it never moves again.
"""

from dataclasses import replace

from ...store.log.recovery import Recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

set_log_positions = Recovery._set_log_positions


def _set_log_positions(self: Recovery, trusted: int) -> None:
    set_log_positions(self, trusted)
    self._log.flushed_where.set(0)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        retention=(True,),
        commit_log_bytes=(2048,),
        body_bytes_max=(300, 900),
        messages_each=(16,),
        pause_chance=(0.5,),
    )


MUTANT = Mutant(
    "flush-stuck-nonzero-base",
    "mapped file queue / flush",
    "nothing is ever synced in a log whose first segment does not begin at 0",
    (Patch(Recovery, "_set_log_positions", _set_log_positions),),
    _narrow,
    ("LIVE", "DUR", "STATUS"),
)

"""Not of the catalogue: recovery refuses records behind a gap in a queue's numbers, unless the log has room for it.

A restart of 4.9.8 skips numbers without a byte of the log; who counts bytes takes all records behind it for damaged.
"""

from ...store.queues.queue_replay import QueueReplay, _Doubted
from ..claims.catalogue import a_gap_in_the_numbers_hides_no_message
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _place_of(self: QueueReplay, doubted: _Doubted, following: int | None) -> int | None:
    entry = self.queue.entry(self.next)
    is_here = entry is not None and entry.physical_offset == doubted.physical_offset
    if is_here or following == self.next + 1:
        return self.next
    return doubted.queue_offset if doubted.queue_offset > self.next and self._has_room(doubted) else None


def _narrow(_: Ranges) -> Ranges:
    return a_gap_in_the_numbers_hides_no_message.SCENARIO.ranges


MUTANT = Mutant(
    "numbering-gap-refused",
    "recovery",
    "messages behind numbers that a queue has skipped lose their entries",
    (Patch(QueueReplay, "_place_of", _place_of),),
    _narrow,
    ("CQ-COMPLETE", "VIS"),
)

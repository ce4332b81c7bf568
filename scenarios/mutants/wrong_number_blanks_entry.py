"""Not of the catalogue: recovery believes a record's queueOffset, which no checksum covers, rather than all others.

A flipped bit of it makes a blank of an entry that was right, and may hold back those that follow.
"""

from ...store.queues.queue_replay import QueueReplay, _Doubted
from ..claims.catalogue import a_gap_in_the_numbers_hides_no_message
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

place_of = QueueReplay._place_of


def _place_of(self: QueueReplay, doubted: _Doubted, following: int | None) -> int | None:
    place = place_of(self, doubted, following)
    if place in (doubted.queue_offset, None):
        return place
    return doubted.queue_offset if doubted.queue_offset > self.next and self._has_room(doubted) else None


def _narrow(_: Ranges) -> Ranges:
    return a_gap_in_the_numbers_hides_no_message.SCENARIO.ranges


MUTANT = Mutant(
    "wrong-number-blanks-entry",
    "recovery",
    "a flipped bit of a record's queueOffset costs a message that its entry leads to",
    (Patch(QueueReplay, "_place_of", _place_of),),
    _narrow,
    ("CQ-COMPLETE", "VIS"),
)

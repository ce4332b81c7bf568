"""Not of the catalogue: recovery gives up a segment at the first damage, although it vouches for what lies behind.

Entries that are there stay; where queues are made anew, all behind the damage is hidden.
"""

from ...store.log.recovery import Recovery
from ...store.log.segment import Segment
from ..claims.catalogue import damage_hides_nothing_behind_it
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _pass_damage(self: Recovery, segment: Segment, offset: int) -> int | None:
    self._skipped.add(offset, segment.end_offset)
    return None


def _narrow(_: Ranges) -> Ranges:
    return damage_hides_nothing_behind_it.SCENARIO.ranges


MUTANT = Mutant(
    "damage-ends-segment",
    "recovery",
    "one damaged record hides those behind it in its segment when queues are made anew",
    (Patch(Recovery, "_pass_damage", _pass_damage),),
    _narrow,
    ("CQ-COMPLETE", "CQ-VALID", "VIS", "READ"),
)

"""#32 delay-offset-not-clamped: progress of delayed delivery is used as it was persisted, even beyond its queue's end.

After the queue lost its tail nothing of that level is delivered until as many messages were put as were lost, and
those are passed over.
"""

from dataclasses import replace

from ...store.delivery.schedule import ScheduleMessageService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _within_queue(self: ScheduleMessageService, level: int, offset: int) -> int:
    return offset


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        delay_chance=(1.0,),
        producers=(1,),
        messages_each=(1, 3),  # so that the sector that is lost has a message and its copy
        body_bytes_max=(0, 40),
        property_bytes_max=(0,),
        batch_chance=(0.0,),
        endings=("stop and damage",),
        lives=(2, 3),
    )


MUTANT = Mutant(
    "delay-offset-not-clamped",
    "delayed delivery",
    "progress that leads beyond the end of its delay level's queue is taken for what it is not",
    (Patch(ScheduleMessageService, "_within_queue", _within_queue),),
    _narrow,
    ("META", "SCHED", "LIVE"),
)

"""#33 delay-retry-skips-message: after a delivery that failed, the next attempt begins behind the message."""

from dataclasses import replace

from ...store.delivery.schedule import ScheduleMessageService
from ...store.formats.consume_queue import QueueEntry
from ...store.put_result import PutMessageStatus
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

deliver_entry = ScheduleMessageService._deliver_entry


def _deliver_entry(self: ScheduleMessageService, level: int, entry: QueueEntry) -> int:
    self.last_answer = PutMessageStatus.PUT_OK
    wait_ms = deliver_entry(self, level, entry)
    if wait_ms and self.last_answer is not PutMessageStatus.PUT_OK:
        self._move_to(level, self.offsets.get(level, 0) + 1)
    return wait_ms


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        delay_chance=(0.8,),
        faults={"failed_creation_chance": (0.3, 0.5)},
        commit_log_bytes=(2048,),
        endings=("crash at rest", "stop"),
    )


MUTANT = Mutant(
    "delay-retry-skips-message",
    "delayed delivery",
    "a delayed message whose delivery failed is not tried again",
    (Patch(ScheduleMessageService, "_deliver_entry", _deliver_entry),),
    _narrow,
    ("SCHED",),
)

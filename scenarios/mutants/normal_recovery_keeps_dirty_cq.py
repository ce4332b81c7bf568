"""#10 normal-recovery-keeps-dirty-cq: after a clean stop, recovery cuts the log at a bad record and leaves the queues.

Entries for what was cut stay, and later records take the place that they point at.
"""

from dataclasses import replace

from ...store.log.recovery import Recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch
from .reput_starts_at_log_end import keep_entries

finish_queues = Recovery.finish_queues
_ANYWHERE = 1 << 62


def _finish_queues(self: Recovery) -> None:
    if self._clean_exit:
        for queue in self._queues.all():
            keep_entries(queue, _ANYWHERE)
            queue.correct_min_offset(max(self._log.min_offset, 0))
    else:
        finish_queues(self)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, endings=("stop and damage",))


MUTANT = Mutant(
    "normal-recovery-keeps-dirty-cq",
    "recovery",
    "after a clean stop, queue entries outlive the damaged records that recovery cuts",
    (Patch(Recovery, "finish_queues", _finish_queues),),
    _narrow,
    ("CQ-VALID", "CQ-COMPLETE"),
)

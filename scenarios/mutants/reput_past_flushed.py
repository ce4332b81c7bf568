"""#4 reput-past-flushed: under SYNC_FLUSH dispatch follows the append position instead of the flushed one.

Consumers are given messages whose producers have no answer yet, and which a power cut takes back.
"""

from dataclasses import replace

from ...store.queues.dispatch import DispatchService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _readable_limit(self: DispatchService) -> int:
    return self._commit_log.queue.max_offset


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(True,),
        consumers=(1, 2),
        sync_ms_max=(10,),
        disk=("ext4-ordered", "strict-posix"),
        endings=("crash in traffic",),
    )


MUTANT = Mutant(
    "reput-past-flushed",
    "dispatch / visibility",
    "under sync flush, consumers are shown what is not durable yet",
    (Patch(DispatchService, "readable_limit", _readable_limit),),
    _narrow,
    ("VIS",),
)

"""#27 cq-empty-tail-file: the first slot of a queue's newest segment is taken for an entry whatever is in it.

A power cut can leave that segment with a size and no content: its zeros become an entry, and the segment before it is
not looked at.
"""

from dataclasses import replace

from ...store.formats.consume_queue import ENTRY_BYTES
from ...store.log import recovery
from ...store.queues.consume_queue import ConsumeQueue
from ...store.queues.queue_replay import SkippedRanges, keep_trusted_entries
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _keep_trusted_entries(queue: ConsumeQueue, log_offset: int, skipped: SkippedRanges) -> bool:
    last = queue.queue.last()
    if last is None or any(last.file.view(0, last.size_bytes)):
        return keep_trusted_entries(queue, log_offset, skipped)
    end = last.base_offset // ENTRY_BYTES + 1
    changed = queue.truncate(end)
    queue.recovered(end, end)
    return changed


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        disk=("ext4-ordered", "strict-posix"),
        consume_queue_bytes=(100,),
        topics=(2,),
        queues_per_topic=(2,),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "cq-empty-tail-file",
    "consume queue recovery",
    "an all-zero slot at the front of a queue's newest segment becomes a real entry",
    (Patch(recovery, "keep_trusted_entries", _keep_trusted_entries),),
    _narrow,
    ("CQ-VALID",),
)

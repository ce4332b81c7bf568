"""#29 index-roll-publishes-cq-checkpoint: a full index file has the checkpoint written as it is in memory just then.

That says that queues are durable as far as they are dispatched, which only a thorough flush makes true.
"""

from dataclasses import replace

from ...store.queues.flush_queues import FlushConsumeQueueService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

flush_full_index_files = FlushConsumeQueueService._flush_full_index_files


def _flush_full_index_files(self: FlushConsumeQueueService) -> bool:
    is_new = flush_full_index_files(self)
    if is_new:
        self._checkpoint.queues_are_durable_to(self._dispatch.dispatched_store_timestamp_ms)
    return is_new


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        recover_whole_log=(False,),
        index_slots=(5,),
        index_entries=(5, 12),
        pause_chance=(0.5,),
        pause_ms_max=(3000,),
        thorough_interval_ms=(10_000,),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "index-roll-publishes-cq-checkpoint",
    "checkpoint / index / consume queue",
    "a full index file has the checkpoint written, which then speaks for queue entries that are not durable",
    (Patch(FlushConsumeQueueService, "_flush_full_index_files", _flush_full_index_files),),
    _narrow,
    ("CKPT", "CQ-COMPLETE"),
)

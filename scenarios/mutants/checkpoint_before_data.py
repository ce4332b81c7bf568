"""#39 checkpoint-before-data: the checkpoint says that the queues are durable before they are flushed."""

from dataclasses import replace

from ...store.queues.flush_queues import FlushConsumeQueueService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _flush_thoroughly(self: FlushConsumeQueueService) -> None:
    if self.last_error is None:
        self._checkpoint.queues_are_durable_to(self._dispatch.dispatched_store_timestamp_ms)
    self._checkpoint.flush()
    self._queues.make_durable()


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        pause_chance=(0.5,),
        pause_ms_max=(3000,),
        thorough_interval_ms=(2000,),
        endings=("crash in traffic",),
    )


MUTANT = Mutant(
    "checkpoint-before-data",
    "checkpoint",
    "the checkpoint is durable before the queue entries it speaks for",
    (Patch(FlushConsumeQueueService, "flush_thoroughly", _flush_thoroughly),),
    _narrow,
    ("CKPT", "CQ-COMPLETE"),
)

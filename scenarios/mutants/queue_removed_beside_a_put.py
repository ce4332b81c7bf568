"""A queue is removed while puts run: the put lock is given back before the queue is forgotten.

A put in between begins the queue at 0 again and is dispatched into the one that is about to be forgotten: answered OK,
it is in no queue that anybody can ask until a restart.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ...store.queues.consume_queue import ConsumeQueue
from ...store.retention.clean_consume_queue import CleanConsumeQueue
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _remove(self: CleanConsumeQueue, queue: ConsumeQueue, end: int) -> None:
    remove: Callable[[], None] = queue.remove
    with self._queues.names_lock:
        gone = self._commit_log.forget_queue(queue.topic, queue.queue_id, end, remove)
        if gone:
            self._queues.forget(queue)
    if gone:
        with suppress(OSError):
            self._queues.remove_directories(queue)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        policy=("pct", "random-walk"),
        disturbances={"paused_task_chance": (0.2,)},
        starved_steps_max=(500,),
        retention=(True,),
        queues_removed=(True,),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        body_bytes_max=(300, 700),
        property_bytes_max=(0,),
        queues_per_topic=(2, 4),
        messages_each=(16, 24),
        producers=(2, 3),
        consumers=(1, 2),
        pause_chance=(0.5,),
        pause_ms_max=(30, 100),
    )


MUTANT = Mutant(
    "queue-removed-beside-a-put",
    "consume queue",
    "a put that comes while its queue is removed is answered OK, and nobody can read it before a restart",
    (Patch(CleanConsumeQueue, "_remove", _remove),),
    _narrow,
    ("CQ-COMPLETE", "READ", "CLEAN"),
)

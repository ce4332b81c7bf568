"""#35 op-queue-overflow-one: to find nothing new at the end of the op queue is taken for an offset that is wrong.

The check then begins anew at the place the answer points to, which is that same end, and what it had read of decisions
that its half messages still need is forgotten.
"""

from dataclasses import replace

from ...store.delivery.half_message import OP_TOPIC, QUEUE_ID
from ...store.delivery.op_queue import OpQueue
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

read = OpQueue.read


def _read(self: OpQueue) -> None:
    if self._read_to == self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID):
        self._ops.clear()
        self._decided.clear()
        return
    read(self)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, transaction_chance=(1.0,), messages_each=(8, 16), pause_ms_max=(1, 30))


MUTANT = Mutant(
    "op-queue-overflow-one",
    "transactions",
    "a check that finds no new decisions forgets those that it has read",
    (Patch(OpQueue, "read", _read),),
    _narrow,
    ("TX",),
)

"""#34 half-msg-immunity-double-clock: the age of a half message is compared with its immunity twice.

The clock is read each time. Who is young enough at first, and not when the helper looks again, is reported as dealt
with although it was neither put back nor asked about. Virtual time stands still while a task runs, so the mutant is
held up between the two readings, as any thread can be by a collection or another's turn on the processor.
"""

from dataclasses import replace

from ...store.delivery.half_message import HalfMessage
from ...store.delivery.op_queue import OpQueue
from ...store.delivery.transaction_check import TransactionalMessageCheckService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

deal_with = TransactionalMessageCheckService._deal_with

_HELD_UP_MS = 20


def _deal_with(self: TransactionalMessageCheckService, half: HalfMessage, ops: OpQueue) -> bool:
    immunity_ms = half.immunity_ms
    if immunity_ms is None or ops.is_decided(half) or _age_ms(self, half) >= immunity_ms:
        return deal_with(self, half, ops)
    self.world.tasks.sleep(_HELD_UP_MS)
    if _age_ms(self, half) >= immunity_ms:
        return True
    return deal_with(self, half, ops)


def _age_ms(self: TransactionalMessageCheckService, half: HalfMessage) -> int:
    return self.world.clock.now_ms() - half.record.born_timestamp_ms


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, transaction_chance=(1.0,), messages_each=(8, 16))


MUTANT = Mutant(
    "half-msg-immunity-double-clock",
    "transactions",
    "a half message whose immunity ends while it is looked at is passed over",
    (Patch(TransactionalMessageCheckService, "_deal_with", _deal_with),),
    _narrow,
    ("TX",),
)

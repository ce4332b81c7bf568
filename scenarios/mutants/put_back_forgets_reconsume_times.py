"""put-back-forgets-reconsume-times: a half message that is put again after a question has lost a field on the way."""

from dataclasses import replace

from ...store.delivery import half_message
from ...store.delivery.half_message import HalfMessage, again
from ...store.message import Message
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _again(half: HalfMessage, topic: str, added: dict[str, str]) -> Message:
    return replace(again(half, topic, added), reconsume_times=0)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, transaction_chance=(0.5,), commit_log_bytes=(8192, 16384), sync_flush=(True,))


MUTANT = Mutant(
    "put-back-forgets-reconsume-times",
    "transactions",
    "a half message that is put back says that it was never consumed in vain",
    (Patch(half_message, "again", _again),),
    _narrow,
    ("PREFIX",),
)

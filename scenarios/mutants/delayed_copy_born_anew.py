"""delayed-copy-born-anew: a delayed message is delivered as if the store itself had sent it just now."""

from dataclasses import replace

from ...store.delivery import schedule
from ...store.delivery.redirect import delivered
from ...store.formats.message import MessageRecord
from ...store.message import Message
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _delivered(record: MessageRecord) -> Message | None:
    message = delivered(record)
    return None if message is None else replace(message, born_host=message.store_host)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, delay_chance=(0.5,), topics=(1,), messages_each=(8,))


MUTANT = Mutant(
    "delayed-copy-born-anew",
    "delayed delivery",
    "the copy of a delayed message has the store's host where its client's should be",
    (Patch(schedule, "delivered", _delivered),),
    _narrow,
    ("PREFIX",),
)

"""What is not the store's, among its queues, keeps it from opening.

Found in this store: a file of somebody's notes in `consumequeue`, a directory without a number below a topic, a copy
beside a queue's files.
"""

from collections.abc import Callable
from dataclasses import replace

from ...store.errors import CorruptFileError
from ...store.queues.consume_queue_table import ConsumeQueueTable
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

_LOAD = ConsumeQueueTable.load


def _load(
    self: ConsumeQueueTable, *, before_loss: Callable[[], None] | None = None
) -> list[CorruptFileError]:
    for stray in _LOAD(self, before_loss=before_loss):
        raise stray
    return []


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, endings=("stop and strays",))


MUTANT = Mutant(
    "strays-refused",
    "load",
    "a name among the queues that is none of theirs is refused, though nothing needs it",
    (Patch(ConsumeQueueTable, "load", _load),),
    _narrow,
    ("START",),
)

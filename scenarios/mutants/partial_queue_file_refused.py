"""A queue file that a crash left with some of its length keeps the store from opening.

Nothing is lost with it, for the log can tell its entries again.
Found in this store. An allocation that is cut short leaves such a file, empty or with entries in it.
"""

from dataclasses import replace

from ...store.queues.consume_queue import QueueSegments
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _is_expendable(self: QueueSegments, base_offset: int) -> bool:
    status = self._world.files.status(self.path(base_offset))
    return status is not None and not status.is_directory and status.size_bytes in (0, self.segment_bytes)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, consume_queue_bytes=(200, 1000), endings=("crash in traffic", "crash in load"))


MUTANT = Mutant(
    "partial-queue-file-refused",
    "load",
    "a queue file with a part of its length, as a crash inside its allocation leaves it, is refused",
    (Patch(QueueSegments, "is_expendable", _is_expendable),),
    _narrow,
    ("START",),
)

"""#44 append-advances-before-write: the write position moves first, the bytes come second.

A flush between the two syncs what is not there yet and counts it as durable.
"""

from dataclasses import replace

from ...store.log.segment import Segment
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _append(self: Segment, position: int, data: bytes | bytearray) -> None:
    self.wrote.set(position + len(data))
    self.file.store(position, data)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(True,), producers=(3,), messages_each=(16,), no_wait_chance=(0.5,))


MUTANT = Mutant(
    "append-advances-before-write",
    "append path",
    "positions cover bytes that are still to be written",
    (Patch(Segment, "append", _append),),
    _narrow,
    ("POS", "STATUS", "DUR", "LIVE", "PREFIX"),
)

"""#8 transient-fake-commit: a commit moves its position and writes nothing; the bytes stay in the buffer.

Readers find zeros where messages should be, and nothing is left after a restart.
"""

from dataclasses import replace

from ...store.log.buffered_segment import BufferedSegment
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _write(self: BufferedSegment, at: int, end: int) -> None:
    """Write nothing."""


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(False,), transient_pool=(True,))


MUTANT = Mutant(
    "transient-fake-commit",
    "transient buffer pool",
    "committing moves the committed position without writing the bytes to the file",
    (Patch(BufferedSegment, "_write", _write),),
    _narrow,
    ("POS", "LIVE", "DUR"),
)

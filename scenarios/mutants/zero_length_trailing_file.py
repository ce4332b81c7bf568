"""#19 zero-length-trailing-file: loading refuses a segment of another size, the empty one at the end included.

A crash between the creation of a file and its extension leaves just that.
"""

from dataclasses import replace

from ...store.log.segment import first_nonzero
from ...store.log.segment_queue import SegmentQueue
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _is_expendable(self: SegmentQueue, base_offset: int) -> bool:
    path = self.path(base_offset)
    status = self._world.files.status(path)
    if status is None or status.is_directory or status.size_bytes != self.segment_bytes:
        return False
    file = self._world.files.map(path, status.size_bytes)
    expendable = first_nonzero(file.view(0, status.size_bytes)) is None
    file.close()
    return expendable


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, commit_log_bytes=(2048,), endings=("crash in traffic",))


MUTANT = Mutant(
    "zero-length-trailing-file",
    "file allocation / load",
    "a segment that a crash left without a size keeps the store from opening",
    (Patch(SegmentQueue, "is_expendable", _is_expendable),),
    _narrow,
    ("START",),
)

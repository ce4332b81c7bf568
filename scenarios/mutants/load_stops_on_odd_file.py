"""#20 load-stops-on-odd-file: a segment of a wrong size ends the loading without an error.

It and all behind it are left out, and the log seems to end in front of it.
"""

from collections.abc import Callable
from dataclasses import replace

from ...store.log.segment import Segment
from ...store.log.segment_queue import SegmentQueue
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _load(
    self: SegmentQueue, *, expired_mtime_ms: int = -1, before_loss: Callable[[], None] | None = None
) -> None:
    files, segments = self._world.files, []
    for base in self._find_bases():
        path = self.path(base)
        status = files.status(path)
        if status is None or status.size_bytes != self.segment_bytes:
            break
        segment = Segment(self._world.tasks, files.map(path, self.segment_bytes), base, self._label)
        segment.set_positions(self.segment_bytes, self.segment_bytes)
        segments.append(segment)
    self.segments = tuple(segments)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges, commit_log_bytes=(2048,), body_bytes_max=(300, 900), endings=("stop and odd file",)
    )


MUTANT = Mutant(
    "load-stops-on-odd-file",
    "load",
    "segments behind one of a wrong size are forgotten without an error",
    (Patch(SegmentQueue, "load", _load),),
    _narrow,
    ("DUR", "START", "CLEAN"),
)

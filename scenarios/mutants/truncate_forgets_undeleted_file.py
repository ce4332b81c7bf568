"""#22 truncate-forgets-undeleted-file: cutting the log forgets the segments behind the cut, not their files.

When the log has grown to where such a file begins, it is opened with its old bytes. A reader that holds the segment is
what keeps RocketMQ from removing it; here nobody reads while a log is cut, so no file is removed at all.
"""

from dataclasses import replace

from ...store.log.allocate import AllocateMappedFileService
from ...store.log.segment import Segment, first_nonzero
from ...store.log.segment_queue import SegmentQueue
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _remove_last(self: SegmentQueue) -> bool:
    segment = self.segments[-1]
    dirty = first_nonzero(segment.file.view(0, segment.size_bytes)) is not None
    self.segments = self.segments[:-1]
    segment.file.close()
    return dirty


def _make(self: AllocateMappedFileService, base_offset: int) -> Segment:
    path = self._queue.path(base_offset)
    file = self.world.files.map(path, self._queue.segment_bytes)
    self.make_durable(path)
    return self._segment(file, base_offset)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        commit_log_bytes=(1024, 2048),
        body_bytes_max=(300,),
        property_bytes_max=(0,),
        equal_sizes=(True,),
        batch_chance=(0.0,),
        messages_each=(8,),
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "truncate-forgets-undeleted-file",
    "truncation / reference counting",
    "segments that were cut off stay on the disk and come back with their records",
    (Patch(SegmentQueue, "_remove_last", _remove_last), Patch(AllocateMappedFileService, "make", _make)),
    _narrow,
    ("PREFIX", "QOFF", "START", "CQ-COMPLETE"),
)

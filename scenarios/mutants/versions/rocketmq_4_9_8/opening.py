"""Opening a directory in 4.9.8: when the marker comes, what counts as durable, what is reused."""

from .....store.log.allocate import AllocateMappedFileService
from .....store.log.recovery import Recovery
from .....store.log.segment import Segment
from .....store.log.segment_queue import SegmentQueue
from .....store.message_store import MessageStore
from ....claims.ranges import Ranges
from ...mutant import Mutant, Patch

start = MessageStore.start
make = AllocateMappedFileService.make


def _start(self: MessageStore) -> None:
    mark_running = self.mark_running
    vars(self)["mark_running"] = _nothing
    try:
        start(self)
    finally:
        del vars(self)["mark_running"]
    mark_running()


def _nothing() -> None:
    """Leave the marker for later."""


MARKER_AFTER_SERVICES = Mutant(
    "marker-after-services",
    "startup / shutdown marker",
    "the marker of an unclean exit is created when the services are at work already",
    (Patch(MessageStore, "start", _start),),
    None,
    ("CQ-COMPLETE", "PREFIX", "DUR", "CKPT"),
)


def _set_log_positions(self: Recovery, trusted: int) -> None:
    for segment in self._log.segments:
        wrote = min(self._report.end_offset - segment.base_offset, segment.size_bytes)
        segment.set_positions(wrote, wrote)
    if self._log.segments:
        self._log.flushed_where.set(self._report.end_offset)


def _write_again(self: Recovery) -> None:
    """Take what can be read for what is on the disk."""


def _make_durable(self: SegmentQueue, first: int) -> None:
    """Sync nothing."""


def _two_lives(ranges: Ranges) -> Ranges:
    return ranges.replace(lives=(2, 3), endings=("crash in traffic", "crash at rest"))


PAGE_CACHE_TAKEN_FOR_DISK = Mutant(
    "page-cache-taken-for-disk",
    "recovery",
    "what recovery could read counts as durable, though only the page cache may have it",
    (
        Patch(Recovery, "_set_log_positions", _set_log_positions),
        Patch(Recovery, "write_again", _write_again),
        Patch(SegmentQueue, "make_durable", _make_durable),
    ),
    _two_lives,
    ("POS", "DUR", "PREFIX", "CKPT", "STATUS", "VIS"),
)


def _make(self: AllocateMappedFileService, base_offset: int) -> Segment:
    path = self._queue.path(base_offset)
    if self.world.files.status(path) is None:
        return make(self, base_offset)
    file = self.world.files.map(path, self._queue.segment_bytes)
    self.make_durable(path)
    return self._segment(file, base_offset)


LEFTOVER_REOPENED = Mutant(
    "leftover-reopened",
    "file allocation",
    "a file that is there already becomes the new segment with the bytes it has",
    (Patch(AllocateMappedFileService, "make", _make),),
    None,
    ("PREFIX", "QOFF", "START", "CQ-COMPLETE"),
)

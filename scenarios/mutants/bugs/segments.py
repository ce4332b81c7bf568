"""Bugs of segments: how they are made, loaded, appended to and removed."""

from collections.abc import Callable

from ....store.log.allocate import AllocateMappedFileService
from ....store.log.segment import Segment, first_nonzero
from ....store.log.segment_queue import SegmentQueue, name_of
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #44 append-advances-before-write: the write position moves first, the bytes come second. A flush between the
# two syncs what is not there yet and counts it as durable.
def _advance_then_append(self: Segment, position: int, data: bytes | bytearray) -> None:
    self.wrote.set(position + len(data))
    bit()
    self.file.store(position, data)


APPEND_ADVANCES_BEFORE_WRITE = Mutant(
    "append-advances-before-write",
    "positions cover bytes that are still to be written",
    (Patch(Segment, "append", _advance_then_append),),
    ("POS", "STATUS", "DUR", "LIVE", "QUIET", "PREFIX"),
    Ranges(sync_flush=(True,), producers=(3,), messages_each=(16,), messages={"no_wait_chance": (0.5,)}),
)


# #38 no-dir-fsync-on-rollover: a new segment's data and size are synced, its name is not.
def _sync_all_but_name(self: AllocateMappedFileService, path: str) -> None:
    self.world.files.sync(path)
    bit()


NO_DIR_FSYNC_ON_ROLLOVER = Mutant(
    "no-dir-fsync-on-rollover",
    "a power cut takes a new segment's name, and everything acknowledged in it",
    (Patch(AllocateMappedFileService, "make_durable", _sync_all_but_name),),
    ("DUR", "START", "PREFIX", "CQ-VALID"),
    Ranges(disk=("strict-posix",), sync_flush=(True,), commit_log_bytes=(2048,)),
)


# #19 zero-length-trailing-file: loading refuses a segment of another size, the empty one at the end included.
# A crash between the creation of a file and its extension leaves just that.
def _is_expendable_if_whole(self: SegmentQueue, base_offset: int) -> bool:
    path = self.path(base_offset)
    status = self._world.files.status(path)
    if status is None or status.is_directory or bit(status.size_bytes != self.segment_bytes):
        return False
    file = self._world.files.map(path, status.size_bytes)
    expendable = first_nonzero(file.view(0, status.size_bytes)) is None
    file.close()
    return expendable


ZERO_LENGTH_TRAILING_FILE = Mutant(
    "zero-length-trailing-file",
    "a segment that a crash left without a size keeps the store from opening",
    (Patch(SegmentQueue, "is_expendable", _is_expendable_if_whole),),
    ("START",),
    Ranges(commit_log_bytes=(2048,), endings=("crash in traffic",)),
)


# #20 load-stops-on-odd-file: a segment of a wrong size ends the loading without an error. It and all behind
# it are left out, and the log seems to end in front of it.
def _load_up_to_odd_file(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    files, segments = self._world.files, []
    for base in self._find_bases():
        path = self.path(base)
        status = files.status(path)
        if status is None or bit(status.size_bytes != self.segment_bytes):
            break
        segment = Segment(self._world.tasks, files.map(path, self.segment_bytes), base, self._label)
        segment.set_positions(self.segment_bytes, self.segment_bytes)
        segments.append(segment)
    self.segments = tuple(segments)


LOAD_STOPS_ON_ODD_FILE = Mutant(
    "load-stops-on-odd-file",
    "segments behind one of a wrong size are forgotten without an error",
    (Patch(SegmentQueue, "load", _load_up_to_odd_file),),
    ("DUR", "START", "CLEAN"),
    Ranges(commit_log_bytes=(2048,), messages={"body_bytes_max": (300, 900)}, endings=("stop and odd file",)),
)


# old-front-removed: a load removes the segments before a gap if all of them are older than fileReservedTime. A restored
# backup that lacks one segment loses all before it, without a finding. Found in this store.
_original_load = SegmentQueue.load
_RESERVED_MS = 72 * 3_600_000


def _load_without_old_front(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    _original_load(self, before_loss=before_loss)
    files, expired_ms = self._world.files, self._world.clock.now_ms() - _RESERVED_MS
    for gap in self.gaps:
        front = [segment for segment in self.segments if segment.base_offset < int(name_of(gap.file))]
        statuses = [files.status(segment.file.path) for segment in front]
        if all(status is not None and status.mtime_ms <= expired_ms for status in statuses):
            self.segments = self.segments[len(front) :]
            for segment in front:
                bit()
                self.remove_file(segment.base_offset)


OLD_FRONT_REMOVED = Mutant(
    "old-front-removed",
    "a load removes the segments before a gap if they are older than retention keeps any",
    (Patch(SegmentQueue, "load", _load_without_old_front),),
    ("DUR",),
    SCENARIOS["log-segment-missing"].ranges,
)


# gap-not-looked-for: a segment is found by division, as if no segment were missing before it. After a gap that is the
# wrong segment, or none. RocketMQ falls back to a search of the row.
def _find_by_division(self: SegmentQueue, offset: int) -> Segment | None:
    segments = self.segments
    if not segments:
        return None
    index = (offset - segments[0].base_offset) // self.segment_bytes
    found = segments[index] if 0 <= index < len(segments) else None
    bit(found is not _original_find(self, offset))
    return found


_original_find = SegmentQueue.find
GAP_NOT_LOOKED_FOR = Mutant(
    "gap-not-looked-for",
    "a record after a gap in the log is looked for in another segment, or not found",
    (Patch(SegmentQueue, "find", _find_by_division),),
    ("READ", "LIVE", "DUR", "START", "PREFIX", "STATUS", "QUIET"),
    SCENARIOS["log-segment-missing"].ranges,
)


# #22 truncate-forgets-undeleted-file: cutting the log forgets the segments behind the cut, not their files. When the
# log has grown to where such a file begins, it is opened with its old bytes. A reader that holds the segment is what
# keeps RocketMQ from removing it; here nobody reads while a log is cut, so no file is removed at all.
def _forget_last(self: SegmentQueue) -> bool:
    segment = self.segments[-1]
    dirty = bit(first_nonzero(segment.file.view(0, segment.size_bytes)) is not None)
    self.segments = self.segments[:-1]
    segment.file.close()
    return dirty


def _make_from_leftover(self: AllocateMappedFileService, base_offset: int) -> Segment:
    path = self._queue.path(base_offset)
    file = self.world.files.map(path, self._queue.segment_bytes)
    self.make_durable(path)
    return self._segment(file, base_offset)


TRUNCATE_FORGETS_UNDELETED_FILE = Mutant(
    "truncate-forgets-undeleted-file",
    "segments that were cut off stay on the disk and come back with their records",
    (
        Patch(SegmentQueue, "_remove_last", _forget_last),
        Patch(AllocateMappedFileService, "make", _make_from_leftover),
    ),
    ("PREFIX", "QOFF", "START", "CQ-COMPLETE", "SCAN"),
    Ranges(
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        commit_log_bytes=(1024, 2048),
        messages={
            "body_bytes_max": (300,),
            "property_bytes_max": (0,),
            "equal_sizes": (True,),
            "batch_chance": (0.0,),
        },
        messages_each=(8,),
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# cut-believes-zeros: a recovery that was killed while it cut has left zeros in the page cache only. The next one finds
# nothing to cut, and syncs nothing: a power cut brings back what was there.
_original_clear_from = Segment.clear_from


def _clear_what_it_sees(self: Segment, position: int, *, syncs_zeros: bool = False) -> bool:
    cleared = _original_clear_from(self, position)
    bit(syncs_zeros and not cleared)
    return cleared


CUT_BELIEVES_ZEROS = Mutant(
    "cut-believes-zeros",
    "what a killed recovery had cut comes back after the next one, and old entries are taken for new ones",
    (Patch(Segment, "clear_from", _clear_what_it_sees),),
    ("POS",),
    SCENARIOS["a-gap-in-the-numbers-hides-no-message"].ranges,
)

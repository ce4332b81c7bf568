"""Deviations of 4.9.8 that no entry of the catalogue speaks of, in the order in which the version has them.

Opening a directory: when the marker comes, what counts as durable, what is reused. Missing syncs. Delayed delivery over
a crash: when messages are due, and how far delivery had come. The pool's buffers.

Observed: of all that it does to a store directory, the only fsync of a file is the lock file's, and no directory is
ever synced. Names of segments and of the marker are in the catalogue; these are the others.

A side file is written aside, the current one copied over `.bak` and deleted, then renamed. Between the last two steps
there is no current version, and none of the steps is made durable. What is copied is not looked at, so that a damaged
file replaces the good backup it was passed over for.
"""

from functools import wraps
from typing import Any

from .....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from .....store.formats.delay_level import SCHEDULE_TOPIC
from .....store.index.index_service import IndexFiles
from .....store.log.allocate import AllocateMappedFileService
from .....store.log.segment import Segment
from .....store.log.segment_queue import SegmentQueue
from .....store.log.transient_pool import BufferedSegment
from .....store.message_store import MessageStore
from .....store.queues.consume_queue import ConsumeQueue
from .....store.queues.consume_queue_table import ConsumeQueueTable
from .....store.queues.flush_queues import FlushConsumeQueueService
from .....store.recovery.queue_replay import QueueReplay
from .....store.recovery.recovery import Recovery
from .....store.side_file import SideFile
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
    "the marker of an unclean exit is created when the services are at work already",
    (Patch(MessageStore, "start", _start),),
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


def _sync_nothing(self: SegmentQueue, first: int) -> None:
    """Sync nothing."""


PAGE_CACHE_TAKEN_FOR_DISK = Mutant(
    "page-cache-taken-for-disk",
    "what recovery could read counts as durable, though only the page cache may have it",
    (
        Patch(Recovery, "_set_log_positions", _set_log_positions),
        Patch(Recovery, "write_again", _write_again),
        Patch(SegmentQueue, "make_durable", _sync_nothing),
    ),
    ("POS", "DUR", "PREFIX", "CKPT", "STATUS", "VIS"),
    Ranges(lives=(2, 3), endings=("crash in traffic", "crash at rest")),
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
    "a file that is there already becomes the new segment with the bytes it has",
    (Patch(AllocateMappedFileService, "make", _make),),
    ("PREFIX", "QOFF", "START", "CQ-COMPLETE"),
)


_FLUSHES_AT_STOP = 3
finish = FlushConsumeQueueService.finish


def _remove(self: SegmentQueue, path: str) -> None:
    self._world.files.unlink(path)


def _remove_front(self: SegmentQueue) -> None:
    path = self.segments[0].file.path
    if self._world.files.status(path) is not None:
        self._world.files.unlink(path)
    with self._row_lock:
        self.segments = self.segments[1:]


REMOVALS_UNSYNCED = Mutant(
    "removals-unsynced",
    "a power cut brings back segments that were removed, and not those around them",
    (Patch(SegmentQueue, "_remove", _remove), Patch(SegmentQueue, "_remove_front", _remove_front)),
    ("START", "CLEAN", "PREFIX", "QOFF", "DUR", "CKPT"),
    Ranges(
        retention={"deletes_segments": (True,)},
        lives=(2, 3),
        commit_log_bytes=(1024, 2048),
        disk=("strict-posix",),
        messages={"body_bytes_max": (300, 900)},
        messages_each=(16,),
        pauses={"chance": (0.5,)},
    ),
)


def _make_durable(self: ConsumeQueueTable) -> None:
    with self.names_lock:
        for queue in self.all():
            queue.flush(0)


_WITH_CHECKPOINTS = Ranges(
    disk=("strict-posix",),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
    endings=("crash in traffic", "crash at rest"),
)


QUEUE_NAMES_UNSYNCED = Mutant(
    "queue-names-unsynced",
    "the checkpoint speaks for queue files whose names a power cut takes",
    (Patch(ConsumeQueueTable, "make_durable", _make_durable),),
    ("CKPT", "CQ-COMPLETE", "POS"),
    _WITH_CHECKPOINTS,
)


def _flush(self: ConsumeQueue, least_pages: int) -> None:
    if self.ext is not None:
        self.ext.queue.flush_all(least_pages)
    self.queue.flush(least_pages)


def _finish(self: FlushConsumeQueueService) -> None:
    for _ in range(_FLUSHES_AT_STOP - 1):
        for queue in self._queues.all():
            queue.flush(0)
    finish(self)


QUEUE_PASS_FLUSHES_ONE_FILE = Mutant(
    "queue-pass-flushes-one-file",
    "a pass flushes one file of each queue, and the checkpoint then speaks for all of them",
    (Patch(ConsumeQueue, "flush", _flush), Patch(FlushConsumeQueueService, "finish", _finish)),
    ("CKPT", "CQ-COMPLETE"),
    _WITH_CHECKPOINTS.replace(consume_queue_bytes=(100,), messages_each=(16,)),
)


def _sync_names(self: IndexFiles) -> None:
    """Leave the names to the system."""


INDEX_NAMES_UNSYNCED = Mutant(
    "index-names-unsynced",
    "the checkpoint speaks for an index file whose name a power cut takes",
    (Patch(IndexFiles, "sync_names", _sync_names),),
    ("CKPT", "IDX"),
)


def _store(self: SideFile, content: bytes) -> bool:
    files = self._files
    files.make_directories(self._directory)
    self._write_aside(content)
    if files.status(self.path) is not None:
        files.write(self.backup_path, files.read(self.path))
        files.unlink(self.path)
    files.rename(self.temporary_path, self.path)
    return True


SIDE_FILE_COPIED_AND_DELETED = Mutant(
    "side-file-copied-and-deleted",
    "a side file is deleted before its next version has the name, and its backup is never synced",
    (Patch(SideFile, "store", _store),),
    ("META", "SCHED", "TX", "REDEL"),
    Ranges(
        consuming={"commits_offsets": (True,)},
        consumers=(2,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        disk=("strict-posix",),
        lives=(2, 3),
        endings=("crash in persist", "crash in traffic"),
    ),
)


create = Recovery.__init__
add = QueueReplay.add


@wraps(create)
def _init(self: Recovery, *given: Any, clean_exit: bool, **others: Any) -> None:
    create(self, *given, clean_exit=clean_exit, **others)
    if not clean_exit:
        self._delays_ms = {}


def _add(self: QueueReplay, queue_offset: int, physical_offset: int, size_bytes: int, tags_code: int) -> None:
    """Leave entries of the schedule topic that are there as they are: a replay drops what a queue has already."""
    if self.queue.topic == SCHEDULE_TOPIC:
        there = self.queue.entry(queue_offset)
        if there is not None and there[:2] == (physical_offset, size_bytes):
            tags_code = there.tags_code
    add(self, queue_offset, physical_offset, size_bytes, tags_code)


DELAY_LEVELS_AFTER_RECOVERY = Mutant(
    "delay-levels-after-recovery",
    "after a crash, delayed messages whose queue entries are made anew are delivered at once",
    (Patch(Recovery, "__init__", _init), Patch(QueueReplay, "add", _add)),
    ("SCHED", "CQ-VALID"),
    Ranges(delay={"chance": (0.8,)}, endings=("crash in traffic",)),
)


def _persist(self: ScheduleMessageService) -> bool:
    self._undurable.clear()
    self._durable = dict(self.offsets)
    return self.file.store(encoded_offsets(self.offsets))


DELIVERY_PROGRESS_AHEAD = Mutant(
    "delivery-progress-ahead",
    "progress is persisted as far as copies were put, and a power cut takes copies and leaves it",
    (Patch(ScheduleMessageService, "persist", _persist),),
    ("SCHED", "META"),
    Ranges(
        delay={"chance": (0.8,)},
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (10_000,)},
        endings=("crash in traffic", "crash at rest"),
    ),
)


def _persist_correction(self: ScheduleMessageService) -> None:
    """Keep the correction in memory."""


UNCORRECTED_PROGRESS_KEPT = Mutant(
    "uncorrected-progress-kept",
    "progress that was brought back to its queue stays on the disk as it was, for the next crash to skip by",
    (Patch(ScheduleMessageService, "persist_correction", _persist_correction),),
    ("SCHED", "META", "QUIET"),
    Ranges(
        delay={"chance": (1.0,)},
        producers=(1,),
        messages_each=(1, 3),
        messages={"body_bytes_max": (0, 40), "property_bytes_max": (0,), "batch_chance": (0.0,)},
        lives=(3,),
        endings=("stop and damage", "crash in load", "crash in traffic"),
    ),
)


def _readable_store_timestamp_ms(self: BufferedSegment) -> int:
    return self.store_timestamp_ms


COMMIT_TIME_OF_LAST_PUT = Mutant(
    "commit-time-of-last-put",
    "the checkpoint's log time is that of the last put, which may be in memory only",
    (Patch(BufferedSegment, "readable_store_timestamp_ms", property(_readable_store_timestamp_ms)),),
    ("CKPT",),
)


def _write(self: BufferedSegment, at: int, end: int) -> None:
    self.file.pwrite(at, self._buffer[at:end])


SHORT_WRITE_UNNOTICED = Mutant(
    "short-write-unnoticed",
    "a commit counts as whole although the write wrote a part of it",
    (Patch(BufferedSegment, "_write", _write),),
    ("POS", "DUR", "LIVE", "QUIET", "CQ-VALID", "CQ-COMPLETE", "READ"),
    Ranges(sync_flush=(False,), memory={"transient_pool": (True,)}, faults={"short_write_chance": (0.2,)}),
)

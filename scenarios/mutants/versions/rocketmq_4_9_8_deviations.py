"""Deviations of RocketMQ 4.9.8 that are not in the catalogue.

Observed: in a store directory, 4.9.8 syncs only the lock file, never a directory. The catalogue has the bugs for
directory entries of segments and marker, this module for all other directory entries.

To replace a side file, 4.9.8 writes a temporary file, copies the current file over `.bak` unchecked, deletes the
current file and renames the temporary file. Until the rename the current file is missing, and no step is durable. A
damaged file can replace an intact backup.
"""

from typing import Any

from ....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.index.index_service import IndexFiles
from ....store.log.allocate import AllocateMappedFileService
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.log.transient_pool import BufferedSegment
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.consume_queue_table import ConsumeQueueTable
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.recovery.queue_replay import QueueReplay
from ....store.recovery.recovery import Recovery
from ....store.side_file import SideFile
from ...claims.ranges import Ranges
from ..mutant import bug, needs


@bug("marker-after-services", MessageStore, "start", found_by=("CQ-COMPLETE", "PREFIX", "DUR", "CKPT"))
def start(self: MessageStore) -> None:
    """The marker of an unclean exit is created after the services have started."""
    mark_running = self.mark_running
    vars(self)["mark_running"] = _skip_marker
    try:
        start.original(self)
    finally:
        del vars(self)["mark_running"]
    mark_running()


def _skip_marker() -> None: ...


@bug(
    "page-cache-taken-for-disk",
    Recovery,
    "_set_log_positions",
    found_by=("POS", "DUR", "PREFIX", "CKPT", "STATUS", "VIS"),
)
@needs(lives=(2, 3), endings=("crash in traffic", "crash at rest"))
def set_log_positions(self: Recovery, trusted: int) -> None:
    """Data that recovery reads counts as durable although it may be only in the page cache."""
    for segment in self._log.segments:
        wrote = min(self._report.end_offset - segment.base_offset, segment.size_bytes)
        segment.set_positions(wrote, wrote)
    if self._log.segments:
        self._log.flushed_where.set(self._report.end_offset)


@set_log_positions.also(Recovery, "write_again")
def _write_again(self: Recovery) -> None:
    """No-op: data in the page cache counts as durable."""


@set_log_positions.also(SegmentQueue, "make_durable")
def _sync_nothing(self: SegmentQueue, first: int) -> None:
    """No-op in place of a sync."""


@bug(
    "leftover-reopened", AllocateMappedFileService, "make_segment", found_by=("PREFIX", "QOFF", "START", "CQ-COMPLETE")
)
def make(self: AllocateMappedFileService, base_offset: int) -> Segment:
    """An existing file becomes the new segment with its old bytes."""
    path = self._queue.path(base_offset)
    if self.world.files.status(path) is None:
        return make.original(self, base_offset)
    file = self.world.files.map(path, self._queue.segment_bytes)
    self.make_durable(path)
    return self._wrap_in_segment(file, base_offset)


_WITH_CHECKPOINTS = Ranges(
    disk=("strict-posix",),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
    endings=("crash in traffic", "crash at rest"),
)
_FLUSHES_AT_STOP = 3


@bug("removals-unsynced", SegmentQueue, "_remove", found_by=("START", "CLEAN", "PREFIX", "QOFF", "DUR", "CKPT"))
@needs(
    retention={"deletes_segments": (True,)},
    lives=(2, 3),
    commit_log_bytes=(1024, 2048),
    disk=("strict-posix",),
    messages={"body_bytes_max": (300, 900)},
    messages_each=(16,),
    pauses={"chance": (0.5,)},
)
def remove(self: SegmentQueue, path: str) -> None:
    """A power cut restores some removed segments, which leaves gaps."""
    self._world.files.unlink(path)


@remove.also(SegmentQueue, "_remove_first_segment")
def _remove_first_segment(self: SegmentQueue) -> None:
    path = self.segments[0].file.path
    if self._world.files.status(path) is not None:
        self._world.files.unlink(path)
    with self._segments_lock:
        self.segments = self.segments[1:]


@bug("queue-names-unsynced", ConsumeQueueTable, "make_durable", found_by=("CKPT", "CQ-COMPLETE", "POS"))
@needs(_WITH_CHECKPOINTS)
def make_durable(self: ConsumeQueueTable) -> None:
    """The checkpoint covers queue files, but a power cut removes their directory entries."""
    with self.names_lock:
        for queue in self.all_queues():
            queue.flush(0)


@bug("queue-pass-flushes-one-file", ConsumeQueue, "flush", found_by=("CKPT", "CQ-COMPLETE", "QUIET"))
@needs(_WITH_CHECKPOINTS, consume_queue_bytes=(100,), messages_each=(16,))
def flush(self: ConsumeQueue, least_pages: int) -> None:
    """A pass flushes one file of each queue, but the checkpoint then covers all files."""
    if self.ext is not None:
        self.ext.queue.flush_all(least_pages)
    self.queue.flush(least_pages)


@flush.also(FlushConsumeQueueService, "finish_remaining_work")
def _finish(self: FlushConsumeQueueService) -> None:
    for _ in range(_FLUSHES_AT_STOP - 1):
        for queue in self._queues.all_queues():
            queue.flush(0)
    _finish.original(self)


@bug("index-names-unsynced", IndexFiles, "sync_names", found_by=("CKPT", "IDX"))
def sync_names(self: IndexFiles) -> None:
    """The checkpoint covers an index file, but a power cut removes its directory entry."""


@bug("side-file-copied-and-deleted", SideFile, "store", found_by=("META", "SCHED", "TX", "REDEL"))
@needs(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    disk=("strict-posix",),
    lives=(2, 3),
    endings=("crash in persist", "crash in traffic"),
)
def store(self: SideFile, content: bytes) -> bool:
    """A side file is deleted before the rename of its next version, and its backup is never synced."""
    files = self._files
    files.make_directories(self._directory)
    self._write_temporary(content)
    if files.status(self.path) is not None:
        files.write(self.backup_path, files.read(self.path))
        files.unlink(self.path)
    files.rename(self.temporary_path, self.path)
    return True


@bug("delay-levels-after-recovery", Recovery, "__init__", found_by=("SCHED", "CQ-VALID"))
@needs(delay={"chance": (0.8,)}, endings=("crash in traffic",))
def init(self: Recovery, *given: Any, clean_exit: bool, **others: Any) -> None:
    """After a crash, the broker delivers delayed messages with rebuilt queue entries at once."""
    init.original(self, *given, clean_exit=clean_exit, **others)
    if not clean_exit:
        self._delays_ms = {}


@init.also(QueueReplay, "add")
def _add(self: QueueReplay, queue_offset: int, physical_offset: int, size_bytes: int, tags_code: int) -> None:
    """Keep existing entries of the schedule topic. A replay does not add existing entries again."""
    if self.queue.topic == SCHEDULE_TOPIC:
        there = self.queue.entry(queue_offset)
        if there is not None and there[:2] == (physical_offset, size_bytes):
            tags_code = there.tags_code
    _add.original(self, queue_offset, physical_offset, size_bytes, tags_code)


@bug("delivery-progress-ahead", ScheduleMessageService, "persist", found_by=("SCHED", "META"))
@needs(
    delay={"chance": (0.8,)},
    sync_flush=(False,),
    disk=("ext4-ordered", "strict-posix"),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (10_000,)},
    endings=("crash in traffic", "crash at rest"),
)
def persist(self: ScheduleMessageService) -> bool:
    """The progress of delayed delivery is persisted before the delivered copies are durable."""
    self._undurable.clear()
    self._durable = dict(self.offsets)
    return self.file.store(encoded_offsets(self.offsets))


@bug("uncorrected-progress-kept", ScheduleMessageService, "persist_correction", found_by=("SCHED", "META", "QUIET"))
@needs(
    delay={"chance": (1.0,)},
    producers=(1,),
    messages_each=(1, 3),
    messages={"body_bytes_max": (0, 40), "property_bytes_max": (0,), "batch_chance": (0.0,)},
    lives=(3,),
    endings=("stop and damage", "crash in load", "crash in traffic"),
)
def persist_correction(self: ScheduleMessageService) -> None:
    """The corrected progress of a delay queue is not persisted, so a crash skips messages."""


@bug("commit-time-of-last-put", BufferedSegment, "readable_store_timestamp_ms", found_by=("CKPT",))
def readable_store_timestamp_ms(self: BufferedSegment) -> int:
    """The checkpoint's log time is the time of the last put. Its record may be only in memory."""
    return self.store_timestamp_ms


@bug(
    "short-write-unnoticed",
    BufferedSegment,
    "_write",
    found_by=("POS", "DUR", "LIVE", "QUIET", "CQ-VALID", "CQ-COMPLETE", "READ"),
)
@needs(sync_flush=(False,), memory={"transient_pool": (True,)}, faults={"short_write_chance": (0.2,)})
def write(self: BufferedSegment, at: int, end: int) -> None:
    """A commit counts as complete after a short write."""
    self.file.pwrite(at, self._buffer[at:end])

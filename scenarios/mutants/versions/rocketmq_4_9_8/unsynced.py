"""Missing syncs of 4.9.8: names, queues in a pass, side files, the pool's buffers.

Observed: of all that it does to a store directory, the only fsync of a file is the lock file's, and no directory is
ever synced. Names of segments and of the marker are in the catalogue; these are the others.

A side file is written aside, the current one copied over `.bak` and deleted, then renamed. Between the last two steps
there is no current version, and none of the steps is made durable. What is copied is not looked at, so that a damaged
file replaces the good backup it was passed over for.
"""

from .....store.index.index_files import IndexFiles
from .....store.log.segment_queue import SegmentQueue
from .....store.log.transient_pool import BufferedSegment
from .....store.queues.consume_queue import ConsumeQueue
from .....store.queues.consume_queue_table import ConsumeQueueTable
from .....store.queues.flush_queues import FlushConsumeQueueService
from .....store.side_file import SideFile
from ....claims.ranges import Ranges
from ...mutant import Mutant, Patch

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


def _with_retention(ranges: Ranges) -> Ranges:
    return ranges.replace(
        retention={"deletes_segments": (True,)},
        lives=(2, 3),
        commit_log_bytes=(1024, 2048),
        disk=("strict-posix",),
        messages={"body_bytes_max": (300, 900)},
        messages_each=(16,),
        pauses={"chance": (0.5,)},
    )


REMOVALS_UNSYNCED = Mutant(
    "removals-unsynced",
    "truncation / retention",
    "a power cut brings back segments that were removed, and not those around them",
    (Patch(SegmentQueue, "_remove", _remove), Patch(SegmentQueue, "_remove_front", _remove_front)),
    _with_retention,
    ("START", "CLEAN", "PREFIX", "QOFF", "DUR", "CKPT"),
)


def _make_durable(self: ConsumeQueueTable) -> None:
    for queue in self.all():
        queue.flush(0)


def _with_checkpoints(ranges: Ranges) -> Ranges:
    return ranges.replace(
        disk=("strict-posix",),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (2000,)},
        endings=("crash in traffic", "crash at rest"),
    )


QUEUE_NAMES_UNSYNCED = Mutant(
    "queue-names-unsynced",
    "consume queue",
    "the checkpoint speaks for queue files whose names a power cut takes",
    (Patch(ConsumeQueueTable, "_make_durable", _make_durable),),
    _with_checkpoints,
    ("CKPT", "CQ-COMPLETE", "POS"),
)


def _flush(self: ConsumeQueue, least_pages: int) -> None:
    if self.ext is not None:
        self.ext.flush(least_pages)
    self.queue.flush(least_pages)


def _finish(self: FlushConsumeQueueService) -> None:
    for _ in range(_FLUSHES_AT_STOP - 1):
        for queue in self._queues.all():
            queue.flush(0)
    finish(self)


def _with_short_queue_files(ranges: Ranges) -> Ranges:
    return _with_checkpoints(ranges).replace(consume_queue_bytes=(100,), messages_each=(16,))


QUEUE_PASS_FLUSHES_ONE_FILE = Mutant(
    "queue-pass-flushes-one-file",
    "consume queue / checkpoint",
    "a pass flushes one file of each queue, and the checkpoint then speaks for all of them",
    (Patch(ConsumeQueue, "flush", _flush), Patch(FlushConsumeQueueService, "finish", _finish)),
    _with_short_queue_files,
    ("CKPT", "CQ-COMPLETE"),
)


def _sync_names(self: IndexFiles) -> None:
    """Leave the names to the system."""


INDEX_NAMES_UNSYNCED = Mutant(
    "index-names-unsynced",
    "index",
    "the checkpoint speaks for an index file whose name a power cut takes",
    (Patch(IndexFiles, "sync_names", _sync_names),),
    None,
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


def _narrow(ranges: Ranges) -> Ranges:
    return ranges.replace(
        consuming={"commits_offsets": (True,)},
        consumers=(2,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        disk=("strict-posix",),
        lives=(2, 3),
        endings=("crash in persist", "crash in traffic"),
    )


SIDE_FILE_COPIED_AND_DELETED = Mutant(
    "side-file-copied-and-deleted",
    "progress files",
    "a side file is deleted before its next version has the name, and its backup is never synced",
    (Patch(SideFile, "store", _store),),
    _narrow,
    ("META", "SCHED", "TX", "REDEL"),
)


def _readable_store_timestamp_ms(self: BufferedSegment) -> int:
    return self.store_timestamp_ms


COMMIT_TIME_OF_LAST_PUT = Mutant(
    "commit-time-of-last-put",
    "transient buffer pool / checkpoint",
    "the checkpoint's log time is that of the last put, which may be in memory only",
    (Patch(BufferedSegment, "readable_store_timestamp_ms", property(_readable_store_timestamp_ms)),),
    None,
    ("CKPT",),
)


def _write(self: BufferedSegment, at: int, end: int) -> None:
    self.file.pwrite(at, self._buffer[at:end])


def _with_short_writes(ranges: Ranges) -> Ranges:
    return ranges.replace(sync_flush=(False,), memory={"transient_pool": (True,)}).replace(
        faults={"short_write_chance": (0.2,)}
    )


SHORT_WRITE_UNNOTICED = Mutant(
    "short-write-unnoticed",
    "transient buffer pool",
    "a commit counts as whole although the write wrote a part of it",
    (Patch(BufferedSegment, "_write", _write),),
    _with_short_writes,
    ("POS", "DUR", "LIVE", "CQ-VALID", "CQ-COMPLETE", "READ"),
)

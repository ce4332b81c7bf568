"""Bugs of opening a store directory: its marker, its lock, and refused files."""

from collections.abc import Callable

from ....store import message_store
from ....store.directories import directory_of
from ....store.errors import CorruptFileError, StoreLockedError
from ....store.log.segment_queue import SegmentQueue
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import QueueSegments
from ....store.queues.consume_queue_table import ConsumeQueueTable
from ....store.recovery.queue_replay import QueueReplay
from ....store.recovery.recovery import Recovery, RecoveryReport
from ....store.world import Files
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs


@bug(
    "abort-marker-unsynced",
    MessageStore,
    "mark_running",
    found_by=("PREFIX", "DUR", "CQ-COMPLETE", "CQ-VALID", "QOFF", "START", "SCAN"),
)
@needs(
    sync_flush=(False,),
    disk=("strict-posix",),
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300, 900)},
    messages_each=(16,),
    producers=(2, 3),
    recover_whole_log=(False,),
    endings=("crash in traffic", "crash at rest"),
)
def mark_without_sync(self: MessageStore) -> None:
    """A power cut removes the unclean-exit marker, so the next start trusts the log as after a clean stop."""
    files = self.world.files
    files.sync_directory(self.config.store_path_root_dir)
    files.write(self.config.abort_path, b"")
    bit()


# The second process treats the growing end of the log as crash damage, and removes the preallocated segments.
@bug(
    "second-instance-recovers-before-lock",
    MessageStore,
    "_lock_directory",
    found_by=("ISO", "POS", "STATUS", "DUR", "LIVE", "CKPT"),
)
@needs(starts={"second": (True,)})
def make_directory(self: MessageStore) -> None:
    """A second process runs recovery on a directory in use before it acquires the lock."""
    self.world.files.make_directories(self.config.store_path_root_dir)


@make_directory.also(MessageStore, "recover")
def _recover_then_lock(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    report = _recover_then_lock.original(self, clean_exit=clean_exit)
    try:
        make_directory.original(self)
    except StoreLockedError:
        bit()
        raise
    return report


# Found in this store, with a text file in `consumequeue`, a directory with an invalid name, and a copied queue file.
@bug("strays-refused", ConsumeQueueTable, "load", found_by=("START",))
@needs(endings=("stop and strays",))
def load_refusing_strays(
    self: ConsumeQueueTable, *, before_loss: Callable[[], None] | None = None
) -> list[CorruptFileError]:
    """A foreign file or directory among the queues prevents the store from opening."""
    for stray in load_refusing_strays.original(self, before_loss=before_loss):
        bit()
        raise stray
    return []


# Found in this store. The store can rebuild the entries from the log.
@bug("partial-queue-file-refused", QueueSegments, "is_expendable", found_by=("START",))
@needs(consume_queue_bytes=(200, 1000), endings=("crash in traffic", "crash in load"))
def is_expendable_if_empty_or_whole(self: QueueSegments, base_offset: int) -> bool:
    """A queue file that a crash in its allocation left too short prevents the store from opening."""
    status = self._world.files.status(self.path(base_offset))
    if status is None or status.is_directory:
        return False
    return not bit(status.size_bytes not in (0, self.segment_bytes))


@is_expendable_if_empty_or_whole.also(QueueSegments, "can_extend")
def _never_extend(self: QueueSegments, base_offset: int) -> bool:
    return False


# Found in this store: it synced only the last name of a path, and for a relative path `/` instead of the working
# directory.
@bug(
    "last-parent-synced-only",
    message_store,
    "make_directory",
    found_by=("DUR", "PREFIX", "META", "START", "CKPT", "IDX"),
)
@needs(directories={"root": ("mq", "/data/new/store")}, sync_flush=(True,), disk=("strict-posix",))
def sync_last_parent(files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None) -> None:
    """A power cut removes a new parent directory of the store, and so all acknowledged messages."""
    files.make_directories(path)
    once_made()
    parent = path.rpartition("/")[0] or "/"
    if parent != below:
        files.sync_directory(parent)
        bit(parent != directory_of(path) or parent != "/")


# The process was killed between the creation of the store's directory and the sync of the parent.
@bug(
    "existing-levels-trusted",
    message_store,
    "make_directory",
    found_by=("DUR", "PREFIX", "META", "START", "CKPT", "IDX"),
)
@needs(
    directories={"root": ("mq", "/data/new/store"), "killed_in_creation": (True,)},
    sync_flush=(True,),
    disk=("strict-posix",),
)
def sync_new_levels(files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None) -> None:
    """A power cut removes a store directory that a killed process created without a sync."""
    parents: list[str] = []
    level = path
    while (parent := directory_of(level)) not in (level, below):
        if not bit(files.status(level) is not None):
            parents.insert(0, parent)
        level = parent
    files.make_directories(path)
    once_made()
    for parent in parents:
        files.sync_directory(parent)


# If all messages of the queue have expired, only the queue file has the next offset.
@bug(
    "short-queue-file-removed",
    QueueSegments,
    "can_extend",
    found_by=("QOFF", "META", "REDEL", "CLEAN", "TX", "READ", "CQ-VALID", "CQ-COMPLETE"),
)
@needs(
    retention={"deletes_segments": (True,)},
    queues_per_topic=(4,),
    commit_log_bytes=(1024,),
    consume_queue_bytes=(1000,),
    messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
    messages_each=(16,),
    endings=("stop and larger queue files",),
    lives=(2,),
)
def remove_short_queue_files(self: QueueSegments, base_offset: int) -> bool:
    """After mappedFileSizeConsumeQueue is raised, a queue without messages in the log restarts at queue offset 0."""
    bit(remove_short_queue_files.original(self, base_offset))
    return False


# Found in this store: retention could free space, but runs only in an open store.
@bug("full-disk-ends-load", QueueReplay, "_overwrite_entries", found_by=("START",))
@needs(SCENARIOS["full-disk-space-returns"].ranges)
def place_or_fail(self: QueueReplay, queue_offset: int, raw: bytes | bytearray) -> None:
    """A store without disk space for its queues does not open."""
    place_or_fail.original(self, queue_offset, raw)
    if self.lacks_room is not None:
        bit()
        raise self.lacks_room


# Messages in the log already have the queue offsets of the new messages.
@bug(
    "counts-by-short-queue",
    Recovery,
    "_leave_to_dispatch",
    found_by=("STATUS", "QOFF", "CQ-COMPLETE", "QUIET", "READ", "LIVE"),
)
@needs(SCENARIOS["full-disk-space-returns"].ranges)
def note_without_count(self: Recovery, replay: QueueReplay, error: OSError) -> None:
    """After a load on a full disk, new messages get queue offsets of existing messages."""
    note_without_count.original(self, replay, error)
    queue = replay.queue
    bit(self._report.counted.pop((queue.topic, queue.queue_id)) > queue.max_offset)


@bug("whole-file-reported-short", SegmentQueue, "load", found_by=("SCAN",))
@needs(endings=("stop",), lives=(2,), consume_queue_bytes=(100,))
def load_with_reports(self: SegmentQueue, *, before_loss: Callable[[], None] | None = None) -> None:
    """A start reports every queue file as too short, so an operator looks for damage that is not there."""
    load_with_reports.original(self, before_loss=before_loss)
    bit(bool(self.segments))
    for segment in self.segments:
        self.extended.append(
            CorruptFileError(segment.file.path, 0, "file size", self.segment_bytes, self.segment_bytes)
        )


# apache/rocketmq issue 467.
@bug("full-disk-backlog-not-dispatched", Recovery, "_leave_to_dispatch", found_by=("CQ-COMPLETE", "VIS", "READ"))
@needs(SCENARIOS["full-disk-space-returns"].ranges)
def leave_to_next_start(self: Recovery, replay: QueueReplay, error: OSError) -> None:
    """Dispatch does not add the queue entries that a load on a full disk could not store."""
    before = self._report.dispatched_to
    leave_to_next_start.original(self, replay, error)
    bit(self._report.dispatched_to < before)
    self._report.dispatched_to = before

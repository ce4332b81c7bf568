"""Bugs of opening a directory: its marker, its lock, and refused files."""

from collections.abc import Callable

from ....store import message_store
from ....store.directories import directory_of
from ....store.errors import CorruptFileError, StoreLockedError
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import QueueSegments
from ....store.queues.consume_queue_table import ConsumeQueueTable
from ....store.recovery.queue_replay import QueueReplay
from ....store.recovery.recovery import Recovery, RecoveryReport
from ....store.world import Files
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs


# The marker is created without a sync of its directory.
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
    """A power cut takes the marker, and the log is trusted as after a clean stop."""
    files = self.world.files
    files.sync_directory(self.config.store_path_root_dir)
    files.write(self.config.abort_path, b"")
    bit()


# It takes the growing end of the log for the result of a crash and removes the segments made in advance.
@bug(
    "second-instance-recovers-before-lock",
    MessageStore,
    "_lock_directory",
    found_by=("ISO", "POS", "STATUS", "DUR", "LIVE", "CKPT"),
)
@needs(starts={"second": (True,)})
def make_directory(self: MessageStore) -> None:
    """A second start on a live directory recovers it before it takes the lock."""
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


# Found in this store: a text file in `consumequeue`, a directory that is not a number, a copy of a queue file.
@bug("strays-refused", ConsumeQueueTable, "load", found_by=("START",))
@needs(endings=("stop and strays",))
def load_refusing_strays(
    self: ConsumeQueueTable, *, before_loss: Callable[[], None] | None = None
) -> list[CorruptFileError]:
    """A foreign name among the queues keeps the store from opening."""
    for stray in load_refusing_strays.original(self, before_loss=before_loss):
        bit()
        raise stray
    return []


# Found in this store. The entries can be rebuilt from the log.
@bug("partial-queue-file-refused", QueueSegments, "is_expendable", found_by=("START",))
@needs(consume_queue_bytes=(200, 1000), endings=("crash in traffic", "crash in load"))
def is_expendable_if_empty_or_whole(self: QueueSegments, base_offset: int) -> bool:
    """A queue file with a part of its length, as after a crash in its allocation, keeps the store from opening."""
    status = self._world.files.status(self.path(base_offset))
    if status is None or status.is_directory:
        return False
    return not bit(status.size_bytes not in (0, self.segment_bytes))


@is_expendable_if_empty_or_whole.also(QueueSegments, "can_extend")
def _never_extend(self: QueueSegments, base_offset: int) -> bool:
    return False


# Found in this store: only the last name of a path is synced, and for a relative path `/` instead of the working
# directory.
@bug(
    "last-parent-synced-only",
    message_store,
    "make_directory",
    found_by=("DUR", "PREFIX", "META", "START", "CKPT", "IDX"),
)
@needs(directories={"root": ("mq", "/data/new/store")}, sync_flush=(True,), disk=("strict-posix",))
def sync_last_parent(files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None) -> None:
    """A power cut removes a level of a new root, and with it the store and its acknowledged messages."""
    files.make_directories(path)
    once_made()
    parent = path.rpartition("/")[0] or "/"
    if parent != below:
        files.sync_directory(parent)
        bit(parent != directory_of(path) or parent != "/")


# A process died between creation and sync.
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
    """A power cut takes a root that a killed process created without a sync."""
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


# If all messages of the queue have left the log, its count is lost with the file.
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
def remove_what_is_short(self: QueueSegments, base_offset: int) -> bool:
    """After mappedFileSizeConsumeQueue was raised, a queue without messages in the log counts from 0 again."""
    bit(remove_what_is_short.original(self, base_offset))
    return False


# Found in this store: retention, which could make room, never runs.
@bug("full-disk-ends-load", QueueReplay, "_place", found_by=("START",))
@needs(SCENARIOS["full-disk-space-returns"].ranges)
def place_or_fail(self: QueueReplay, queue_offset: int, raw: bytes | bytearray) -> None:
    """A store does not open on a disk without room for its queues."""
    place_or_fail.original(self, queue_offset, raw)
    if self.lacks_room is not None:
        bit()
        raise self.lacks_room


# Later messages have these numbers already.
@bug(
    "counts-by-short-queue",
    Recovery,
    "_note_queue_without_room",
    found_by=("STATUS", "QOFF", "CQ-COMPLETE", "QUIET", "READ", "LIVE"),
)
@needs(SCENARIOS["full-disk-space-returns"].ranges)
def note_without_count(self: Recovery, replay: QueueReplay, error: OSError) -> None:
    """After a load without room for queue files, queue offsets are given twice."""
    note_without_count.original(self, replay, error)
    queue = replay.queue
    bit(self._report.counted.pop((queue.topic, queue.queue_id)) > queue.max_offset)

"""Bugs of opening a directory: its marker, its lock, and files that are refused."""

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
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #15 abort-marker-unsynced: the marker of an unclean exit is created without a directory sync. A power cut
# can take its name and leave the log's pages; the next start believes in a clean stop and trusts the log.
def _mark_without_sync(self: MessageStore) -> None:
    files = self.world.files
    files.sync_directory(self.config.store_path_root_dir)
    files.write(self.config.abort_path, b"")
    bit()


ABORT_MARKER_UNSYNCED = Mutant(
    "abort-marker-unsynced",
    "a power cut takes the marker, and the log it leaves is trusted as after a clean stop",
    (Patch(MessageStore, "mark_running", _mark_without_sync),),
    ("PREFIX", "DUR", "CQ-COMPLETE", "CQ-VALID", "QOFF", "START", "SCAN"),
    Ranges(
        sync_flush=(False,),
        disk=("strict-posix",),
        commit_log_bytes=(2048,),
        messages={"body_bytes_max": (300, 900)},
        messages_each=(16,),
        producers=(2, 3),
        recover_whole_log=(False,),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# #21 second-instance-recovers-before-lock: the directory is locked after recovery instead of before it. The
# second instance finds the marker of the first, takes the tail it reads for a crash's, and removes the
# segments that were made ahead, before the lock shows that another process is at work here.
_original_lock_directory = MessageStore._lock_directory
_original_recover = MessageStore.recover


def _make_directory(self: MessageStore) -> None:
    self.world.files.make_directories(self.config.store_path_root_dir)


def _recover_then_lock(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    report = _original_recover(self, clean_exit=clean_exit)
    try:
        _original_lock_directory(self)
    except StoreLockedError:
        bit()
        raise
    return report


SECOND_INSTANCE_RECOVERS_BEFORE_LOCK = Mutant(
    "second-instance-recovers-before-lock",
    "a second start on a live directory recovers it before it finds out that it is locked",
    (
        Patch(MessageStore, "_lock_directory", _make_directory),
        Patch(MessageStore, "recover", _recover_then_lock),
    ),
    ("ISO", "POS", "STATUS", "DUR", "LIVE", "CKPT"),
    Ranges(starts={"second": (True,)}),
)


# strays-refused: what is not the store's, among its queues, keeps it from opening. Found in this store: a file of
# somebody's notes in `consumequeue`, a directory without a number below a topic, a copy beside a queue's files.
_original_load = ConsumeQueueTable.load


def _load_refusing_strays(
    self: ConsumeQueueTable, *, before_loss: Callable[[], None] | None = None
) -> list[CorruptFileError]:
    for stray in _original_load(self, before_loss=before_loss):
        bit()
        raise stray
    return []


STRAYS_REFUSED = Mutant(
    "strays-refused",
    "a name among the queues that is none of theirs is refused, though nothing needs it",
    (Patch(ConsumeQueueTable, "load", _load_refusing_strays),),
    ("START",),
    Ranges(endings=("stop and strays",)),
)


# partial-queue-file-refused: a queue file that a crash left with some of its length keeps the store from
# opening. Nothing is lost with it, for its entries can be made from the log again. Found in this store. An allocation
# that is cut short leaves such a file, empty or with entries in it.
def _is_expendable_if_empty_or_whole(self: QueueSegments, base_offset: int) -> bool:
    status = self._world.files.status(self.path(base_offset))
    if status is None or status.is_directory:
        return False
    return not bit(status.size_bytes not in (0, self.segment_bytes))


def _never_extend(self: QueueSegments, base_offset: int) -> bool:
    return False


PARTIAL_QUEUE_FILE_REFUSED = Mutant(
    "partial-queue-file-refused",
    "a queue file with a part of its length, as a crash inside its allocation leaves it, is refused",
    (
        Patch(QueueSegments, "is_expendable", _is_expendable_if_empty_or_whole),
        Patch(QueueSegments, "can_extend", _never_extend),
    ),
    ("START",),
    Ranges(consume_queue_bytes=(200, 1000), endings=("crash in traffic", "crash in load")),
)


# last-parent-synced-only: of a new path of several levels only the last name is synced, and that of a relative path in
# `/` instead of the working directory. A power cut takes the first level, and with it the whole store. Found in this
# store.
def _sync_last_parent(
    files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None
) -> None:
    files.make_directories(path)
    once_made()
    parent = path.rpartition("/")[0] or "/"
    if parent != below:
        files.sync_directory(parent)
        bit(parent != directory_of(path) or parent != "/")


LAST_PARENT_SYNCED_ONLY = Mutant(
    "last-parent-synced-only",
    "a power cut takes a level of a new root, and with it the store and its acknowledged messages",
    (Patch(message_store, "make_directory", _sync_last_parent),),
    ("DUR", "PREFIX", "META", "START", "CKPT", "IDX"),
    Ranges(directories={"root": ("mq", "/data/new/store")}, sync_flush=(True,), disk=("strict-posix",)),
)


# existing-levels-trusted: only the levels that did not exist are synced. A process that died between creation and sync
# leaves levels that exist and are not durable.
def _sync_new_levels(files: Files, path: str, *, below: str = "", once_made: Callable[[], None] = lambda: None) -> None:
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


EXISTING_LEVELS_TRUSTED = Mutant(
    "existing-levels-trusted",
    "a killed process created the root and did not sync it, the next one relies on it, and a power cut takes it",
    (Patch(message_store, "make_directory", _sync_new_levels),),
    ("DUR", "PREFIX", "META", "START", "CKPT", "IDX"),
    Ranges(
        directories={"root": ("mq", "/data/new/store"), "killed_in_creation": (True,)},
        sync_flush=(True,),
        disk=("strict-posix",),
    ),
)


# short-queue-file-removed: a queue file that is too short for the settings goes, with all after it, and is made again
# from the log. The number that its queue has counted to goes with it, if all messages of the queue have left the log.
_original_can_extend = QueueSegments.can_extend


def _remove_what_is_short(self: QueueSegments, base_offset: int) -> bool:
    bit(_original_can_extend(self, base_offset))
    return False


SHORT_QUEUE_FILE_REMOVED = Mutant(
    "short-queue-file-removed",
    "after mappedFileSizeConsumeQueue was raised a queue without messages in the log counts from 0 again",
    (Patch(QueueSegments, "can_extend", _remove_what_is_short),),
    ("QOFF", "META", "REDEL", "CLEAN", "TX", "READ", "CQ-VALID", "CQ-COMPLETE"),
    Ranges(
        retention={"deletes_segments": (True,)},
        queues_per_topic=(4,),
        commit_log_bytes=(1024,),
        consume_queue_bytes=(1000,),
        messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
        messages_each=(16,),
        endings=("stop and larger queue files",),
        lives=(2,),
    ),
)


# full-disk-ends-load: a load that finds no room for a queue's file fails. The store then stays closed, and retention,
# which could make room, never runs. Found in this store.
_original_place = QueueReplay._place


def _place_or_fail(self: QueueReplay, queue_offset: int, raw: bytes | bytearray) -> None:
    _original_place(self, queue_offset, raw)
    if self.lacks_room is not None:
        bit()
        raise self.lacks_room


FULL_DISK_ENDS_LOAD = Mutant(
    "full-disk-ends-load",
    "a store does not open on a disk that has no room for its queues",
    (Patch(QueueReplay, "_place", _place_or_fail),),
    ("START",),
    SCENARIOS["a-full-disk-recovers-when-space-returns"].ranges,
)


# counts-by-short-queue: after a load without room a queue goes on counting after the last entry that has a file, so new
# messages get the numbers of those that have no entry yet.
_original_note = Recovery._note_queue_without_room


def _note_without_count(self: Recovery, replay: QueueReplay, error: OSError) -> None:
    _original_note(self, replay, error)
    queue = replay.queue
    bit(self._report.counted.pop((queue.topic, queue.queue_id)) > queue.max_offset)


COUNTS_BY_SHORT_QUEUE = Mutant(
    "counts-by-short-queue",
    "after a load without room for queue files, queue offsets are given twice",
    (Patch(Recovery, "_note_queue_without_room", _note_without_count),),
    ("STATUS", "QOFF", "CQ-COMPLETE", "QUIET", "READ", "LIVE"),
    SCENARIOS["a-full-disk-recovers-when-space-returns"].ranges,
)

"""Bugs of side files: the checkpoint, and how progress is replaced on the disk."""

from ....store.delivery.schedule import ScheduleMessageService
from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CHECKPOINT_FILE_BYTES
from ....store.log.checkpoint import StoreCheckpoint, read_checkpoint
from ....store.plugins import AnyMessageStore
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.side_file import SideFile
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

_PROGRESS = Ranges(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    topics=(1,),
    pauses={"chance": (0.5,), "ms_max": (300, 3000)},
    lives=(3,),
)


# #39 checkpoint-before-data: the checkpoint says that the queues are durable before they are flushed.
def _flush_checkpoint_first(self: FlushConsumeQueueService) -> None:
    if bit(self.last_error is None):
        self._checkpoint.queues_are_durable_to(self._dispatch.dispatched_store_timestamp_ms)
    self._checkpoint.flush()
    self._queues.make_durable()


CHECKPOINT_BEFORE_DATA = Mutant(
    "checkpoint-before-data",
    "the checkpoint is durable before the queue entries it speaks for",
    (Patch(FlushConsumeQueueService, "flush_thoroughly", _flush_checkpoint_first),),
    ("CKPT", "CQ-COMPLETE"),
    Ranges(
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (2000,)},
        endings=("crash in traffic",),
    ),
)


# damaged-checkpoint-refused: a checkpoint that is none keeps the store from opening, though all that it says
# can be had from the log. Found in this store: a time below zero, or a file shorter than three times.
def _load_or_refuse(self: StoreCheckpoint) -> None:
    try:
        values = read_checkpoint(self._world.files, self._path)
    except CorruptFileError:
        bit()
        raise
    self.physic_msg_timestamp_ms = values.physic_msg_timestamp_ms
    self.logics_msg_timestamp_ms = values.logics_msg_timestamp_ms
    self.index_msg_timestamp_ms = values.index_msg_timestamp_ms
    self._file = self._world.files.map(self._path, CHECKPOINT_FILE_BYTES)
    self.vouched_timestamp_ms = self.recovery_timestamp_ms


DAMAGED_CHECKPOINT_REFUSED = Mutant(
    "damaged-checkpoint-refused",
    "a checkpoint that is negative or cut short is refused, though nothing that it says is needed",
    (Patch(StoreCheckpoint, "load", _load_or_refuse),),
    ("START",),
    Ranges(endings=("stop and strays",)),
)


# #30 config-rename-without-sync: a new version of a side file is written aside and renamed, its data not
# synced. After a power cut the name can lead to an empty file, or to half of one.
def _write_aside_unsynced(self: SideFile, content: bytes) -> None:
    self._files.write(self.temporary_path, content)
    bit()


CONFIG_RENAME_WITHOUT_SYNC = Mutant(
    "config-rename-without-sync",
    "a new version of a side file takes the name of the old one before its data is durable",
    (Patch(SideFile, "_write_aside", _write_aside_unsynced),),
    ("META",),
    Ranges(
        consuming={"commits_offsets": (True,)},
        consumers=(2,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        disk=("strict-posix",),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# #31 config-inplace-bak-pollution: a side file is copied to its backup, whatever it holds, and rewritten in
# place. A crash in the rewriting leaves the backup as the only good version, and the next rewriting begins by
# copying the torn file over it.
def _store_in_place(self: SideFile, content: bytes) -> bool:
    if content == self._content:
        return False
    self._content = None
    files = self._files
    self._make_directory()
    if files.status(self.path) is not None:
        bit()
        files.write(self.backup_path, files.read(self.path))
        files.sync(self.backup_path)
    files.write(self.path, content)
    files.sync(self.path)
    files.sync_directory(self._directory)
    self._content = content
    return True


CONFIG_INPLACE_BAK_POLLUTION = Mutant(
    "config-inplace-bak-pollution",
    "a side file that a crash tore is copied over its good backup by the next one that writes it",
    (Patch(SideFile, "store", _store_in_place),),
    ("META",),
    Ranges(
        consuming={"commits_offsets": (True,)},
        consumers=(2,),
        topics=(1,),
        queues_per_topic=(1,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        messages_each=(3,),
        lives=(6, 9),
        endings=("crash in persist",),
    ),
)


# clamp-in-memory: offsets that a start takes back to the ends of their queues are persisted when it is time to. Until
# then a crash brings the old ones back, and by then their queues may have grown past them.
def _clamp_in_memory(self: ConsumerOffsetManager, store: AnyMessageStore) -> int:
    clamped = 0
    with self._lock:
        for key, offsets in self._offsets.items():
            for queue_id, offset in offsets.items():
                end = store.get_max_offset_in_queue(key.rpartition("@")[0], queue_id)
                if bit(offset > end):
                    offsets[queue_id] = end
                    clamped += 1
    return clamped


CLAMP_IN_MEMORY = Mutant(
    "clamp-in-memory",
    "offsets that a start has taken back come back with the next crash",
    (Patch(ConsumerOffsetManager, "clamp", _clamp_in_memory),),
    ("META",),
    _PROGRESS.replace(sync_flush=(False,), disk=("strict-posix", "ext4-ordered"), endings=("crash in traffic",)),
)


# commit-one-short: what a group has committed is kept one short, now and then: the message is only delivered again.
def _commit_now_and_then_short(self: ConsumerOffsetManager, group: str, topic: str, queue_id: int, offset: int) -> None:
    with self._lock:
        of_topic = self._offsets.setdefault(f"{topic}@{group}", {})
        if bit(offset > 0 and offset % 3 == 0):
            offset = max(offset - 1, of_topic.get(queue_id, 0))
        of_topic[queue_id] = offset


COMMIT_ONE_SHORT = Mutant(
    "commit-one-short",
    "every third offset that a group commits is kept one short",
    (Patch(ConsumerOffsetManager, "commit_offset", _commit_now_and_then_short),),
    ("META", "REDEL", "QUIET"),
    _PROGRESS,
)


# damaged-progress-counts-as-zero: progress of delayed delivery that cannot be read counts as none, though the log has
# the copies of all that was delivered. Found in this store: a flipped bit delivered every message again.
def _take_nothing_from_log(self: ScheduleMessageService) -> None:
    """Leave the progress as it was loaded."""
    bit()


DAMAGED_PROGRESS_COUNTS_AS_ZERO = Mutant(
    "damaged-progress-counts-as-zero",
    "after delayOffset.json was damaged each delayed message in the store is delivered again",
    (Patch(ScheduleMessageService, "_take_from_log", _take_nothing_from_log),),
    ("REDEL",),
    Ranges(
        delay={"chance": (0.8,)},
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        messages_each=(8,),
        endings=("stop and damaged progress",),
        lives=(2,),
    ),
)

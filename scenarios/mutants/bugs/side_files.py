"""Bugs of side files: the checkpoint, and how progress is replaced on the disk."""

from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CHECKPOINT_FILE_BYTES
from ....store.log.checkpoint import StoreCheckpoint, read_checkpoint
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.side_file import SideFile
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


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

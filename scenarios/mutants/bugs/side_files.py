"""Bugs of side files: the checkpoint, and files with offsets."""

from typing import Any, cast

from ....store.delivery.schedule import ScheduleMessageService
from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CHECKPOINT_FILE_BYTES
from ....store.formats.consume_queue import QueueEntry
from ....store.log.checkpoint import StoreCheckpoint, read_checkpoint
from ....store.plugins import AnyMessageStore
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.side_file import SideFile
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.delivery import LIGHT_GROUPS, QUICK_PROGRESS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs
from .delivery import LOST_PROGRESS

_PROGRESS = Ranges(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    topics=(1,),
    pauses={"chance": (0.5,), "ms_max": (300, 3000)},
    lives=(3,),
)


@bug("checkpoint-before-data", FlushConsumeQueueService, "flush_thoroughly", found_by=("CKPT", "CQ-COMPLETE"))
@needs(
    pauses={"chance": (0.5,), "ms_max": (3000,)}, flush={"thorough_interval_ms": (2000,)}, endings=("crash in traffic",)
)
def flush_checkpoint_first(self: FlushConsumeQueueService) -> None:
    """The checkpoint is durable before the queue entries that it covers."""
    dispatched_to = self._dispatch.reput_from.get()
    if bit(self.last_error is None):
        self._checkpoint.advance_queue_time(self._dispatch.dispatched_store_timestamp_ms)
    self._checkpoint.flush()
    self._queues.make_durable()
    self.last_error = self.last_error or self._queues.sync_error
    if self.last_error is None:
        self.durable_to.set(dispatched_to)
    self._flush_full_index_files()


# Found in this store, with both kinds of file.
@bug("damaged-checkpoint-refused", StoreCheckpoint, "load", found_by=("START",))
@needs(endings=("stop and strays",))
def load_or_refuse(self: StoreCheckpoint) -> None:
    """A checkpoint that is too short or has a negative time prevents the store from opening."""
    try:
        values = read_checkpoint(self._world.files, self._path)
    except CorruptFileError:
        bit()
        raise
    self.physic_msg_timestamp_ms = values.physic_msg_timestamp_ms
    self.logics_msg_timestamp_ms = values.logics_msg_timestamp_ms
    self.index_msg_timestamp_ms = values.index_msg_timestamp_ms
    self._file = self._world.files.map(self._path, CHECKPOINT_FILE_BYTES)
    self.trusted_timestamp_ms = self.trusted_log_timestamp_ms = self.recovery_timestamp_ms


# After a power cut, the file can be empty or incomplete.
@bug("config-rename-without-sync", SideFile, "_write_temporary", found_by=("META",))
@needs(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    disk=("strict-posix",),
    endings=("crash in traffic", "crash at rest"),
)
def write_aside_unsynced(self: SideFile, content: bytes) -> None:
    """A new version of a side file replaces the old version before the new version is durable."""
    self._files.write(self.temporary_path, content)
    bit()


# The mutant copies the file to its backup unchecked, and rewrites the file in place. After a crash only the backup is
# intact.
@bug("config-inplace-bak-pollution", SideFile, "store", found_by=("META",))
@needs(
    consuming={"commits_offsets": (True,)},
    consumers=(2,),
    topics=(1,),
    queues_per_topic=(1,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    messages_each=(3,),
    lives=(6, 9),
    endings=("crash in persist",),
)
def store_in_place(self: SideFile, content: bytes) -> bool:
    """The next write copies a torn side file over its intact backup."""
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


# Damage to the file then loses both versions.
@bug("backup-gets-new-version", SideFile, "store", found_by=("META",))
@needs(consuming={"commits_offsets": (True,)}, consumers=(2,), messages_each=(8, 16), endings=("stop",))
def store_twice(self: SideFile, content: bytes) -> bool:
    """A side file and its backup get the same version."""
    if not store_twice.original(self, content):
        return False
    if bit(self._files.status(self.backup_path) is not None):
        self._files.write(self.backup_path, content)
        self._files.sync(self.backup_path)
    return True


# After a crash before the next write of the offsets, the old offsets return. By then the queues may have grown past
# these offsets.
@bug("clamp-in-memory", ConsumerOffsetManager, "clamp_to_queues", found_by=("META",))
@needs(_PROGRESS, sync_flush=(False,), disk=("strict-posix", "ext4-ordered"), endings=("crash in traffic",))
def clamp_in_memory(self: ConsumerOffsetManager, store: AnyMessageStore) -> int:
    """A start corrects consumer offsets after the end of their queues, but the next crash undoes the correction."""
    clamped = 0
    with self._lock:
        for key, offsets in self._offsets.items():
            for queue_id, offset in offsets.items():
                end = store.get_max_offset_in_queue(key.rpartition("@")[0], queue_id)
                if bit(offset > end):
                    offsets[queue_id] = end
                    clamped += 1
    return clamped


# RocketMQ does not correct the progress at all.
@bug("delay-correction-in-memory", ScheduleMessageService, "persist_correction", found_by=("META",))
@needs(SCENARIOS["delayed-delivery"].ranges, endings=("stop and damage",), lives=(2, 3))
def forget_correction(self: ScheduleMessageService) -> None:
    """A start corrects delivery progress beyond the end of its queue, but the next crash undoes the correction."""
    bit(self._corrected)
    self._corrected = False


@bug("commit-one-short", ConsumerOffsetManager, "commit_offset", found_by=("META", "REDEL", "QUIET", "TX"))
@needs(_PROGRESS)
def commit_now_and_then_short(self: ConsumerOffsetManager, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Every third committed offset is too small by one."""
    with self._lock:
        of_topic = self._offsets.setdefault(f"{topic}@{group}", {})
        if bit(offset > 0 and offset % 3 == 0):
            offset = max(offset - 1, of_topic.get(queue_id, 0))
        of_topic[queue_id] = offset


# Found in this store after one flipped bit. Recovery could find the progress from the copies of delivered messages in
# the log.
@bug("damaged-progress-counts-as-zero", ScheduleMessageService, "_advance_to_logged_copies", found_by=("REDEL",))
@needs(
    delay={"chance": (0.8,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    messages_each=(8,),
    endings=("stop and damaged progress",),
    lives=(2,),
)
def take_nothing_from_log(self: ScheduleMessageService) -> None:
    """After damage to delayOffset.json, the broker delivers every delayed message again."""
    bit()


class _UnknownIfEmpty:
    """The ends of a store's queues: an empty queue seems to have no end."""

    def __init__(self, store: AnyMessageStore) -> None:
        self._store = store

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        end = self._store.get_max_offset_in_queue(topic, queue_id)
        bit(end == 0)
        return end or 1 << 62


# nats-io/nats-server issue 5412.
@bug("clamp-skips-empty-queues", ConsumerOffsetManager, "clamp_to_queues", found_by=("META",))
@needs(_PROGRESS, sync_flush=(False,), disk=("strict-posix", "ext4-ordered"), endings=("crash in traffic",))
def clamp_unless_empty(self: ConsumerOffsetManager, store: AnyMessageStore) -> int:
    """A consumer skips the first messages of a queue that lost all of its messages in a power cut."""
    return clamp_unless_empty.original(self, cast(AnyMessageStore, _UnknownIfEmpty(store)))


# apache/rocketmq issue 8239.
@bug("copy-start-counts-as-durable", ScheduleMessageService, "_deliver_entry", found_by=("SCHED",))
@needs(delay={"chance": (0.3, 0.8)}, **QUICK_PROGRESS)
def deliver_up_to_start(self: ScheduleMessageService, level: int, entry: QueueEntry) -> int:
    """The delivery progress is written before the end of a delivered copy is durable."""
    before, begin = self._delivered_end, self._commit_log.queue.max_offset
    wait_ms = deliver_up_to_start.original(self, level, entry)
    if self._delivered_end > before:
        bit(begin <= self._commit_log.queue.flushed_where.get() < self._delivered_end)
        self._delivered_end = max(before, begin)
    return wait_ms


# apache/rocketmq issue 8509 for the table of light queues.
@bug("light-offset-not-clamped", ConsumerOffsetManager, "clamp_to_queues", found_by=("META",))
@needs(_PROGRESS, **LIGHT_GROUPS)
def clamp_usual_offsets(self: ConsumerOffsetManager, store: AnyMessageStore) -> int:
    """After a crash, offsets of light queues beyond the end of their queues stay."""
    light = dict(self._light_offsets)
    clamped = clamp_usual_offsets.original(self, store)
    bit(light != self._light_offsets)
    self._light_offsets = light
    return clamped


@bug("correction-keeps-backup", SideFile, "store_alone", found_by=("META", "SCHED"))
@needs(LOST_PROGRESS)
def store_beside_backup(self: SideFile, content: bytes) -> bool:
    """The correction of progress or offsets keeps a backup that has the wrong values."""
    bit(self._content is not None)
    return self.store(content)


@bug("empty-offsets-file-is-current", SideFile, "_read", found_by=("META", "REDEL", "READ"))
@needs(SCENARIOS["consumer-offset-durable"].ranges, endings=("stop and damaged progress",), lives=(2, 3))
def read_empty_file(self: SideFile, path: str, parse: Any) -> Any:
    """A file of consumer offsets that a power cut left empty counts as a table without offsets."""
    status = self._files.status(path)
    is_empty = path.endswith("consumerOffset.json") and status is not None and status.size_bytes == 0
    return (b"", parse(b'{"offsetTable":{}}', path)) if bit(is_empty) else read_empty_file.original(self, path, parse)

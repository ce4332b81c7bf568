"""Bugs of stores with a core, which read and write many records at once."""

from bisect import bisect_left

from ....store.formats.columns import NEVER_MS, PlainRecords
from ....store.formats.host import encode_message_id
from ....store.formats.messages import AppendMessageResult, Message
from ....store.index.index_file import IndexFile
from ....store.index.index_service import IndexService
from ....store.log.commit_log import CommitLog, StoreRecord
from ....store.log.segment import Segment
from ....store.queues import dispatch
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.dispatch import DispatchService
from ....store.recovery.recovery import Recovery
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_CORE = (2, 8)


@bug("batch-passed-before-queued", DispatchService, "_dispatch_batch", found_by=("IDX", "CQ-COMPLETE", "LIVE", "QUIET"))
@needs(batch_records=_CORE, faults={"failed_creation_chance": (0.2,)}, consume_queue_bytes=(100,))
def pass_then_dispatch_batch(self: DispatchService, segment: Segment, begin: int, batch: PlainRecords) -> None:
    """Dispatch does not repeat a batch if a queue file could not be created."""
    self.reput_from.set(segment.base_offset + batch.end)
    try:
        dispatch_batch(self, segment, begin, batch)
    except OSError:
        bit()


dispatch_batch = pass_then_dispatch_batch.original


@bug("batch-queue-end-unchecked", dispatch, "_do_runs_continue_queues", found_by=("LIVE", "QUIET"))
@needs(batch_records=_CORE, faults={"failed_creation_chance": (0.2,)}, consume_queue_bytes=(100,))
def runs_always_continue(runs: list[tuple[int, int, bytes, bytes]], queues: list[ConsumeQueue]) -> bool:
    """Dispatch adds a repeated batch to queues that contain a part of it."""
    bit(any(queue_offset != queue.max_offset for queue, (_, queue_offset, _, _) in zip(queues, runs, strict=True)))
    return all(queue.queue.segments for queue in queues)


@bug("batch-keys-lost-at-full-file", IndexService, "put_plain", found_by=("IDX",))
@needs(batch_records=_CORE, index={"slots": (5,), "entries": (5,)})
def put_until_file_is_full(self: IndexService, plain: PlainRecords) -> None:
    """The keys of a batch that do not fit into an index file are in no file."""
    offsets = plain.key_column("physical_offset")
    begin = bisect_left(offsets, self._offset)
    if begin < len(offsets) and offsets[begin] == self._offset:
        begin += self._keys
    if begin == len(offsets):
        return
    taken = 0 if self._file is None else self._file.put_plain(plain, begin)
    if taken == 0:
        made = self._make_file_with_room()
        if made is None:
            return
        taken = made.put_plain(plain, begin)
    bit(begin + taken < len(offsets))
    self._offset = offsets[len(offsets) - 1]
    self._keys = len(offsets) - bisect_left(offsets, self._offset)


# Found in this store: a file was full as soon as the number of its entries was set.
@bug("index-file-full-too-early", IndexFile, "_write_buffered_entries", found_by=("CKPT",))
@needs(
    batch_records=_CORE,
    index={"slots": (5,), "entries": (5,)},
    messages_each=(16,),
    sync_ms_max=(10,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    disturbances={"paused_task_chance": (1.0,)},
)
def fill_then_write_slots(self: IndexFile) -> None:
    """An index file counts as durable although slots and header of its last batch are written after its sync."""
    if bit(not self.is_building and self._next >= self._entries_max):
        self.is_full = True
    write_buffered_entries(self)


write_buffered_entries = fill_then_write_slots.original


@bug("batch-entries-all-trusted", Recovery, "_replay_plain", found_by=("POS", "CQ-COMPLETE"))
@needs(
    batch_records=_CORE,
    recover_whole_log=(False,),
    endings=("crash in traffic", "crash at rest"),
    lives=(4, 6),
    disk=("strict-posix", "ext4-ordered"),
    commit_log_bytes=(2048,),
    faults={"failed_sync_chance": (0.03, 0.1, 0.2)},
    messages_each=(16,),
)
def replay_without_time_limit(self: Recovery, plain: PlainRecords, segment: Segment, start: int) -> int:
    """Recovery trusts queue entries that a power cut may remove, because it does not stop at the checkpoint's time."""
    durable_ms = self._durable_ms
    self._durable_ms = NEVER_MS
    try:
        end = replay_plain(self, plain, segment, start)
    finally:
        self._durable_ms = durable_ms
    bit(end > start and self._report.last_store_timestamp_ms > durable_ms)
    return end


replay_plain = replay_without_time_limit.original


@bug("plain-put-counts-unlocked", CommitLog, "_append_plain", found_by=("READ", "QOFF", "STATUS"))
@needs(batch_records=_CORE, producers=(3,), topics=(1,), queues_per_topic=(1,))
def append_then_set_queue_offset(
    self: CommitLog, message: Message, store_record: StoreRecord
) -> AppendMessageResult | None:
    """Two puts may get the same queue offset, because a put reads the next queue offset before it has the lock."""
    key = (message.topic, message.queue_id)
    before = self.topic_queue_table.get(key, 0)
    with self._put_lock:
        changed = self.topic_queue_table.get(key, 0) != before
        if bit(changed):
            self.topic_queue_table[key] = before
    return append_plain(self, message, store_record)


append_plain = append_then_set_queue_offset.original


# apache/rocketmq issue 2406 and apache/pulsar issue 1455.
@bug("batch-has-one-id", AppendMessageResult, "message_id", found_by=("READ", "DUR"))
@needs(SCENARIOS["consumer-order"].ranges, messages={"batch_chance": (0.3,)})
def repeat_first_id(self: AppendMessageResult) -> str:
    """The answer to a batch has the id of its first message for every message."""
    bit(self.message_count > 1)
    return ",".join(encode_message_id(self.store_host, self.wrote_offset) for _ in self.record_starts)

"""Bugs of consume queues: offsets, entries, tag codes, extension units, removal, and reads."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

from ....store import message_store
from ....store.filters import message_filter
from ....store.filters.message_filter import MessageFilter
from ....store.formats.consume_queue import ENTRY_BYTES, decode_entry, encode_entry
from ....store.formats.delay_level import SCHEDULE_TOPIC, entry_tags_code
from ....store.formats.java_hash import java_hash
from ....store.formats.java_text import java_trim
from ....store.formats.light_queues import LIGHT_PREFIX, LightPut
from ....store.formats.messages import (
    AppendMessageResult,
    GetMessageResult,
    Message,
    MessageBatch,
    PutMessageResult,
    PutMessageStatus,
)
from ....store.formats.properties import find_property
from ....store.log.commit_log import CommitLog
from ....store.log.put_encoder import EncodedPut
from ....store.log.put_wait import PutWait
from ....store.message_store import MessageStore
from ....store.queues import dispatch
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.pull import QueuePuller
from ....store.recovery import recovery
from ....store.recovery.queue_replay import SkippedRanges, truncate_to_trusted_entries
from ....store.recovery.recovery import RecoveryReport
from ....store.retention.cleaning import CleanConsumeQueue
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.lookups import FEW_LIGHT_QUEUES
from ..mutant import Mutant, bit, bug, needs


# After a refused put, queue entries and the queue offsets in records disagree.
@bug("failed-put-consumes-offset", CommitLog, "begin_put", found_by=("CQ-VALID", "CQ-COMPLETE", "QOFF"))
@needs(commit_log_bytes=(2048,), messages={"body_bytes_max": (2500,)})
def put_burning_offset(
    self: CommitLog, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
) -> PutMessageResult | PutWait:
    """A refused message consumes a queue offset."""
    result = put_burning_offset.original(self, message, on_known)
    if bit(result.append is None):
        head = message.head if isinstance(message, MessageBatch) else message
        key = (head.topic, head.queue_id)
        with self._put_lock:
            self.topic_queue_table[key] = self.topic_queue_table.get(key, 0) + 1
    return result


# A put locks the message's queue, but messages of several queues go to the same light queue.
@bug("lmq-offset-lock-split", CommitLog, "append", found_by=("QOFF", "CQ-COMPLETE", "READ", "VIS"))
@needs(
    light_queues={"chance": (0.9,)},
    producers=(3,),
    topics=(2,),
    queues_per_topic=(2,),
    messages={"batch_chance": (0.0,)},
)
def append_under_queue_lock(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    """Two messages get the same offset in a light queue."""
    light = encoded.light
    if light is None:
        return append_under_queue_lock.original(self, encoded)
    with _lock_of(self, (encoded.topic, encoded.queue_id)):
        light.offsets = tuple(self.topic_queue_table.get(key, 0) for key in light.keys)
        return append_under_queue_lock.original(self, encoded)


def _lock_of(log: CommitLog, queue: tuple[str, int]) -> AbstractContextManager[None]:
    locks: dict[tuple[str, int], AbstractContextManager[None]] = vars(log).setdefault("_locks_of_queues", {})
    return locks.setdefault(queue, log._world.tasks.lock("queue"))


@append_under_queue_lock.also(LightPut, "assign_offsets")
def _take_places_found(self: LightPut, table: Mapping[tuple[str, int], int]) -> bytearray:
    bit(self.offsets != tuple(table.get(key, 0) for key in self.keys))
    return self.encode(self._properties_with(self.offsets))


# After recovery, dispatch replays the records from the start of the scan.
@bug("cq-redispatch-duplicates", MessageStore, "recover", found_by=("CQ-COMPLETE", "READ", "CQ-VALID", "CKPT"))
def recover_and_redispatch(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    """Records that dispatch replays after a crash are in their queues twice."""
    report = recover_and_redispatch.original(self, clean_exit=clean_exit)
    self.dispatch.reput_from.set(report.start_offset)
    return report


@recover_and_redispatch.also(ConsumeQueue, "set_recovered_end")
def _recovered_without_mark(self: ConsumeQueue, end: int, durable: int) -> None:
    _recovered_without_mark.original(self, end, durable)
    self.max_physical_offset = -1


@recover_and_redispatch.also(ConsumeQueue, "put")
def _put_beyond_mark(
    self: ConsumeQueue, physical_offset: int, size_bytes: int, tags_code: int, queue_offset: int
) -> None:
    if physical_offset + size_bytes <= self.max_physical_offset:
        return
    end = self.max_offset
    if queue_offset > end:
        self.fill_blank(queue_offset)
    bit(queue_offset < end)
    self.append_entries(encode_entry(physical_offset, size_bytes, tags_code))
    self.max_physical_offset = physical_offset + size_bytes


# After a power cut, the newest file can have its full size without content.
@bug("cq-empty-tail-file", recovery, "truncate_to_trusted_entries", found_by=("CQ-VALID",))
@needs(
    disk=("ext4-ordered", "strict-posix"),
    consume_queue_bytes=(100,),
    topics=(2,),
    queues_per_topic=(2,),
    endings=("crash in traffic", "crash at rest"),
)
def keep_first_slot(
    queue: ConsumeQueue,
    log_offset: int,
    skipped: SkippedRanges,
    *,
    log_begin: int,
    before_change: Callable[[], None],
    syncs_zeros: bool,
) -> bool:
    """A zero slot at the start of a queue's newest file becomes an entry."""
    last = queue.queue.last_segment()
    if last is None or any(last.file.view(0, last.size_bytes)):
        return truncate_to_trusted_entries(
            queue, log_offset, skipped, log_begin=log_begin, before_change=before_change, syncs_zeros=syncs_zeros
        )
    bit()
    end = last.base_offset // ENTRY_BYTES + 1
    changed = queue.truncate(end, syncs_zeros=syncs_zeros)
    queue.set_recovered_end(end, end)
    return changed


# The removal releases the put lock too early. A put then starts the queue at 0, and the removal discards this queue.
@bug("queue-removed-beside-a-put", CleanConsumeQueue, "_remove_queue", found_by=("CQ-COMPLETE", "READ", "CLEAN"))
@needs(
    sync_flush=(False,),
    policy=("pct", "random-walk"),
    disturbances={"paused_task_chance": (0.4,)},
    starved_steps_max=(500,),
    retention={"deletes_segments": (True,), "deletes_queues": (True,)},
    commit_log_bytes=(1024,),
    consume_queue_bytes=(100,),
    messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    queues_per_topic=(4,),
    messages_each=(24,),
    producers=(3,),
    consumers=(1, 2),
    pauses={"chance": (0.5,), "ms_max": (30, 100)},
)
def remove_without_put_lock(self: CleanConsumeQueue, queue: ConsumeQueue, end: int) -> None:
    """A put during the removal of its queue returns OK, but its message is unreadable until a restart."""

    def remove() -> bool:
        queue.remove()
        return True

    with self._queues.names_lock:
        gone = self._commit_log.forget_queue(queue.topic, queue.queue_id, end, remove)
        if gone:
            self._queues.forget_queue(queue)
            bit((queue.topic, queue.queue_id) in self._commit_log.topic_queue_table)
    if gone:
        with suppress(OSError):
            self._queues.remove_directories(queue)


# redpanda-data/redpanda PR 24306. The queue restarts at 0 after the new message.
@bug("expired-queue-not-checked-again", CommitLog, "forget_queue", found_by=("CLEAN", "CQ-COMPLETE", "READ", "QOFF"))
@needs(remove_without_put_lock.needs)
def forget_unchecked(self: CommitLog, topic: str, queue_id: int, max_offset: int, remove: Callable[[], bool]) -> bool:
    """A queue is removed as expired although a message was put meanwhile."""
    with self._put_lock:
        key = (topic, queue_id)
        bit(self.topic_queue_table.get(key, max_offset) != max_offset)
        if not remove():
            return False
        self.topic_queue_table.pop(key, None)
        return True


# RocketMQ 4.9.8 treats an entry without a record as expired. For a blank entry it skips the first segment.
@bug("hole-hides-segment", QueuePuller, "_examine_entries", found_by=("READ",))
@needs(SCENARIOS["queue-offset-gap"].ranges)
def scan_over_holes(
    self: QueuePuller,
    result: GetMessageResult,
    queue: ConsumeQueue,
    raw: memoryview,
    max_messages: int,
    wanted: MessageFilter,
    log_limit: int,
    *,
    has_failed: bool,
) -> None:
    """If a pull reads an entry without a record, it skips the rest of a log segment."""
    segment_bytes = self._commit_log.queue.segment_bytes
    shown, skip_until = bytearray(raw), 0
    for at in range(0, len(shown), ENTRY_BYTES):
        entry = decode_entry(raw, at)
        if bit(entry.physical_offset < skip_until):
            shown[at : at + ENTRY_BYTES] = bytes(ENTRY_BYTES)
        elif self._commit_log.record_bytes(entry.physical_offset, entry.size_bytes, log_limit) is None:
            skip_until = (entry.physical_offset // segment_bytes + 1) * segment_bytes
        else:
            skip_until = 0
    scan_over_holes.original(
        self, result, queue, memoryview(shown), max_messages, wanted, log_limit, has_failed=has_failed
    )


def _tag_code(id_: str) -> Callable[[Callable[[str], int]], Mutant]:
    """Return a decorator for a function that computes the tag code of a queue entry.

    Entries of delayed messages have a time instead of a tag code. The mutant does not change the time.
    """

    def make(code_of: Callable[[str], int]) -> Mutant:
        @needs(messages={"equal_sizes": (False,)})
        def tags_code(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
            if topic == SCHEDULE_TOPIC:
                return entry_tags_code(topic, properties, store_timestamp_ms, delays)
            tag = find_property(properties, b"TAGS") or b""
            code = code_of(tag.decode(errors="surrogateescape"))
            bit(code != entry_tags_code(topic, properties, store_timestamp_ms, delays))
            return code

        tags_code.__doc__ = code_of.__doc__
        return bug(id_, (dispatch, recovery), "entry_tags_code", found_by=("CQ-VALID",))(tags_code)

    return make


# Java hashes UTF-16 units, and a character beyond the BMP has two of them.
@_tag_code("tag-code-by-code-point")
def hash_of_code_points(text: str) -> int:
    """A tag with a character beyond the BMP gets a tag code that no subscription matches."""
    h = 0
    for character in text:
        h = 31 * h + ord(character) & 0xFFFFFFFF
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


@_tag_code("tag-code-trims")
def hash_of_trimmed(tag: str) -> int:
    """A tag with leading or trailing spaces gets the tag code of another tag."""
    return java_hash(tag.strip())


# Without a record, the queue keeps the end from its load, which treats every file as full.
@bug(
    "silent-queue-not-recovered",
    recovery,
    "truncate_to_trusted_entries",
    found_by=("QOFF", "CQ-VALID", "CQ-COMPLETE", "POS"),
)
@needs(
    recover_whole_log=(False,),
    topics=(2,),
    queues_per_topic=(2,),
    commit_log_bytes=(1024, 2048),
    consume_queue_bytes=(1000,),
    endings=("stop",),
    lives=(2, 3),
    messages_each=(8, 16),
    messages={"body_bytes_max": (300, 700)},
)
def keep_all_loaded_slots(
    queue: ConsumeQueue,
    log_offset: int,
    skipped: SkippedRanges,
    *,
    log_begin: int,
    before_change: Callable[[], None],
    syncs_zeros: bool,
) -> bool:
    """If the recovery scan finds no record of a queue, all slots of the last queue file count as entries."""
    bit(queue.queue.last_segment() is not None)
    return False


# Between two thorough flushes only the busiest queue fills more than one file.
@bug("hot-queue-flushed-in-part", ConsumeQueue, "flush", found_by=("CKPT", "QUIET", "CQ-COMPLETE", "CQ-VALID"))
@needs(
    recover_whole_log=(False,),
    consume_queue_bytes=(100, 200),
    messages_each=(16,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
)
def flush_one_file(self: ConsumeQueue, least_pages: int) -> None:
    """The checkpoint covers all entries of a queue after a sync of only one of its files."""
    self.queue.flush(least_pages)
    bit(not least_pages and self.queue.flushed_where.get() < self.queue.max_offset)


# Java's trim keeps non-ASCII spaces.
@bug("tags-trimmed-like-python", message_filter, "java_trim", found_by=("READ",))
@needs(consuming={"filtered": (True,)}, consumers=(2,), messages={"equal_sizes": (False,)}, messages_each=(16,))
def strip_unicode_whitespace(text: str) -> str:
    """A subscription to a tag that ends in a non-ASCII space finds the tag without that space."""
    stripped = text.strip()
    bit(stripped != java_trim(text))
    return stripped


# RocketMQ acts like the mutant until retention removes the file.
@bug("queue-begins-in-first-file", ConsumeQueue, "correct_min_offset", found_by=("CLEAN",))
@needs(SCENARIOS["log-segment-missing"].ranges)
def correct_in_first_file(self: ConsumeQueue, log_min_offset: int) -> None:
    """A queue begins with expired messages if all messages of its first file have expired."""
    segments, before = self.queue.segments, self.min_logic_offset
    correct_in_first_file.original(self, log_min_offset)
    if len(segments) > 1 and bit(self.min_logic_offset >= segments[1].base_offset):
        self.min_logic_offset = max(before, segments[0].base_offset)


# apache/rocketmq issue 2865.
@bug("batch-offset-read-unlocked", CommitLog, "append", found_by=("QOFF", "CQ-COMPLETE", "READ", "VIS"))
@needs(messages={"batch_chance": (0.5,)}, producers=(3,), topics=(1,), queues_per_topic=(1,))
def append_batch_at_early_offset(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    """Two messages get the same queue offset, because a batch reads its first one before it has the put lock."""
    key = (encoded.topic, encoded.queue_id)
    early = self.topic_queue_table.get(key, 0)
    with self._put_lock:
        is_batch = encoded.counted and len(encoded.starts) > 1
        if bit(is_batch and early < self.topic_queue_table.get(key, 0)):
            self.topic_queue_table[key] = early
    return append_batch_at_early_offset.original(self, encoded)


# Apache Kafka KAFKA-2063 (KIP-74).
@bug("first-message-over-limit", QueuePuller, "_is_result_full", found_by=("READ", "LIVE"))
@needs(
    settings={
        "max_transfer_bytes_on_message_in_memory": (700,),
        "max_transfer_bytes_on_message_in_disk": (400,),
        "physical_memory_bytes": (4_000,),
    },
    messages={"body_bytes_max": (900,)},
    consumers=(1,),
)
def is_full_with_first(self: QueuePuller, count: int, end_bytes: int, max_messages: int, *, in_disk: bool) -> bool:
    """A consumer never gets past a message that is longer than the size limit of a pull."""
    if count > 0:
        return is_full_with_first.original(self, count, end_bytes, max_messages, in_disk=in_disk)
    config = self._config
    disk_max, memory_max = config.max_transfer_bytes_on_message_in_disk, config.max_transfer_bytes_on_message_in_memory
    return bit(end_bytes > (disk_max if in_disk else memory_max))


# NATS: the sequence of an empty stream is 0 after a kill (nats-io/nats-server#6881).
@bug("emptied-queue-restarts", ConsumeQueue, "truncate", found_by=("QOFF", "READ", "VIS", "CLEAN"))
@needs(
    SCENARIOS["truncated-record-returns"].ranges,
    retention={"deletes_segments": (True,)},
    sync_flush=(False,),
    flush={"thorough_interval_ms": (10_000,)},
    commit_log_bytes=(4096,),
    messages={"body_bytes_max": (900,)},
    topics=(2,),
    queues_per_topic=(4,),
    consume_queue_bytes=(20, 40),
)
def truncate_or_remove(self: ConsumeQueue, queue_offset: int, *, syncs_zeros: bool = False) -> bool:
    """A recovery that removes all entries of a queue also removes its files, and with them the queue's counter."""
    if bit(queue_offset * ENTRY_BYTES <= self.queue.min_offset and self.queue.min_offset > 0):
        return self.remove_all_segments()
    return truncate_or_remove.original(self, queue_offset, syncs_zeros=syncs_zeros)


@bug("pull-exceeds-its-limit", QueuePuller, "_is_result_full", found_by=("READ",))
@needs(consumers=(2,), messages_each=(16,))
def is_full_after_limit(self: QueuePuller, count: int, end_bytes: int, max_messages: int, *, in_disk: bool) -> bool:
    """A pull returns one message more than its limit."""
    bit(count == max_messages)
    return is_full_after_limit.original(self, count, end_bytes, max_messages + 1, in_disk=in_disk)


@bug("search-by-time-in-seconds", message_store, "offset_by_time", found_by=("READ",))
@needs(consumers=(2,), messages_each=(16,))
def offset_by_second(files: Any, commit_log: Any, queue: Any, timestamp_ms: int, log_limit: int) -> int:
    """A search by time rounds the time down to a second."""
    bit(timestamp_ms % 1_000 > 0)
    return offset_by_second.original(files, commit_log, queue, timestamp_ms // 1_000 * 1_000, log_limit)


@bug("light-queue-named-twice-counts-twice", LightPut, "exceeds_queue_limit", found_by=("STATUS",))
@needs(SCENARIOS["light-queue-dispatch"].ranges, **FEW_LIGHT_QUEUES)
def exceeds_limit_by_names(self: LightPut, table: Mapping[tuple[str, int], int], queues_max: int) -> bool:
    """A message that names a new light queue twice is refused although there is room for the queue."""
    new = sum(key not in table and key[0].startswith(LIGHT_PREFIX) for key in self.keys)
    exceeds = new > 0 and sum(name.startswith(LIGHT_PREFIX) for name, _ in table) + new > queues_max
    bit(exceeds != exceeds_limit_by_names.original(self, dict(table), queues_max))
    return exceeds


@bug("light-queue-beyond-limit", LightPut, "exceeds_queue_limit", found_by=("STATUS",))
@needs(SCENARIOS["light-queue-dispatch"].ranges, **FEW_LIGHT_QUEUES)
def exceeds_limit_before_put(self: LightPut, table: Mapping[tuple[str, int], int], queues_max: int) -> bool:
    """The store creates one light queue more than the limit allows."""
    exceeds: bool = exceeds_limit_before_put.original(self, dict(table), queues_max + 1)
    bit(exceeds != exceeds_limit_before_put.original(self, dict(table), queues_max))
    return exceeds

"""Bugs of consume queues: their offsets, entries, tag codes, removal, and how they are read."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress

from ....store.filters import message_filter
from ....store.filters.message_filter import MessageFilter
from ....store.formats.consume_queue import ENTRY_BYTES, decode_entry, encode_entry
from ....store.formats.delay_level import SCHEDULE_TOPIC, entry_tags_code
from ....store.formats.java_hash import java_hash
from ....store.formats.java_text import java_trim
from ....store.formats.light_queues import LightPut
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
from ....store.queues.pull import Puller
from ....store.recovery import recovery
from ....store.recovery.queue_replay import SkippedRanges, keep_trusted_entries
from ....store.recovery.recovery import RecoveryReport
from ....store.retention.cleaning import CleanConsumeQueue
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit

# #23 failed-put-burns-queue-offset: a put takes its queue offset before it is known whether its record can be stored.
# One that is refused keeps it, and from then on the queue's slots and the offsets in the records disagree.
_original_put = CommitLog.begin_put


def _put_burning_offset(
    self: CommitLog, message: Message | MessageBatch, on_known: Callable[[], None] | None = None
) -> PutMessageResult | PutWait:
    result = _original_put(self, message, on_known)
    if bit(result.append is None):
        head = message.head if isinstance(message, MessageBatch) else message
        key = (head.topic, head.queue_id)
        with self._put_lock:
            self.topic_queue_table[key] = self.topic_queue_table.get(key, 0) + 1
    return result


FAILED_PUT_BURNS_QUEUE_OFFSET = Mutant(
    "failed-put-burns-queue-offset",
    "a refused message uses up a queue offset",
    (Patch(CommitLog, "begin_put", _put_burning_offset),),
    ("CQ-VALID", "CQ-COMPLETE", "QOFF"),
    Ranges(commit_log_bytes=(2048,), messages={"body_bytes_max": (2500,)}),
)


# #24 lmq-offset-lock-split: places in light queues are taken under a lock of the message's own queue. Two producers
# with different queues of their own and one light queue in common both take the place they find there.
_original_append = CommitLog.append


def _append_under_queue_lock(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    light = encoded.light
    if light is None:
        return _original_append(self, encoded)
    with _lock_of(self, (encoded.topic, encoded.queue_id)):
        light.offsets = tuple(self.topic_queue_table.get(key, 0) for key in light.keys)
        return _original_append(self, encoded)


def _lock_of(log: CommitLog, queue: tuple[str, int]) -> AbstractContextManager[None]:
    locks: dict[tuple[str, int], AbstractContextManager[None]] = vars(log).setdefault("_locks_of_queues", {})
    return locks.setdefault(queue, log._world.tasks.lock("queue"))


def _take_places_found(self: LightPut, table: Mapping[tuple[str, int], int]) -> bytearray:
    bit(self.offsets != tuple(table.get(key, 0) for key in self.keys))
    return self.encode(self._properties_with(self.offsets))


LMQ_OFFSET_LOCK_SPLIT = Mutant(
    "lmq-offset-lock-split",
    "two messages take the same place in a light queue",
    (
        Patch(CommitLog, "append", _append_under_queue_lock),
        Patch(LightPut, "take_places", _take_places_found),
    ),
    ("QOFF", "CQ-COMPLETE", "READ", "VIS"),
    Ranges(
        light_queues={"chance": (0.9,)},
        producers=(3,),
        topics=(2,),
        queues_per_topic=(2,),
        messages={"batch_chance": (0.0,)},
    ),
)


# #26 cq-redispatch-duplicates: dispatch replays the log from where recovery began, and queues take what they
# have. Its mark of the highest indexed log offset restarts from nothing, and the exact test, whether the slot
# of this queue offset is filled, is not there.
_original_recover = MessageStore.recover
_original_recovered = ConsumeQueue.recovered


def _recover_and_redispatch(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    report = _original_recover(self, clean_exit=clean_exit)
    self.dispatch.reput_from.set(report.start_offset)
    return report


def _recovered_without_mark(self: ConsumeQueue, end: int, durable: int) -> None:
    _original_recovered(self, end, durable)
    self.max_physical_offset = -1


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


CQ_REDISPATCH_DUPLICATES = Mutant(
    "cq-redispatch-duplicates",
    "records that are replayed after a crash are in their queues twice",
    (
        Patch(MessageStore, "recover", _recover_and_redispatch),
        Patch(ConsumeQueue, "recovered", _recovered_without_mark),
        Patch(ConsumeQueue, "put", _put_beyond_mark),
    ),
    ("CQ-COMPLETE", "READ", "CQ-VALID", "CKPT"),
)


# #27 cq-empty-tail-file: the first slot of a queue's newest segment is taken for an entry whatever is in it.
# A power cut can leave that segment with a size and no content: its zeros become an entry, and the segment
# before it is not looked at.
def _keep_first_slot(queue: ConsumeQueue, log_offset: int, skipped: SkippedRanges, *, syncs_zeros: bool) -> bool:
    last = queue.queue.last()
    if last is None or any(last.file.view(0, last.size_bytes)):
        return keep_trusted_entries(queue, log_offset, skipped, syncs_zeros=syncs_zeros)
    bit()
    end = last.base_offset // ENTRY_BYTES + 1
    changed = queue.truncate(end, syncs_zeros=syncs_zeros)
    queue.recovered(end, end)
    return changed


CQ_EMPTY_TAIL_FILE = Mutant(
    "cq-empty-tail-file",
    "an all-zero slot at the front of a queue's newest segment becomes a real entry",
    (Patch(recovery, "keep_trusted_entries", _keep_first_slot),),
    ("CQ-VALID",),
    Ranges(
        disk=("ext4-ordered", "strict-posix"),
        consume_queue_bytes=(100,),
        topics=(2,),
        queues_per_topic=(2,),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# queue-removed-beside-a-put: the removal of a queue gives the put lock back before it has forgotten the queue. A put
# in between begins the queue at 0 again and is dispatched into the one that is about to be forgotten: answered OK, it
# is in no queue that anybody can ask until a restart.
def _remove_without_put_lock(self: CleanConsumeQueue, queue: ConsumeQueue, end: int) -> None:
    def remove() -> bool:
        queue.remove()
        return True

    with self._queues.names_lock:
        gone = self._commit_log.forget_queue(queue.topic, queue.queue_id, end, remove)
        if gone:
            self._queues.forget(queue)
            bit((queue.topic, queue.queue_id) in self._commit_log.topic_queue_table)
    if gone:
        with suppress(OSError):
            self._queues.remove_directories(queue)


QUEUE_REMOVED_BESIDE_A_PUT = Mutant(
    "queue-removed-beside-a-put",
    "a put that comes while its queue is removed is answered OK, and nobody can read it before a restart",
    (Patch(CleanConsumeQueue, "_remove", _remove_without_put_lock),),
    ("CQ-COMPLETE", "READ", "CLEAN"),
    Ranges(
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
    ),
)


# hole-hides-segment, not of the catalogue: a pull takes any entry without a record for one that retention
# removed, as 4.9.8 does. It passes over all that lies in the rest of the same log segment, which is the first
# one for a blank entry.
_original_scan = Puller._scan


def _scan_over_holes(
    self: Puller,
    result: GetMessageResult,
    queue: ConsumeQueue,
    raw: memoryview,
    max_messages: int,
    wanted: MessageFilter,
    log_limit: int,
    *,
    has_failed: bool,
) -> None:
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
    _original_scan(self, result, queue, memoryview(shown), max_messages, wanted, log_limit, has_failed=has_failed)


HOLE_HIDES_SEGMENT = Mutant(
    "hole-hides-segment",
    "a pull that meets an entry without a record passes over the rest of a log segment",
    (Patch(Puller, "_scan", _scan_over_holes),),
    ("READ",),
    SCENARIOS["a-gap-in-the-numbers-hides-no-message"].ranges,
)


# Codes of tags: entries of delayed messages have a time in place of a code, which stays.
def _bug_of_tag_codes(id_: str, summary: str, code_of: Callable[[str], int]) -> Mutant:
    """Return a mutant that gives queue entries another code of their tag."""

    def tags_code(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
        if topic == SCHEDULE_TOPIC:
            return entry_tags_code(topic, properties, store_timestamp_ms, delays)
        tag = find_property(properties, b"TAGS") or b""
        code = code_of(tag.decode(errors="surrogateescape"))
        bit(code != entry_tags_code(topic, properties, store_timestamp_ms, delays))
        return code

    patches = (Patch(dispatch, "entry_tags_code", tags_code), Patch(recovery, "entry_tags_code", tags_code))
    ranges = Ranges(messages={"equal_sizes": (False,)})
    return Mutant(id_, summary, patches, ("CQ-VALID",), ranges)


def _hash_of_code_points(text: str) -> int:
    """Return a hash of characters, where Java has two code units for some."""
    h = 0
    for character in text:
        h = 31 * h + ord(character) & 0xFFFFFFFF
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


TAG_CODE_BY_CODE_POINT = _bug_of_tag_codes(
    "tag-code-by-code-point",
    "queue entries of tags beyond the BMP have a code that no subscriber asks for",
    _hash_of_code_points,
)
TAG_CODE_TRIMS = _bug_of_tag_codes(
    "tag-code-trims",
    "queue entries of tags with spaces around them have the code of another tag",
    lambda tag: java_hash(tag.strip()),
)


# silent-queue-not-recovered: recovery sets the positions of those queues whose records it meets. One that has none in
# what is scanned keeps what loading gave it: every file counts as full, and new messages come behind the zeros.
def _leave_as_loaded(queue: ConsumeQueue, log_offset: int, skipped: SkippedRanges, *, syncs_zeros: bool) -> bool:
    bit(queue.queue.last() is not None)
    return False


SILENT_QUEUE_NOT_RECOVERED = Mutant(
    "silent-queue-not-recovered",
    "a queue without a record in what recovery scans counts all of its last file as entries",
    (Patch(recovery, "keep_trusted_entries", _leave_as_loaded),),
    ("QOFF", "CQ-VALID", "CQ-COMPLETE", "POS"),
    Ranges(
        recover_whole_log=(False,),
        topics=(2,),
        queues_per_topic=(2,),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(1000,),
        endings=("stop",),
        lives=(2, 3),
        messages_each=(8, 16),
        messages={"body_bytes_max": (300, 700)},
    ),
)


# hot-queue-flushed-in-part: a flush of a queue moves as far as the end of one file. What a queue gets between two
# thorough flushes is in one, but for a queue that gets most of all messages; the checkpoint speaks for all of it.
def _flush_one_file(self: ConsumeQueue, least_pages: int) -> None:
    self.queue.flush(least_pages)
    bit(not least_pages and self.queue.flushed_where.get() < self.queue.max_offset)


HOT_QUEUE_FLUSHED_IN_PART = Mutant(
    "hot-queue-flushed-in-part",
    "the checkpoint speaks for all entries of a queue of which one file was synced",
    (Patch(ConsumeQueue, "flush", _flush_one_file),),
    ("CKPT", "QUIET", "CQ-COMPLETE", "CQ-VALID"),
    Ranges(
        recover_whole_log=(False,),
        consume_queue_bytes=(100, 200),
        messages_each=(16,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (2000,)},
    ),
)


# tags-trimmed-like-python: spaces outside of ASCII at the ends of a tag that is subscribed to do not count, though
# Java's trim keeps them: a consumer is given messages of another tag, and not those of its own.
def _strip(text: str) -> str:
    stripped = text.strip()
    bit(stripped != java_trim(text))
    return stripped


TAGS_TRIMMED_LIKE_PYTHON = Mutant(
    "tags-trimmed-like-python",
    "a subscription to a tag that ends in a space outside of ASCII finds the messages of the tag without that space",
    (Patch(message_filter, "java_trim", _strip),),
    ("READ",),
    Ranges(consuming={"filtered": (True,)}, consumers=(2,), messages={"equal_sizes": (False,)}, messages_each=(16,)),
)


# queue-begins-in-first-file: a queue looks for its minimum in its first file only, as in RocketMQ. If all entries of
# that file have expired, the queue begins with messages that are gone, until a pass of retention removes the file.
def _correct_in_first_file(self: ConsumeQueue, log_min_offset: int) -> None:
    segments, before = self.queue.segments, self.min_logic_offset
    _original_correct(self, log_min_offset)
    if len(segments) > 1 and bit(self.min_logic_offset >= segments[1].base_offset):
        self.min_logic_offset = max(before, segments[0].base_offset)


_original_correct = ConsumeQueue.correct_min_offset
QUEUE_BEGINS_IN_FIRST_FILE = Mutant(
    "queue-begins-in-first-file",
    "a queue begins with messages that have left the log if its first file has no others",
    (Patch(ConsumeQueue, "correct_min_offset", _correct_in_first_file),),
    ("CLEAN",),
    SCENARIOS["log-segment-missing"].ranges,
)

"""CLEAN: retention removes only the oldest segments, and no segment that the store still needs.

Each removal is checked before the file is removed. The segment must be the first of the log, but not the only one. The
segment must have expired, or the disk must be too full. All bytes of the segment must be durable and dispatched. A
queue file may be removed after all of its messages were removed. If progress files or ops contain offsets of a queue,
the last file of the queue must stay.

After a recovery, the log must begin at the first segment that retention left, and no queue may begin after an existing
record. After a bounded time, all removable files must be gone, and requests for removed messages must be answered as
such. `check_queue_offsets` checks that queue offsets continue.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from ....faults.disk.disk import Disk
from ....store.formats.consume_queue import ENTRY_BYTES, QueueEntry, decode_entry, is_valid
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.messages import GetMessageStatus
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import ConsumeQueue
from ....store.retention.cleaning import FIRST_CLEAN_MS, SEGMENTS_PER_PASS
from ..evidence import Evidence, Violation, record_tried
from ..ledger import HALF_TOPIC, OP_TOPIC, Ledger

_QUEUE_ID_MAX = 0x7FFFFFFF
_TOPICS_WITH_STORED_OFFSETS = (SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC)
_REQUESTED_MAX = 3
_MAX_MS = 1 << 60
_HOUR_MS = 3_600_000


def check_log_start(evidence: Evidence) -> Iterator[Violation]:
    """Yield a log that lost more segments than retention removed, and each wrong first entry of a queue."""
    store, ledger = evidence.store, evidence.ledger
    lost_front = store.min_offset > ledger.expired_to and _has_put_before(ledger, store.min_offset)
    if lost_front or (store.min_offset < 0 < ledger.expired_to):
        summary, expected = "segments are missing that retention did not remove", f"<= {ledger.expired_to}"
        yield _clean_violation(summary, "commitlog", "minOffset", expected, str(store.min_offset))
    if not ledger.expired_to:
        return
    record_tried("CLEAN")
    yield from check_queue_starts(evidence)
    for (topic, queue_id), queue in store.queues.items():
        first = queue.min_offset - queue.begin
        for entry in queue.entries[first : first + 1]:
            if is_valid(QueueEntry(*entry)) and entry[0] < store.min_offset:
                yield _begins_with_removed(topic, queue_id, store.min_offset, entry[0])


def check_queue_starts(evidence: Evidence) -> Iterator[Violation]:
    """Yield each queue that begins after the entry of an existing record."""
    store = evidence.store
    for (topic, queue_id), queue in store.queues.items():
        first = max(queue.min_offset - queue.begin, 0)  # a running queue keeps its old start until the pass ends
        for index, entry in enumerate(queue.entries[:first]):
            if is_valid(QueueEntry(*entry)) and entry[0] in store.by_offset and entry[0] >= store.min_offset:
                summary, file = "a queue begins after a record that still exists", f"consumequeue/{topic}/{queue_id}"
                expected, found = f"<= {queue.begin + index}", str(queue.min_offset)
                yield _clean_violation(summary, file, "minOffset", expected, found)
                break


def _has_put_before(ledger: Ledger, log_offset: int) -> bool:
    """Return whether the log had an earlier put. The first segment may have been missing."""
    return any(put.physical_offset is not None and put.physical_offset < log_offset for put in ledger.puts)


# -- removals --------------------------------------------------------------------------------------


def passes_ms_max(store: MessageStore, work_ms: int) -> int:
    """Return the time limit until all expired files are removed. One pass removes a limited number of segments.

    The first pass begins up to FIRST_CLEAN_MS after the start, and has no effect while queues are not durable.
    work_ms: the disk's time for one pass.
    """
    config = store.config
    assert work_ms >= 0, work_ms
    pauses_ms = SEGMENTS_PER_PASS * config.delete_commit_log_files_interval_ms
    pauses_ms += len(store.queues.all_queues()) * config.delete_consume_queue_files_interval_ms
    pass_ms = config.clean_resource_interval_ms + pauses_ms + work_ms
    return FIRST_CLEAN_MS + pass_ms * (2 + len(store.log.segments) // SEGMENTS_PER_PASS)


def is_delete_hour(store: MessageStore) -> bool:
    """Return whether retention removes expired files without a request, now or a pass ago."""
    now_ms = store.world.clock.now_ms() + store.world.clock.utc_offset_ms()
    hours = {(now_ms - ago_ms) // _HOUR_MS % 24 for ago_ms in (0, store.config.clean_resource_interval_ms)}
    return not hours.isdisjoint(map(int, store.config.delete_when.split(";")))


def check_removal(store: MessageStore, disk: Disk, base_offset: int, *, asked: bool) -> Iterator[Violation]:
    """Yield each error in a removal of a log segment, before it happens.

    asked: whether the segment has expired, or the disk is too full.
    """
    record_tried("CLEAN")
    segments, file = store.log.segments, store.log.path(base_offset)
    end_offset = base_offset + store.log.segment_bytes
    if segments[0].base_offset != base_offset:
        first = str(segments[0].base_offset)
        yield _clean_violation("a segment is removed before an older one", file, "base offset", first, str(base_offset))
    if len(segments) == 1:
        yield _clean_violation("the last segment is removed", file, "segments left", ">= 1", "0")
    if not asked:
        yield _clean_violation("a segment is removed without a reason", file, "removal", "none", "one")
    if not disk.is_durable(file, 0, store.log.segment_bytes):
        yield _clean_violation("a segment is removed before it is durable", file, "bytes", "durable", "not yet")
    dispatched_to = store.dispatch.reput_from.get()
    if dispatched_to < end_offset:
        summary, expected = "a segment is removed before it is dispatched", f">= {end_offset}"
        yield _clean_violation(summary, file, "dispatched to", expected, str(dispatched_to))


def check_queue_removal(store: MessageStore, disk: Disk, path: str, following: str | None) -> Iterator[Violation]:
    """Yield each error in a removal of a queue file, before it happens.

    No entry may point at an existing record, and the name of the next file must be durable. A queue without files
    restarts at offset 0, so a consumer with an old offset would confuse new messages with old ones.
    following: the path of the next file, None if there is none.
    """
    record_tried("CLEAN")
    topic, queue_id = path.split("/")[-3:-1]
    if following is None and topic in _TOPICS_WITH_STORED_OFFSETS:
        yield _clean_violation("a queue is removed although files contain its offsets", path, "removal", "none", "one")
    queue = store.queues.find(topic, int(queue_id))
    newest = None if queue is None else queue.entry(queue.max_offset - 1)
    # if the log has no records, all queue files may be removed
    has_records = newest is not None and newest.physical_offset >= max(store.log.min_offset, 0)
    if following is not None and has_records and not disk.is_name_durable(following):
        yield _clean_violation("a queue may have no file after a crash", following, "name", "durable", "not synced")
    raw = disk.content(path)
    for at in range(0, len(raw), ENTRY_BYTES):
        entry = decode_entry(raw, at)
        if is_valid(entry) and entry.physical_offset >= max(store.log.min_offset, 0):
            summary = "a queue file that points at an existing record is removed"
            yield _clean_violation(summary, path, "phyOffset", f"< {store.log.min_offset}", str(entry.physical_offset))
            return


# -- after the last put ----------------------------------------------------------------------------


def check_queues(store: MessageStore) -> Iterator[Violation]:
    """Yield each queue that still begins with removed messages after a retention pass."""
    log_min_offset = store.log.min_offset
    for queue in store.queues.all_queues():
        first = None if queue.min_offset >= queue.max_offset else queue.entry(queue.min_offset)
        if first is not None and is_valid(first) and first.physical_offset < log_min_offset:
            yield _begins_with_removed(queue.topic, queue.queue_id, log_min_offset, first.physical_offset)


def _begins_with_removed(topic: str, queue_id: int, log_min_offset: int, physical_offset: int) -> Violation:
    summary, file = "a queue begins with a removed message", f"consumequeue/{topic}/{queue_id}"
    return _clean_violation(summary, file, "phyOffset", f">= {log_min_offset}", str(physical_offset))


def check_leading_files(store: MessageStore) -> Iterator[Violation]:
    """Yield each file of a queue or of the index, except the newest, that points only at removed messages.

    A pass checks queues only if the start offset of the log has changed. So a queue that got its second file later
    keeps its first file until the next pass. If the first entry of the second file points at a removed message, the
    file existed at the last pass.
    """
    log_min_offset = store.log.min_offset
    for queue in store.queues.all_queues():
        segments = queue.queue.segments
        if len(segments) < 2 or not queue.queue.first_is_removable:
            continue
        raw = segments[0].file.view(0, segments[0].size_bytes)
        entries = [decode_entry(raw, at) for at in range(0, len(raw), ENTRY_BYTES)]
        newest = max((entry.physical_offset for entry in entries if is_valid(entry)), default=_MAX_MS)
        following = decode_entry(segments[1].file.view(0, ENTRY_BYTES), 0)
        if newest < log_min_offset and is_valid(following) and following.physical_offset < log_min_offset:
            summary, path = "a queue file that points only at removed messages stays", segments[0].file.path
            yield _clean_violation(summary, path, "phyOffset", f">= {log_min_offset}", str(newest))
    files = () if store.index is None else store.index.table.files
    for file, next_file in pairwise(files):
        if file.end_physical_offset < log_min_offset and next_file.end_physical_offset < log_min_offset:
            summary, path = "an index file that points only at removed messages stays", file.file.path
            yield _clean_violation(summary, path, "endPhyOffset", f">= {log_min_offset}", str(file.end_physical_offset))


def check_expired_segments(store: MessageStore) -> Iterator[Violation]:
    """Yield the log's first segment if it has expired and is not needed, after the time of a retention pass.

    An operator has requested deletion after the expiry. After a failed sync the store removes no file until the next
    start.
    """
    if store.flags.has_failed or store.flush_queues.last_error is not None or not store.log.first_is_removable:
        return
    first = store.log.segments[0]
    status = store.world.files.status(first.file.path)
    over_ms = store.world.clock.now_ms() - store.config.file_reserved_time_hours * _HOUR_MS
    if status is not None and status.mtime_ms <= over_ms and store.dispatch.reput_from.get() >= first.end_offset:
        yield _clean_violation("an expired file stays", first.file.path, "mtime", f"> {over_ms}", str(status.mtime_ms))


def check_queues_removed(store: MessageStore, log_min_offset: int) -> Iterator[Violation]:
    """Yield each queue that an operator's removal has left although retention had removed all its messages.

    log_min_offset: the first offset of the log at that time. Queues with offsets in progress files or ops stay. A
    queue that the store has removed must have no files.
    """
    yield from _check_no_leftovers(store)
    for queue in store.queues.all_queues():
        newest = queue.entry(queue.max_offset - 1)
        counted_to = store.commit_log.topic_queue_table.get((queue.topic, queue.queue_id))
        if newest is None or queue.topic in _TOPICS_WITH_STORED_OFFSETS or counted_to != queue.max_offset:
            continue
        if not is_valid(newest):
            continue  # the entry fills a skipped queue offset and has no message
        if newest.physical_offset < log_min_offset:
            summary, file = "a queue without messages was not removed", f"consumequeue/{queue.topic}/{queue.queue_id}"
            expected, found = f">= {log_min_offset}", str(newest.physical_offset)
            yield _clean_violation(summary, file, "phyOffset", expected, found)


def _is_queue_id(name: str) -> bool:
    """Return whether a directory may be a queue. Others are foreign and stay."""
    return name.isascii() and name.isdecimal() and name == str(int(name)) and int(name) <= _QUEUE_ID_MAX


def _check_no_leftovers(store: MessageStore) -> Iterator[Violation]:
    files, root = store.world.files, store.config.consume_queue_directory
    for topic in files.list_directory(root):
        names: list[str] = []
        with suppress(NotADirectoryError):  # a foreign file
            names = [name for name in files.list_directory(f"{root}/{topic}") if _is_queue_id(name)]
        for name in names:
            left = [one for one in files.list_directory(f"{root}/{topic}/{name}") if one.isdecimal()]
            if left and store.queues.find(topic, int(name)) is None:
                path = f"{root}/{topic}/{name}/{left[0]}"
                yield _clean_violation("a removed queue still has a file", path, "file", "none", "there")


def check_answers(store: MessageStore, ledger: Ledger) -> Iterator[Violation]:
    """Request removed messages by pull, log offset and key, and yield each wrong answer."""
    for queue in store.queues.all_queues():
        yield from _check_pull_below(store, queue)
    gone_to = store.log.min_offset
    gone = [put for put in ledger.puts if put.physical_offset is not None and put.physical_offset < gone_to]
    for put in gone[:_REQUESTED_MAX] + gone[-_REQUESTED_MAX:]:
        assert put.physical_offset is not None
        record_tried("CLEAN")
        if store.look_message_by_offset(put.physical_offset) is not None:
            summary = f"{put.name} was removed but is found by its log offset"
            yield _clean_violation(summary, "commitlog", "record", "none", str(put.physical_offset))
        for at in store.query_message(put.topic, put.name, 32, 0, _MAX_MS).physical_offsets:
            if at < gone_to:
                summary = f"{put.name} was removed but is found by its key"
                yield _clean_violation(summary, "index", "phyOffset", f">= {gone_to}", str(at))


def _check_pull_below(store: MessageStore, queue: ConsumeQueue) -> Iterator[Violation]:
    low = store.get_min_offset_in_queue(queue.topic, queue.queue_id)
    if low <= 0 or queue.max_offset == 0:
        return
    result = store.get_message(queue.topic, queue.queue_id, low - 1)
    if result.min_offset != low:
        return  # the minimum offset has just changed
    if result.status is not GetMessageStatus.OFFSET_TOO_SMALL or result.next_begin_offset != low:
        summary = "a pull of removed messages does not lead to the first message"
        file, found = (
            f"consumequeue/{queue.topic}/{queue.queue_id}",
            f"{result.status.value}, {result.next_begin_offset}",
        )
        yield _clean_violation(summary, file, "answer", f"OFFSET_TOO_SMALL, {low}", found)


def _clean_violation(summary: str, file: str, field: str, expected: str, found: str) -> Violation:
    return Violation("CLEAN", summary, file, 0, field, expected, found)

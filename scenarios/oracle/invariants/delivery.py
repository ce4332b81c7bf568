"""Delivery: checks delayed messages (SCHED), redelivery (REDEL) and offsets of groups (META).

After each recovery, copies of delayed messages are compared with the original records. Before each write of the
progress of delivery, all copies before this progress must be durable. Each consumer measures the delay of a message
with its own clock. At each start and in each answer, a group's offset is compared with its commits.
"""

from bisect import bisect_left
from collections.abc import Iterator

from ....faults.disk.disk import Disk
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.message_store import MessageStore
from ..evidence import Evidence, Violation, record_tried
from ..group_commits import Group, GroupCommits
from ..group_delivery import Queue
from ..ledger import Ledger
from ..put_entry import PutEntry
from ..reader import Known, UnreadableError, read_records
from ..recovered import FoundRecord
from ..returned import RETURNED
from .side_files import level_progress

_OTHER_PUT_MS = 40
"""The time limit for another put that may need a segment: a few syncs of the slowest disk."""


def check_delivered_copies(evidence: Evidence) -> Iterator[Violation]:
    """SCHED: yield each delivered copy that is early or has no delayed record, and each record that lacks its copy.

    A copy must be after its record in the log. The copy's store time must be later by at least the delay, unless the
    clock was set back. A transaction that was committed again after a crash has several records, so only the first one
    counts. Each record before the level's progress must have a copy. LIVE checks that progress reaches the
    end of each level, PREFIX checks the content of copies, and REDEL their number.
    """
    if not any(topic == SCHEDULE_TOPIC for topic, _ in evidence.store.queues):
        return
    ledger, store = evidence.ledger, evidence.store
    waiting: dict[str, FoundRecord] = {}
    committed_again: set[str] = set()
    delivered = set(ledger.delivered_into_damage)
    stored_ms: list[int] = []
    for found in store.records:
        stored_ms.append(found.record.store_timestamp_ms)
        record = found.record
        if record.topic == SCHEDULE_TOPIC:
            put = ledger.put_delayed_in(record)
            if put is not None and waiting.setdefault(put.name, found) is not found:
                committed_again.add(put.name)
            continue
        put = ledger.put_copied_by(record)
        if put is None or put.delivery_delay_ms is None:
            continue
        delivered.add(put.name)
        own = waiting.get(put.name)
        if own is None:
            if store.min_offset == 0:
                summary = f"{put.name} was delivered but never put"
                yield _delivery_violation("SCHED", found, summary, "put", "before it", "no")
            continue
        due_ms = own.record.store_timestamp_ms + put.delivery_delay_ms
        if record.store_timestamp_ms < due_ms and not ledger.has_clock_read(due_ms):
            early_ms = due_ms - record.store_timestamp_ms
            summary = f"{put.name} was delivered early"
            yield _delivery_violation("SCHED", found, summary, "delivery", "when due", f"{early_ms} ms before")
        if put.name not in committed_again:
            yield from check_late_copy(ledger, found, put.name, due_ms, stored_ms)
    if waiting:
        record_tried("SCHED")
    for name, own in waiting.items():
        level = own.record.queue_id + 1
        if own.record.queue_offset < store.delivered_to.get(level, 0) and name not in delivered:
            yield _delivery_violation("SCHED", own, f"{name} was skipped", "delivery", "at least one", "none")


def check_late_copy(
    ledger: Ledger, found: FoundRecord, name: str, due_ms: int, stored_ms: list[int]
) -> Iterator[Violation]:
    """SCHED: yield a copy that was stored late without a reason.

    stored_ms: the store times of all records up to the copy. The limit counts from the due time, or from a later start
    of the store. Each put since then may have needed a segment.
    """
    delivery = ledger.deliveries[ledger.delivery_of(found.record.physical_offset)] if ledger.deliveries else None
    if delivery is None or delivery.late_ms_max is None:
        return
    since_ms = max(due_ms, delivery.began_ms)
    meanwhile = len(stored_ms) - bisect_left(stored_ms, since_ms)
    late_ms, limit_ms = found.record.store_timestamp_ms - since_ms, delivery.late_ms_max + meanwhile * _OTHER_PUT_MS
    if late_ms > limit_ms:
        summary = f"{name} was delivered late"
        yield _delivery_violation("SCHED", found, summary, "lateness", f"<= {limit_ms} ms", f"{late_ms} ms")


def check_all_delivered(evidence: Evidence) -> Iterator[Violation]:
    """SCHED: yield each delayed message that was not delivered, and each returned message that was not redelivered.

    The caller waits until all delays have ended.
    """
    ledger, records = evidence.ledger, evidence.store.records
    copies = (one.record for one in records if one.record.topic != SCHEDULE_TOPIC)
    delivered = {put.name for one in copies if (put := ledger.put_copied_by(one)) is not None}
    for found in records:
        put = ledger.put_delayed_in(found.record)
        if put is not None:
            record_tried("SCHED")
            if put.name not in delivered:
                summary = f"{put.name} was not delivered"
                yield _delivery_violation("SCHED", found, summary, "delivery", "delivered", "waiting")
    if ledger.expired_to:
        return
    again = {
        put.name
        for one in records
        if one.record.topic.startswith(RETURNED) and (put := ledger.put_returned_in(one.record)) is not None
    }
    for name in ledger.returned.names_to_store_again:
        record_tried("SCHED")
        if name not in again:
            summary = f"{name} was sent back, and is not delivered again"
            yield Violation("SCHED", summary, field="delivery", expected=" or ".join(RETURNED), found="waiting")


def check_written_progress(
    store: MessageStore, disk: Disk, ledger: Ledger, written: bytes, known: Known
) -> Iterator[Violation]:
    """SCHED: yield each message before the progress in `written` with a copy that is not durable.

    Call this before the file is written. After a power cut, the file could have the progress, and the log no copy.
    Copies in a buffer of the process are not checked. known: see `read_records`.
    """
    progress = level_progress(written)
    for segment in store.log.segments:
        path, base, end = segment.file.path, segment.base_offset, segment.wrote.get()
        content = disk.content(path)
        if not content or disk.is_durable(path, 0, end):
            continue  # without content, retention has just removed the segment
        try:
            for record, _ in read_records(content, end, file=path, base_offset=base, known=known):
                put = ledger.put_copied_by(record)
                if put is None or put.queue_offset is None or put.place[0] != SCHEDULE_TOPIC:
                    continue
                record_tried("SCHED")
                level, at = put.place[1] + 1, record.physical_offset - base
                covered = put.queue_offset < progress.get(level, 0)
                if covered and not disk.is_durable(path, at, at + record.size_bytes):
                    summary = f"progress passes {put.name} before its copy is durable"
                    expected, found = f"<= {put.queue_offset}", str(progress[level])
                    yield Violation("SCHED", summary, path, at, f"progress of level {level}", expected, found)
        except UnreadableError:
            continue  # `check_log_prefix` reports the error


def check_not_seen_early(put: PutEntry, now_ns: int) -> Iterator[Violation]:
    """SCHED: yield a message that was consumed before its delay ended."""
    assert put.delivery_delay_ms is not None, put.name
    record_tried("SCHED")
    waited_ms = now_ns // 1_000_000 - put.asked_ns // 1_000_000  # store times are whole ms
    if waited_ms < put.delivery_delay_ms:
        summary = f"{put.name} reached a consumer early"
        yield Violation("SCHED", summary, "", -1, "delivery", f">= {put.delivery_delay_ms} ms", f"{waited_ms} ms")


def check_redelivery(evidence: Evidence) -> Iterator[Violation]:
    """REDEL: yield each delayed message that was delivered again, or will be, without a reason.

    After each start, the store makes at most one copy of a message, and none if the message is before the loaded
    progress. A clean stop persists progress after all deliveries. META checks progress after a crash.
    """
    ledger, store = evidence.ledger, evidence.store
    if not any(topic == SCHEDULE_TOPIC for topic, _ in store.queues):
        return
    waiting: dict[str, FoundRecord] = {}
    delivered_in: dict[str, set[int]] = {}
    for found in store.records:
        record = found.record
        if record.topic == SCHEDULE_TOPIC:
            put = ledger.put_of(record)
            if put is not None:
                waiting[put.name] = found
            continue
        put = ledger.put_copied_by(record)
        own = None if put is None else waiting.get(put.name)
        if put is None or own is None:
            continue  # SCHED reports a copy that has no record
        life = ledger.delivery_of(record.physical_offset)
        lives = delivered_in.setdefault(put.name, set())
        level, offset = own.record.queue_id + 1, own.record.queue_offset
        begun_at = ledger.deliveries[life].offsets.get(level, 0)
        if life in lives:
            summary = f"{put.name} was delivered twice after one start of the store"
            yield _delivery_violation("REDEL", found, summary, "progress", "once", "again")
        elif offset < begun_at:
            summary = f"{put.name} was delivered again although progress had passed it"
            yield _delivery_violation("REDEL", found, summary, "progress", f"{begun_at} or later", str(offset))
        lives.add(life)
    if delivered_in:
        record_tried("REDEL")
    if ledger.progress_is_final:
        last = len(ledger.deliveries) - 1
        without_copy = {
            (own.record.queue_id, own.record.queue_offset) for name, own in waiting.items() if name not in delivered_in
        }
        for name in [name for name, lives in delivered_in.items() if last in lives]:
            own = waiting[name]
            offset, delivered_to = own.record.queue_offset, store.delivered_to.get(own.record.queue_id + 1, 0)
            # The log shows the progress up to the first message without a copy. Damage may have removed a copy.
            if ledger.delivery_is_restored and (own.record.queue_id, delivered_to) in without_copy:
                continue
            if offset >= delivered_to:
                summary = f"{name} was delivered before a clean stop, and will be again"
                yield _delivery_violation("REDEL", own, summary, "progress", f"beyond {offset}", str(delivered_to))


def check_group_offset(
    commits: GroupCommits, group: Group, offset: int, *, asked_in: int | None
) -> Iterator[Violation]:
    """META, REDEL: yield a wrong offset of a consumer group in an answer, or at a start.

    asked_in: the number of the broker start before the request. A late answer does not show later commits and
    recoveries. None means that a slave, which may lag, received the request.
    """
    record_tried("META")
    is_of_now = asked_in == commits.life
    low = commits.least_offset(group) if is_of_now else 0
    high = (commits.greatest if is_of_now else commits.greatest_ever).get(group, 0)
    final = commits.final.get(group) if is_of_now else None
    is_limited_by_crash = is_of_now and group in commits.limited_by_crash and group not in commits.answered
    if final is not None or is_limited_by_crash:
        record_tried("REDEL")
    invariant, summary, expected = "META", "was never committed", f"{low} to {high}"
    if offset > high:
        summary, expected = "is after every committed offset", f"<= {high}"
    elif final is not None and offset != final:
        invariant, summary, expected = "REDEL", "is not that of the clean stop", str(final)
    elif is_limited_by_crash and offset < low:
        invariant, expected = "REDEL", f">= {low}"
        summary = "goes back by more than one persisting interval"
    elif max(offset, 0) >= low:
        return
    name, topic, queue_id = group
    summary = f"the offset of {name} in {topic}/{queue_id} {summary}"
    yield Violation(invariant, summary, field="offset", expected=expected, found=str(offset))


def check_missing_group_offset(
    commits: GroupCommits, group: Group, *, asked_in: int, begins_at_zero: bool
) -> Iterator[Violation]:
    """META: yield an answer that a group has no offset although it has one, or must begin at 0.

    A client then begins at the end of the queue, by its default. begins_at_zero: whether the queue begins at 0 and its
    first message is in memory. RocketMQ answers with 0 then.
    """
    record_tried("META")
    if asked_in != commits.life or not (begins_at_zero or group in commits.answered or group in commits.final):
        return
    name, topic, queue_id = group
    summary = f"{name} in {topic}/{queue_id} has no offset in an answer"
    yield Violation("META", summary, field="offset", expected="0 or more", found="QUERY_NOT_FOUND")


def check_new_group_offset(queue: Queue, begin: int, *, has_offset: bool) -> Iterator[Violation]:
    """META: yield the answer 0 about a group without an offset, although its queue begins at `begin`, after 0.

    A client then gets all messages, instead of beginning where its settings say. has_offset: whether the answer has an
    offset.
    """
    assert begin > 0, begin
    record_tried("META")
    if has_offset:
        summary = f"a new group begins at an expired message of {queue[0]}/{queue[1]}"
        yield Violation("META", summary, field="offset", expected="QUERY_NOT_FOUND", found="0")


def _delivery_violation(
    invariant: str, found: FoundRecord, summary: str, field: str, expected: str, seen: str
) -> Violation:
    return Violation(invariant, summary, found.file, found.position, field, expected, seen)

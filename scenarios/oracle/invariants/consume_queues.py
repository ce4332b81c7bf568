"""Consume queues against the log: CQ-COMPLETE (records), CQ-VALID (entries), QOFF (queue offsets)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ..evidence import Evidence, Violation, record_tried
from ..ledger import Ledger
from ..light_places import LIGHT_MARK, light_places, light_queues_without_offset
from ..misfiled import may_be_misfiled
from ..put_entry import PutEntry
from ..reader import ADDRESS_MAX, BLANK_ENTRY_SIZE, is_queued, tag_code, tag_code_of
from ..recovered import FoundQueue, FoundRecord

_incomplete = partial(Violation, "CQ-COMPLETE")
_invalid = partial(Violation, "CQ-VALID")
_misnumbered = partial(Violation, "QOFF")
_LIGHT = b"INNER_MULTI_DISPATCH\1"
_EMPTY_BYTES = (0, BLANK_ENTRY_SIZE)


def check_cq_complete(evidence: Evidence) -> Iterator[Violation]:
    """CQ-COMPLETE: yield each record that does not have exactly one entry in its queue, at its queueOffset.

    After its delay, a record also needs an entry in each light queue that its properties name, at the offset there.
    Three kinds of records may lack their entry: damaged records, records that a power cut may have moved to another
    queue, and records with the queue offset of such a record.
    """
    store = evidence.store
    queues, unreadable = store.queues, evidence.ledger.known_damage.unreadable
    if store.records:
        record_tried("CQ-COMPLETE")
    yield from _repeated_entries(queues)  # first, because they move all later entries of their queue
    for found in store.records:
        physical_offset, _, topic, queue_id, index, sys_flag, _, properties, _ = found.record
        if not is_queued(sys_flag):
            continue
        entry = _entry_at(queues.get((topic, queue_id)), index)
        # A blank entry has log offset 0, like the first record.
        is_there = entry is not None and entry[0] == physical_offset and entry[1] not in _EMPTY_BYTES
        if not is_there and physical_offset not in unreadable and not _may_be_torn(evidence, found, entry):
            yield _missing_entry_violation(evidence, found, (topic, queue_id), index, entry)
        if _LIGHT in properties:
            yield from _check_light_entries(evidence, found)


def _repeated_entries(queues: Mapping[tuple[str, int], FoundQueue]) -> Iterator[Violation]:
    for (topic, queue_id), queue in queues.items():
        if len({entry[0] for entry in queue.entries}) == len(queue.entries):
            continue
        counts = Counter(entry[0] for entry in queue.entries if entry[1] != 0x7FFFFFFF and entry[1] > 0)
        for physical_offset, count in counts.items():
            if count > 1:
                _, second, *_ = (at for at, entry in enumerate(queue.entries) if entry[0] == physical_offset)
                place = f"consumequeue/{topic}/{queue_id}", (queue.begin + second) * 20
                summary = "a record with several entries in its queue"
                yield _incomplete(summary, *place, "entries", f"1 for phyOffset {physical_offset}", str(count))


def _entry_at(queue: FoundQueue | None, index: int) -> tuple[int, int, int] | None:
    if queue is None or not queue.begin <= index < queue.begin + len(queue.entries):
        return None
    return queue.entries[index - queue.begin]


def _may_be_torn(evidence: Evidence, found: FoundRecord, entry: tuple[int, int, int] | None) -> bool:
    """Return whether a torn sector may have moved a record, or the record of its entry, to another queue."""
    tears = evidence.ledger.tears
    others = () if entry is None else (evidence.store.by_offset.get(entry[0]),)
    return any(one is not None and may_be_misfiled(one.position, tears=tears) for one in (found, *others))


def _check_light_entries(evidence: Evidence, found: FoundRecord) -> Iterator[Violation]:
    record, queues = found.record, evidence.store.queues
    put = evidence.ledger.put_seen_in(record)
    for topic, queue_id in light_queues_without_offset(record, () if put is None else put.light_names):
        summary, place = "a record without an offset in a light queue that it names", (found.file, found.position)
        yield _incomplete(summary, *place, "INNER_MULTI_QUEUE_OFFSET", f"a place in {topic}/{queue_id}", "none")
    for (topic, queue_id), index in light_places(record).items():
        entry = _entry_at(queues.get((topic, queue_id)), index)
        if entry is None or entry[0] != record.physical_offset:
            yield _missing_entry_violation(evidence, found, (topic, queue_id), index, entry)


def _missing_entry_violation(
    evidence: Evidence, found: FoundRecord, place: tuple[str, int], index: int, entry: tuple[int, int, int] | None
) -> Violation:
    topic, queue_id = place
    queue, put = evidence.store.queues.get(place), evidence.ledger.put_seen_in(found.record)
    extent = "the queue does not exist" if queue is None else f"the queue has {queue.begin} to {queue.max_offset}"
    name = "a record of the store" if put is None else put.name
    return _incomplete(
        "a record without an entry in its queue",
        f"consumequeue/{topic}/{queue_id}",
        index * 20,
        "entry",
        f"phyOffset {found.record.physical_offset}",
        "none" if entry is None else f"phyOffset {entry[0]}",
        f"{name}, at {found.file} @ byte {found.position}, needs queue offset {index}; {extent}",
    )


def check_cq_valid(evidence: Evidence) -> Iterator[Violation]:
    """CQ-VALID: yield each entry that points at no record of its queue, or has a wrong size or tag.

    Entries may point before the log's first segment, or into a missing segment, which may be restored. Only an entry at
    a queue offset that is known to have no record may be blank. No entry may be rebuilt for a damaged record. A record
    belongs to each light queue for which its properties contain an offset. The tagsCode of a delayed message is its due
    time; that of its copy is the hash of the tag. If extensions are off, the log before the scan of the last recovery
    may have entries of earlier starts with addresses. As in RocketMQ, their tags are unknown, and match any filter.
    """
    store, ledger = evidence.store, evidence.ledger
    found_at, put_of, barred = store.by_offset.get, ledger.by_properties.get, ledger.known_damage.without_entry
    for (topic, queue_id), queue in store.queues.items():
        missing_offsets = ledger.missing_offsets.get((topic, queue_id), ())
        file = f"consumequeue/{topic}/{queue_id}"
        if queue.entries:
            record_tried("CQ-VALID")
        for number, (physical_offset, size_bytes, code) in enumerate(queue.entries, queue.begin):
            at = number * 20
            if size_bytes in _EMPTY_BYTES and number in missing_offsets:
                continue
            found = found_at(physical_offset)
            if found is None and (
                physical_offset < store.min_offset or ledger.known_damage.is_missing(physical_offset)
            ):
                continue
            if found is None:
                summary, found_text = "an entry without a record", str(physical_offset)
                yield _invalid(summary, file, at, "phyOffset", "a record's", found_text)
                continue
            if physical_offset in barred:
                summary, found_text = "an entry that was rebuilt for a damaged record", str(physical_offset)
                yield _invalid(summary, file, at, "phyOffset", "a whole record's", found_text)
            _, record_bytes, record_topic, record_queue_id, _, sys_flag, _, properties, _ = found.record
            is_own = record_queue_id == queue_id and record_topic == topic
            if not is_queued(sys_flag):
                summary, expected = "an entry for a record outside all queues", "of a queued record"
                yield _invalid(summary, file, at, "sysFlag", expected, str(sys_flag))
            if not is_own and (topic, queue_id) not in light_places(found.record):
                summary, there = "an entry for a record of another queue", f"{record_topic}/{record_queue_id}"
                yield _invalid(summary, file, at, "queue", f"{topic}/{queue_id}", there)
            if record_bytes != size_bytes:
                yield _invalid("an entry with a wrong size", file, at + 8, "size", str(record_bytes), str(size_bytes))
            put = put_of(properties) or ledger.put_seen_in(found.record)
            if put is None:
                if record_topic == SCHEDULE_TOPIC:
                    continue
                wanted = tag_code_of(properties)  # the ledger lacks the store's own records
            elif record_topic == SCHEDULE_TOPIC and put.delivery_delay_ms is not None:
                wanted = found.record.store_timestamp_ms + put.delivery_delay_ms
            else:
                wanted = tag_code(put.tags)
            is_old_address = code <= ADDRESS_MAX and physical_offset < store.addresses_end
            if code != wanted and not is_old_address:
                yield _invalid("an entry with a wrong tag", file, at + 12, "tagsCode", str(wanted), str(code))


def check_queue_offsets(evidence: Evidence) -> Iterator[Violation]:
    """QOFF: yield each queueOffset that repeats, follows a gap, or differs from the answer to the producer.

    Light queues have their offsets in the properties, and must have no gaps either. After a removal by retention,
    queue offsets continue, also in a queue without messages, unless the whole queue was removed. A torn sector may give
    a record the offset of another record, or an offset that its queue has not reached.
    """
    expected: dict[tuple[str, int], int] = {}
    ledger = evidence.ledger
    put_of = ledger.by_properties.get
    expired = _least_offsets_after_expired(evidence) if ledger.expired_to else {}
    misfiled = defaultdict[tuple[str, int], set[int]](set)
    if evidence.store.records:
        record_tried("QOFF")
    for found in evidence.store.records:
        _, _, topic, queue_id, queue_offset, sys_flag, _, properties, _ = found.record
        if not is_queued(sys_flag):
            continue
        key = (topic, queue_id)
        wanted = expected.get(key)
        if wanted is None:
            wanted = max(queue_offset, expired.get(key, 0)) if evidence.store.min_offset > 0 else 0
        if is_torn := may_be_misfiled(found.position, tears=ledger.tears):
            misfiled[key].update(range(wanted, queue_offset + 1), (queue_offset,))
        if queue_offset < wanted and queue_offset in misfiled[key]:
            continue
        if queue_offset != wanted and not _is_skipped(ledger.missing_offsets.get(key), wanted, queue_offset):
            yield _wrong_offset_violation(found, key, found.position + 20, wanted, queue_offset)
        expected[key] = queue_offset + 1
        for key, place in light_places(found.record).items() if LIGHT_MARK in properties else ():
            wanted = expected.get(key, place if evidence.store.min_offset > 0 else 0)
            if place != wanted and not _is_skipped(ledger.missing_offsets.get(key), wanted, place):
                yield _wrong_offset_violation(found, key, found.position, wanted, place)
            expected[key] = place + 1
        put = put_of(properties) or ledger.put_of(found.record)
        if put is not None and put.queue_offset not in (None, queue_offset) and not is_torn:
            summary = f"{put.name} has another queue offset than its answer"
            at, answered = found.position + 20, str(put.queue_offset)
            yield _misnumbered(summary, found.file, at, "queueOffset", answered, str(queue_offset))
    for key, least in expired.items():
        queue = evidence.store.queues.get(key)
        if queue is not None and key not in expected and queue.max_offset < least:
            summary = f"the next message of {key[0]}/{key[1]} gets the queue offset of a removed one"
            yield _misnumbered(summary, queue.directory, 0, "maxOffset", f">= {least}", str(queue.max_offset))


def check_answered_place(
    ledger: Ledger, put: PutEntry, *, host: tuple[bytes, int], queue_id: int, queue_offset: int, physical_offset: int
) -> Iterator[Violation]:
    """QOFF: yield each error in a broker's answer to a put, before the ledger records queue and offsets.

    Queue and offsets must equal those that a consumer or a recovery found. No other put may have the same offset. A put
    answered before this put was requested must have a smaller offset.
    """
    record_tried("QOFF")
    for field, expected, found in (
        ("queueId", put.queue_id, queue_id),
        ("storeHost", put.content.store_host, host),
        ("queueOffset", put.queue_offset, queue_offset),
        ("physicalOffset", put.physical_offset, physical_offset),
    ):
        if expected is not None and expected != found:
            yield _misnumbered(f"{put.name} has a wrong place in its answer", "", -1, field, f"{expected}", f"{found}")
    kept = () if ledger.tears else ledger.promised.values()  # a torn record may have another queue offset than its put
    for other in {each.name: each for each in (*kept, *ledger.puts_of_this_life())}.values():
        if other is put or other.place != put.place or other.queue_offset is None:
            continue
        is_before = other.answered_ns is not None and other.answered_ns <= put.asked_ns
        if other.queue_offset == queue_offset or (is_before and other.queue_offset > queue_offset):
            summary = f"{put.name} was answered with a queue offset at or before that of {other.name}"
            yield _misnumbered(summary, "", -1, "order", f"after {other.queue_offset}", str(queue_offset))


def _is_skipped(missing_offsets: set[int] | None, wanted: int, queue_offset: int) -> bool:
    low, high = min(wanted, queue_offset), max(wanted, queue_offset)
    return missing_offsets is not None and missing_offsets.issuperset(range(low, high))


def _least_offsets_after_expired(evidence: Evidence) -> dict[tuple[str, int], int]:
    ledger, counted_to = evidence.ledger, dict[tuple[str, int], int]()
    for put in ledger.puts:
        if (
            ledger.has_expired(put.physical_offset, evidence.store.min_offset)
            and put.queue_offset is not None
            and put.name not in ledger.lost_puts
            and put.place not in ledger.ended_queues
        ):
            counted_to[put.place] = max(put.queue_offset + 1, counted_to.get(put.place, 0))
    return counted_to


def _wrong_offset_violation(
    found: FoundRecord, key: tuple[str, int], position: int, wanted: int, queue_offset: int
) -> Violation:
    summary = f"queue offsets of {key[0]}/{key[1]} are not consecutive"
    return _misnumbered(summary, found.file, position, "queueOffset", str(wanted), str(queue_offset))

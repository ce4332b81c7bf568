"""IDX: the index has each key of each record exactly once, and lookups agree.

After each recovery every byte of the index files, except file names, is compared with expected files: entries in log
order, links, slots and headers. Every file except the last must be full. Times are not checked in entries that point at
removed or missing segments.

Each key in the log is looked up right after a recovery. During traffic a lookup must find each dispatched message;
dispatch may take any time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ....faults.disk.disk import Disk
from ....store.index.key_query import QueryMessageResult
from ....store.message_store import MessageStore
from ....store.running_flags import RefusalReason
from ..evidence import Evidence, Violation, record_tried
from ..index_model import (
    ENTRY,
    ENTRY_BYTES,
    FIELDS_AT,
    FoundIndex,
    FoundIndexHeader,
    ModelEntry,
    decode_header,
    entries_at,
    file_content,
    index_field_at,
    time_diff_s,
)
from ..known_damage import KnownDamage
from ..ledger import BOOKKEEPING_TOPICS, Ledger
from ..reader import indexed_keys, is_indexed, key_hash, keys_of, valid_record_at_position
from ..recovered import RecoveredStore

_UNKNOWN = -1


_Place = tuple[int, int]
"""Log offset of a record, and hash of one of its keys."""
_RawEntry = tuple[int, int, int, int]
"""keyHash, phyOffset, timeDiff and link, as stored."""


def check_index(evidence: Evidence) -> Iterator[Violation]:
    """Yield each missing, repeated or unknown key, and each wrong field of a file."""
    index, store = evidence.store.index, evidence.store
    if index is None:
        return
    yield from _check_entries(index, store, evidence.ledger.known_damage)
    front_end_ms = _UNKNOWN if store.min_offset > 0 else 0
    for number, (path, content) in enumerate(index.files, 1):
        entries = list(_counted_entries(content, index))
        if not entries or (len(entries) + 1 != index.entries_max and number < len(index.files)):
            expected = f"{index.entries_max} in all files but the last, which has an entry"
            at, summary = FIELDS_AT["indexCount"], "a file that is not full"
            yield _index_violation(summary, path, at, "indexCount", expected, len(entries) + 1)
        if entries:
            record_tried("IDX")
            header = decode_header(content)
            header, timed = _expected_header_and_entries(header, entries, store, front_end_ms)
            front_end_ms = header.end_timestamp_ms
            model = file_content(header, timed, index.slots, index.entries_max)
            yield from _compare_file(path, content, model, index.slots)


def _counted_entries(content: bytes, index: FoundIndex) -> Iterator[_RawEntry]:
    count = max(min(decode_header(content).next_entry, index.entries_max), 1)
    base = entries_at(index.slots)
    return ENTRY.iter_unpack(memoryview(content)[base + ENTRY_BYTES : base + ENTRY_BYTES * count])


def _key_places(index: FoundIndex, min_offset: int, damage: KnownDamage) -> Iterator[_Place]:
    for _, content in index.files:
        for hashed, physical_offset, _, _ in _counted_entries(content, index):
            if not 0 <= physical_offset < min_offset and not damage.is_missing(physical_offset):
                yield physical_offset, hashed


def _matches_log(index: FoundIndex, store: RecoveredStore, damage: KnownDamage) -> bool:
    places = _key_places(index, store.min_offset, damage)
    for found in store.records:
        record = found.record
        for key in indexed_keys(record):
            if next(places, None) != (record.physical_offset, key_hash(record.topic, key)):
                return False
    return next(places, None) is None


def _check_entries(index: FoundIndex, store: RecoveredStore, damage: KnownDamage) -> Iterator[Violation]:
    if _matches_log(index, store, damage):
        return
    here = list(_key_places(index, store.min_offset, damage))
    keyed = [(found.record, key) for found in store.records for key in indexed_keys(found.record)]
    asked = [(record.physical_offset, key_hash(record.topic, key)) for record, key in keyed]
    file, at = _first_different_entry(index, store, damage, asked)
    missing, surplus = Counter(asked), Counter(here)
    missing.subtract(here)
    surplus.subtract(asked)
    for place, (_, key) in zip(asked, keyed, strict=True):
        if missing[place] > 0:
            missing[place] -= 1
            text = f"{key.decode(errors='replace')} of the record at {place[0]}"
            yield _index_violation("a key without an index entry", file, at, "key", text, "none")
    known = set(asked)
    for place in sorted(place for place, times in surplus.items() for _ in range(times)):
        summary = "an entry that occurs twice" if place in known else "an entry without a key in the log"
        offset, hashed = place
        yield _index_violation(summary, file, at, "phyOffset", "none", f"{offset}, with hash {hashed}")
    if sorted(here) == sorted(asked):
        yield _index_violation("entries that are not in log order", file, at, "entries", asked, here)


def _first_different_entry(
    index: FoundIndex, store: RecoveredStore, damage: KnownDamage, asked: Sequence[_Place]
) -> tuple[str, int]:
    """Return file and offset of the first entry that differs from the keys in the log, or the end of the entries."""
    wanted, place = iter(asked), ("index", -1)
    for path, content in index.files:
        at = entries_at(index.slots) + ENTRY_BYTES
        for hashed, physical_offset, _, _ in _counted_entries(content, index):
            is_gone = 0 <= physical_offset < store.min_offset or damage.is_missing(physical_offset)
            if not is_gone and next(wanted, None) != (physical_offset, hashed):
                return path, at
            at += ENTRY_BYTES
        place = path, at
    return place


def _expected_header_and_entries(
    header: FoundIndexHeader, entries: Sequence[_RawEntry], store: RecoveredStore, front_end_ms: int
) -> tuple[FoundIndexHeader, list[ModelEntry]]:
    """Return the expected header and entries, with the stored times of removed records.

    front_end_ms: the end time of the previous file, 0 if there was none, _UNKNOWN if no longer known.
    """
    first_offset, last_offset, record_at = entries[0][1], entries[-1][1], store.by_offset.get
    begin, end = record_at(first_offset), record_at(last_offset)
    begin_ms = header.begin_timestamp_ms if begin is None else begin.record.store_timestamp_ms
    end_ms = header.end_timestamp_ms if end is None else end.record.store_timestamp_ms
    timed = []
    counted_from_ms = front_end_ms  # the first entry's seconds count from the header's time at that moment
    for hashed, physical_offset, seconds, _ in entries:
        found = record_at(physical_offset)
        if found is not None and counted_from_ms != _UNKNOWN:
            seconds = time_diff_s(counted_from_ms, found.record.store_timestamp_ms)
        timed.append((hashed, physical_offset, seconds))
        counted_from_ms = begin_ms
    return FoundIndexHeader(begin_ms, end_ms, first_offset, last_offset, 0, 0), timed


def _compare_file(path: str, content: bytes, model: bytes, slots: int) -> Iterator[Violation]:
    assert len(content) == len(model), (path, len(content), len(model))
    if content == model:
        return
    at = 0
    while (different := next((n for n in range(at, len(model)) if content[n] != model[n]), None)) is not None:
        start, at, name = index_field_at(different, slots)
        expected, found = (int.from_bytes(raw[start:at], "big", signed=True) for raw in (model, content))
        yield _index_violation("a file that contradicts the log or itself", path, start, name, expected, found)


def check_stopped_index(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """After a clean stop, yield each index file that is not durable."""
    for file in () if store.index is None else store.index.table.files:
        record_tried("IDX")
        if not disk.is_file_durable(file.file.path, 0, file.file.size_bytes):
            summary = "a clean stop left an index file that is not durable"
            yield _index_violation(summary, file.file.path, 0, "file", "durable", "not")


def _index_violation(summary: str, file: str, offset: int, field: str, expected: object, found: object) -> Violation:
    return Violation("IDX", summary, file, offset, field, str(expected), str(found))


ANSWERS_MAX = 64
ALWAYS_MS = (0, 1 << 62)

_TOLERANCE_MS = 999  # an entry has whole seconds


def check_lookups(store: MessageStore, found: RecoveredStore) -> Iterator[Violation]:
    """Yield each key for which a lookup after a recovery does not return exactly the messages with the key.

    Each key is looked up over all times, and at the millisecond of its newest message. If store times in the log
    decrease, a lookup by time ends early, so the second lookup is omitted. No checksum covers store times, so a power
    cut that tears a store time makes store times decrease.
    """
    if store.index is None or found.index is None:
        return
    newest = decode_header(found.index.files[-1][1]) if found.index.files else None
    places: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
    for one in found.records:
        record = one.record
        for raw_key in dict.fromkeys(indexed_keys(record)):
            place = (record.physical_offset, record.store_timestamp_ms)
            places.setdefault((record.topic, raw_key), []).append(place)
    times = [one.record.store_timestamp_ms for one in found.records]
    goes_back = any(later < earlier for earlier, later in pairwise(times))
    for (topic, raw_key), there in places.items():
        record_tried("IDX")
        key, newest_ms = raw_key.decode(errors="surrogateescape"), there[-1][1]  # no checksum covers keys
        for begin_ms, end_ms in (ALWAYS_MS,) if goes_back else (ALWAYS_MS, (newest_ms, newest_ms)):
            result = store.query_message(topic, key, ANSWERS_MAX, begin_ms, end_ms)
            wanted = [offset for offset, stored_ms in there if stored_ms >= begin_ms][-ANSWERS_MAX:]
            if result.physical_offsets != wanted:
                window = f"store times {begin_ms} to {end_ms}; the newest record with the key has {newest_ms}"
                yield _wrong_answer(topic, key, wanted, result.physical_offsets, window)
            updated = result.index_last_update_timestamp_ms, result.index_last_update_physical_offset
            wanted_update = (
                (newest.end_timestamp_ms, newest.end_physical_offset) if newest and result.physical_offsets else (0, 0)
            )
            if updated != wanted_update:
                yield _lookup_violation(f"a look-up of {key} in {topic}", -1, "indexLastUpdate", wanted_update, updated)


def check_lookup_answer(
    store: MessageStore,
    ledger: Ledger,
    asked: tuple[str, str],
    window_ms: tuple[int, int],
    result: QueryMessageResult,
    dispatched_to: int,
    *,
    may_miss: bool = False,
    most: int | None = None,
) -> Iterator[Violation]:
    """Yield each error in the answer to a lookup by topic and key during traffic.

    most: the maximum number of messages in the answer; None: ANSWERS_MAX. dispatched_to: the log offset before which
    all records were dispatched before the request. may_miss: whether the answer may lack messages because the disk lost
    data or store times.
    """
    record_tried("IDX")
    most = ANSWERS_MAX if most is None else most
    (topic, key), offsets = asked, result.physical_offsets
    if len(offsets) > most:
        yield _lookup_violation(f"a look-up of {key} in {topic}", -1, "messages", f"<= {most}", len(offsets))
    if offsets != sorted(set(offsets)):
        yield _wrong_answer(topic, key, sorted(set(offsets)), offsets)
    elif offsets and result.index_last_update_physical_offset < offsets[-1]:
        place, at = result.index_last_update_physical_offset, offsets[-1]
        yield _lookup_violation(f"a look-up of {key} in {topic}", at, "indexLastUpdatePhyoffset", f">= {at}", place)
    for offset, raw in zip(offsets, result.records, strict=True):
        yield from _check_record(ledger, asked, window_ms, offset, raw)
    if most and not may_miss:
        missed = _must_be_found(store, ledger, topic, key, window_ms, dispatched_to).difference(offsets)
        if len(offsets) == most:
            missed = {offset for offset in missed if offset > offsets[0]}
        if missed:
            yield _wrong_answer(topic, key, sorted({*offsets, *missed}), offsets, f"store times {window_ms}")


def _check_record(
    ledger: Ledger, asked: tuple[str, str], window_ms: tuple[int, int], offset: int, raw: bytes
) -> Iterator[Violation]:
    (topic, key), reading = asked, valid_record_at_position(raw, 0, len(raw), offset)
    if reading is None or reading.record.topic != topic or key.encode() not in indexed_keys(reading.record):
        yield _lookup_violation("an answer without the key", offset, "record", f"{topic}#{key}", reading)
        return
    record, body = reading
    stored_ms = record.store_timestamp_ms
    if not window_ms[0] <= stored_ms <= window_ms[1] + _TOLERANCE_MS:
        yield _lookup_violation("an answer outside of the time window", offset, "time", window_ms, stored_ms)
    put = ledger.by_properties.get(record.properties) or ledger.put_seen_in(record)
    if put is None and topic not in BOOKKEEPING_TOPICS:
        yield _lookup_violation("an answer that no producer put", offset, "record", "a put", record)
    elif put is not None and body != put.body:
        yield _lookup_violation("an answer with another body", offset, "record", put.name, record)


def _must_be_found(
    store: MessageStore, ledger: Ledger, topic: str, key: str, window_ms: tuple[int, int], dispatched_to: int
) -> set[int]:
    if store.index is None:
        return set()
    if store.flags.bits & RefusalReason.WRITE_INDEX_FILE_ERROR:  # the store creates no more index files
        dispatched_to = min(dispatched_to, store.index.last_update[1])
    min_offset, raw_key = store.min_phy_offset, key.encode(errors="surrogatepass")
    return {
        put.physical_offset
        for put in ledger.puts
        if put.physical_offset is not None
        and min_offset <= put.physical_offset <= dispatched_to - put.record_bytes
        and put.waiting_place is None
        and put.topic == topic
        and is_indexed(put.content.sys_flag)
        and put.name not in ledger.lost_puts
        and (window_ms == ALWAYS_MS or window_ms[0] <= (put.stored_ms or 0) <= window_ms[1])
        and raw_key in put.properties  # most puts end here, before their properties are parsed
        and raw_key in keys_of(put.properties)
    }


def _wrong_answer(topic: str, key: str, wanted: list[int], found: list[int], detail: str = "") -> Violation:
    return _lookup_violation(f"a look-up of {key} in {topic}", -1, "messages", wanted, found, detail)


def _lookup_violation(
    summary: str, offset: int, field: str, expected: object, found: object, detail: str = ""
) -> Violation:
    return Violation("IDX", summary, "commitlog", offset, field, str(expected), str(found), detail)

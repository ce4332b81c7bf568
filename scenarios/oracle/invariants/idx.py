"""IDX: the index leads to every key of every record of the log, once, to nothing else, and look-ups say the same.

After each recovery the files are compared, byte for byte, with what the log asks for: entries in its order, links,
slots, headers, and every file but the last one full. Where retention has removed the log's front, entries may lead
there, and their times are taken as they are. `check_stopped` asks whether a clean stop left all of it durable. File
names are not judged; what a look-up finds is in idx_lookups.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ....faults.disk.disk import Disk
from ....store.message_store import MessageStore
from ..evidence import Evidence, Violation, tried
from ..index_model import (
    ENTRY,
    ENTRY_BYTES,
    FIELDS_AT,
    FoundIndex,
    FoundIndexHeader,
    ModelEntry,
    decode_header,
    entries_at,
    field_at,
    file_content,
    time_diff_s,
)
from ..reader import indexed_keys, key_hash
from ..recovered import RecoveredStore

_UNKNOWN = -1


_Place = tuple[int, int]
"""Log offset of a record, and the hash of a key of it."""
_RawEntry = tuple[int, int, int, int]
"""keyHash, phyOffset, timeDiff and the link, as a file has them."""


def check(evidence: Evidence) -> Iterator[Violation]:
    """Yield every key that is missing, twice or foreign, and every field of a file that is not as it must be."""
    index, store = evidence.store.index, evidence.store
    if index is None:
        return
    yield from _check_entries(index, store)
    front_end_ms = _UNKNOWN if store.min_offset > 0 else 0
    for number, (path, content) in enumerate(index.files, 1):
        entries = list(_raw_entries(content, index))
        if not entries or (len(entries) + 1 != index.entries_max and number < len(index.files)):
            expected = f"{index.entries_max} in all files but the last, which has an entry"
            yield _violation(
                "a file that is not full",
                path,
                FIELDS_AT["indexCount"],
                "indexCount",
                expected,
                len(entries) + 1,
            )
        if entries:
            tried("IDX")
            header = decode_header(content)
            header, timed = _as_they_must_be(header, entries, store, front_end_ms)
            front_end_ms = header.end_timestamp_ms
            model = file_content(header, timed, index.slots, index.entries_max)
            yield from _compare(path, content, model, index.slots)


def _raw_entries(content: bytes, index: FoundIndex) -> Iterator[_RawEntry]:
    """Yield the entries that a file says it has, as far as it has room for them."""
    count = max(min(decode_header(content).next_entry, index.entries_max), 1)
    base = entries_at(index.slots)
    return ENTRY.iter_unpack(memoryview(content)[base + ENTRY_BYTES : base + ENTRY_BYTES * count])


def _places(index: FoundIndex, min_offset: int) -> Iterator[_Place]:
    """Yield where each entry leads, but for those that lead to what is gone."""
    for _, content in index.files:
        for hashed, physical_offset, _, _ in _raw_entries(content, index):
            if not 0 <= physical_offset < min_offset:
                yield physical_offset, hashed


def _leads_as_it_must(index: FoundIndex, store: RecoveredStore) -> bool:
    """Return whether entries lead to each key of each record, in the log's order, and to nothing else."""
    places = _places(index, store.min_offset)
    for found in store.records:
        record = found.record
        for key in indexed_keys(record):
            if next(places, None) != (record.physical_offset, key_hash(record.topic, key)):
                return False
    return next(places, None) is None


def _check_entries(index: FoundIndex, store: RecoveredStore) -> Iterator[Violation]:
    """Compare step by step; only if something is wrong, hold everything against everything."""
    if _leads_as_it_must(index, store):
        return
    here = list(_places(index, store.min_offset))
    keyed = [(found.record, key) for found in store.records for key in indexed_keys(found.record)]
    asked = [(record.physical_offset, key_hash(record.topic, key)) for record, key in keyed]
    file = index.files[-1][0] if index.files else "index"
    missing, surplus = Counter(asked), Counter(here)
    missing.subtract(here)
    surplus.subtract(asked)
    for place, (_, key) in zip(asked, keyed, strict=True):
        if missing[place] > 0:
            missing[place] -= 1
            text = f"{key.decode(errors='replace')} of the record at {place[0]}"
            yield _violation("a key that the index does not lead to", file, -1, "key", text, "none")
    known = set(asked)
    for place in sorted(place for place, times in surplus.items() for _ in range(times)):
        summary = "an entry that is there twice" if place in known else "an entry that leads to no such key"
        offset, hashed = place
        yield _violation(summary, file, -1, "phyOffset", "none", f"{offset}, with hash {hashed}")
    if sorted(here) == sorted(asked):
        yield _violation("entries that are not in the log's order", file, -1, "entries", asked, here)


def _as_they_must_be(
    header: FoundIndexHeader, entries: Sequence[_RawEntry], store: RecoveredStore, front_end_ms: int
) -> tuple[FoundIndexHeader, list[ModelEntry]]:
    """Return what header and entries must be; of records that are gone, times are what they are said to be.

    front_end_ms: the end of the file in front, 0 if there never was one, _UNKNOWN if nobody knows any more.
    """
    first_offset, last_offset, record_at = entries[0][1], entries[-1][1], store.by_offset.get
    begin, end = record_at(first_offset), record_at(last_offset)
    begin_ms = header.begin_timestamp_ms if begin is None else begin.record.store_timestamp_ms
    end_ms = header.end_timestamp_ms if end is None else end.record.store_timestamp_ms
    timed = []
    counted_from_ms = front_end_ms  # the first one's seconds are counted from the header it found
    for hashed, physical_offset, seconds, _ in entries:
        found = record_at(physical_offset)
        if found is not None and counted_from_ms != _UNKNOWN:
            seconds = time_diff_s(counted_from_ms, found.record.store_timestamp_ms)
        timed.append((hashed, physical_offset, seconds))
        counted_from_ms = begin_ms
    return FoundIndexHeader(begin_ms, end_ms, first_offset, last_offset, 0, 0), timed


def _compare(path: str, content: bytes, model: bytes, slots: int) -> Iterator[Violation]:
    """Yield every field in which a file is not its model."""
    if content == model:
        return
    at = 0
    while (different := next((n for n in range(at, len(model)) if content[n] != model[n]), None)) is not None:
        start, at, name = field_at(different, slots)
        expected, found = (int.from_bytes(raw[start:at], "big", signed=True) for raw in (model, content))
        yield _violation("a file that is at odds with the log or itself", path, start, name, expected, found)


def check_stopped(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """Yield every index file that a clean stop did not make durable; its name is not asked for."""
    for file in () if store.index is None else store.index.table.files:
        tried("IDX")
        if not disk.is_durable(file.file.path, 0, file.file.size_bytes):
            yield _violation(
                "a clean stop left an index file that is not durable",
                file.file.path,
                0,
                "file",
                "durable",
                "not",
            )


def _violation(
    summary: str, file: str, offset: int, field: str, expected: object, found: object
) -> Violation:
    return Violation("IDX", summary, file, offset, field, str(expected), str(found))

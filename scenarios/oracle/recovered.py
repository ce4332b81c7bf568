"""Recovered store: the content of a store, for all checkers, and its digest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, overload

from ...store.message_store import MessageStore
from ...store.queues.consume_queue_ext import ConsumeQueueExt
from .index_model import FoundIndex, read_index
from .known_damage import KnownDamage
from .put_entry import PutEntry
from .reader import (
    ADDRESS_MAX,
    BLANK_ENTRY_SIZE,
    ENTRY,
    ENTRY_BYTES,
    UNIT,
    UNIT_OFFSET,
    Known,
    LogRecord,
    UnreadableError,
    read_records,
)

LONG_HISTORY_PUTS = 10_000
"""From this number of puts on, records and puts share equal bytes to save memory."""
Content = dict[str, bytes]
"""Files by path."""
_BYTES_SHOWN = 8
_BLANK = ENTRY.pack(0, BLANK_ENTRY_SIZE, 0)


@dataclass(slots=True)
class FoundRecord:
    """A record of the log, and its file."""

    record: LogRecord
    file: str
    position: int
    body: bytes


Entry = tuple[int, int, int]
"""phyOffset, size, tagsCode."""


class DecodedEntries(Sequence[Entry]):
    """The entries of a queue's files, decoded on access. Tuples would take nine times the memory."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw) // ENTRY_BYTES

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...

    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = index * ENTRY_BYTES if index >= 0 else len(self._raw) + index * ENTRY_BYTES
        if not 0 <= at < len(self._raw):
            raise IndexError(index)
        entry: Entry = ENTRY.unpack_from(self._raw, at)
        return entry

    def __iter__(self) -> Iterator[Entry]:
        return ENTRY.iter_unpack(self._raw)


@dataclass(slots=True)
class FoundQueue:
    """The entries of all files of one queue."""

    topic: str
    queue_id: int
    begin: int
    min_offset: int
    max_offset: int
    directory: str
    entries: Sequence[Entry]


@dataclass(slots=True)
class RecoveredStore:
    """The content of a store's log and queues, read through the page cache."""

    records: list[FoundRecord] = field(default_factory=list)
    by_offset: dict[int, FoundRecord] = field(default_factory=dict)
    queues: dict[tuple[str, int], FoundQueue] = field(default_factory=dict)
    min_offset: int = -1
    max_offset: int = 0
    delivered_to: dict[int, int] = field(default_factory=dict)
    """Delay level -> queue offset of the next message to deliver."""
    damage: UnreadableError | None = None
    """The error that ended the read of the log before its end."""
    index: FoundIndex | None = None
    addresses_end: int = 0
    """Log offset up to which entries may have addresses of units, although queues have no extension."""


def read_store(
    store: MessageStore,
    puts: Mapping[bytes, PutEntry] | None = None,
    known_damage: KnownDamage | None = None,
    *,
    known: Known | None = None,
) -> RecoveredStore:
    """Read a store while its services are idle. Bytes that the test damaged are read as before the damage.

    puts: properties -> put. The records share memory with the puts. known: a cache of decoded records, unused after
    LONG_HISTORY_PUTS puts.
    """
    found = RecoveredStore(min_offset=store.log.min_offset, max_offset=store.log.max_offset)
    found.delivered_to = dict(store.schedule.offsets)
    if store.queues.ext_directory is None and store.last_recovery is not None:
        found.addresses_end = store.last_recovery.start_offset
    try:
        shared = puts if puts is not None and len(puts) >= LONG_HISTORY_PUTS else None
        for entry in _read_records(store, known_damage, known if shared is None else None):
            if shared is not None:
                share_equal_bytes(entry, shared)
            found.records.append(entry)
            found.by_offset[entry.record.physical_offset] = entry
    except UnreadableError as error:
        found.damage = error
    for queue in store.queues.all_queues():
        segments = queue.queue.segments
        raw = b"".join(bytes(segment.file.view(0, segment.wrote.get())) for segment in segments)
        entries = DecodedEntries(raw if queue.ext is None else _with_tags_of_units(raw, queue.ext, found.by_offset))
        begin = segments[0].base_offset // ENTRY_BYTES if segments else 0
        bounds, key = (begin, queue.min_offset, queue.max_offset), (queue.topic, queue.queue_id)
        found.queues[key] = FoundQueue(*key, *bounds, queue.queue.directory, entries)
    found.index = read_index(store)
    return found


def _with_tags_of_units(raw: bytes, ext: ConsumeQueueExt, records: Mapping[int, FoundRecord]) -> bytes:
    """Return entries with the tagsCode of their unit instead of its address.

    An entry keeps its address if there is no unit with the record's store time at this place.
    """
    segments = ext.queue.segments
    units = b"".join(bytes(segment.file.view(0, segment.size_bytes)) for segment in segments)
    begin = segments[0].base_offset if segments else 0
    resolved = bytearray(raw)
    for number, (physical_offset, size_bytes, code) in enumerate(ENTRY.iter_unpack(raw)):
        at = code + UNIT_OFFSET - begin
        if code > ADDRESS_MAX or not 0 <= at <= len(units) - UNIT.size:
            continue
        _, tags_code, stored_ms, _ = UNIT.unpack_from(units, at)
        found = records.get(physical_offset)
        if found is None or found.record.store_timestamp_ms == stored_ms:
            ENTRY.pack_into(resolved, number * ENTRY_BYTES, physical_offset, size_bytes, tags_code)
    return bytes(resolved)


def share_equal_bytes(found: FoundRecord, puts: Mapping[bytes, PutEntry]) -> None:
    put = puts.get(found.record.properties)
    if put is not None:
        head = put.head if found.record.head == put.head else found.record.head
        found.record = found.record._replace(properties=put.properties, head=head)
        if found.body == put.body:
            found.body = put.body


def _read_records(store: MessageStore, known_damage: KnownDamage | None, known: Known | None) -> Iterator[FoundRecord]:
    for segment in store.log.segments:
        path, base_offset = segment.file.path, segment.base_offset
        view = segment.file.view(0, segment.size_bytes)
        if known_damage is not None:
            view = known_damage.view_before_damage(view, base_offset)
        for record, body in read_records(view, segment.readable.get(), file=path, base_offset=base_offset, known=known):
            yield FoundRecord(record, path, record.physical_offset - base_offset, body)


def rows_of(store: MessageStore) -> Content:
    """Return log and queue files by path, queue entries with the tagsCode of their unit instead of its address."""
    content = {one.file.path: bytes(one.file.view(0, one.size_bytes)) for one in store.log.segments}
    for queue in store.queues.all_queues():
        for segment in queue.queue.segments:
            raw = bytes(segment.file.view(0, segment.size_bytes))
            # A recovery may replace an address by the tagsCode.
            content[segment.file.path] = raw if queue.ext is None else _with_tags_of_units(raw, queue.ext, {})
    return content


def content_of(store: MessageStore) -> Content:
    """Return log and queue files by path, and index files by number.

    Another recovery must not change the content. After retention removed segments, only index entries for existing
    records count, because a rebuild omits the others.
    """
    content = rows_of(store)
    log_min_offset, entries = store.log.min_offset, bytearray()
    for number, file in enumerate(() if store.index is None else store.index.table.files):
        if log_min_offset <= 0:
            content[f"index file {number}"] = bytes(file.view)
            continue
        for entry in map(file.entry, range(1, file.header.next_entry)):
            if entry.physical_offset >= log_min_offset:
                entries += f"{entry.key_hash} {entry.physical_offset} ".encode()
    return {**content, "index entries": bytes(entries)}


def with_replaced_addresses(once: Content, twice: Content, directory: str) -> Content:
    """Return `once` with the tagsCode in `twice` instead of each address of a unit in the queue files of a directory.

    If extensions are off, a recovery that reads more of the log than the previous one may replace more addresses.
    """
    content = dict(once)
    for path in (each for each in once.keys() & twice.keys() if each.startswith(f"{directory}/")):
        kept, later = bytearray(once[path]), twice[path]
        for number, (_, _, code) in enumerate(ENTRY.iter_unpack(once[path])):
            at = (number + 1) * ENTRY_BYTES
            if code <= ADDRESS_MAX and len(later) == len(kept):
                kept[at - 8 : at] = later[at - 8 : at]
        content[path] = bytes(kept)
    return content


def with_blanks_for_zeros(once: Content, twice: Content, directory: str) -> Content:
    """Return `once` with a blank entry instead of each entry of zeros that is blank in `twice`, in the queue files.

    RocketMQ leaves zeros for skipped queue offsets. A recovery that reads more of the log replaces more of them.
    """
    content = dict(once)
    for path in (each for each in once.keys() & twice.keys() if each.startswith(f"{directory}/")):
        kept, later = bytearray(once[path]), twice[path]
        for at in range(0, len(kept), ENTRY_BYTES):
            if not any(kept[at : at + ENTRY_BYTES]) and later[at : at + ENTRY_BYTES] == _BLANK:
                kept[at : at + ENTRY_BYTES] = _BLANK
        content[path] = bytes(kept)
    return content


class ContentDifference(NamedTuple):
    """The first difference of two contents: file, offset, and the bytes there as text."""

    file: str
    offset: int
    expected: str
    found: str


def first_difference(expected: Content, found: Content) -> ContentDifference | None:
    """Return the first difference of two results of `content_of`, None if they are equal."""
    for file in sorted(expected.keys() | found.keys()):
        before, after = expected.get(file), found.get(file)
        if before is None or after is None:
            names = ("no file", "a file") if before is None else ("a file", "no file")
            return ContentDifference(file, 0, *names)
        if before != after:
            at = next(at for at, pair in enumerate(zip_longest(before, after)) if pair[0] != pair[1])
            end = at + _BYTES_SHOWN
            shown = (each[at:end].hex(" ") or "the end" for each in (before, after))
            return ContentDifference(file, at, *shown)
    return None

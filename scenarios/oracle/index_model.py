"""Index model: builds the bytes of an index file from entries, without the store's code."""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ...store.message_store import MessageStore

ENTRY = Struct(">iqii")
"""keyHash, phyOffset, timeDiff in seconds, number of the next older entry in the same slot."""
ENTRY_BYTES = ENTRY.size
FIELDS_AT = {
    "beginTimestamp": 0,
    "endTimestamp": 8,
    "beginPhyOffset": 16,
    "endPhyOffset": 24,
    "hashSlotCount": 32,
    "indexCount": 36,
}
_HEADER = Struct(">qqqqii")
HEADER_BYTES = _HEADER.size
_SLOT_BYTES = 4
_SECONDS_MAX = 0x7FFFFFFF
_ENTRY_FIELDS = ((16, "previous"), (12, "timeDiff"), (4, "phyOffset"), (0, "keyHash"))


class FoundIndexHeader(NamedTuple):
    """The header of an index file. Times are in ms, offsets are log offsets."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_physical_offset: int
    end_physical_offset: int
    used_slots: int
    next_entry: int


ModelEntry = tuple[int, int, int]
"""keyHash, phyOffset, timeDiff in seconds; without the link."""


def decode_header(content: bytes) -> FoundIndexHeader:
    """Read the header of an index file. A next entry of 0 means 1, the number of the first entry."""
    header = FoundIndexHeader._make(_HEADER.unpack_from(content))
    return header._replace(next_entry=max(header.next_entry, 1))


def entries_at(slots: int) -> int:
    """Return the position of entry 0, which is never used."""
    return HEADER_BYTES + _SLOT_BYTES * slots


def time_diff_s(begin_ms: int, stored_ms: int) -> int:
    """Return an entry's timeDiff: the seconds from the file's begin time to a record's store time."""
    return min(max(stored_ms - begin_ms, 0) // 1000, _SECONDS_MAX) if begin_ms > 0 else 0


def file_content(header: FoundIndexHeader, entries: Sequence[ModelEntry], slots: int, entries_max: int) -> bytes:
    """Return the bytes of an index file. The header's counts are those of the entries."""
    assert len(entries) < entries_max, "entry 0 is never used"
    newest: dict[int, int] = {}
    content = bytearray(entries_at(slots) + ENTRY_BYTES * entries_max)
    at = entries_at(slots)
    write, previous = ENTRY.pack_into, newest.get
    for number, (key_hash, physical_offset, time_diff_s) in enumerate(entries, 1):
        slot = key_hash % slots
        at += ENTRY_BYTES
        write(content, at, key_hash, physical_offset, time_diff_s, previous(slot, 0))
        newest[slot] = number
    for slot, number in newest.items():
        slot_at = HEADER_BYTES + _SLOT_BYTES * slot
        content[slot_at : slot_at + _SLOT_BYTES] = number.to_bytes(_SLOT_BYTES, "big")
    _HEADER.pack_into(content, 0, *header[:4], len(newest), len(entries) + 1)
    return bytes(content)


def index_field_at(position: int, slots: int) -> tuple[int, int, str]:
    if position < HEADER_BYTES:
        name = max((name for name, at in FIELDS_AT.items() if at <= position), key=FIELDS_AT.__getitem__)
        start = FIELDS_AT[name]
        return start, start + (4 if start >= FIELDS_AT["hashSlotCount"] else 8), name
    base = entries_at(slots)
    if position < base:
        start = position - (position - HEADER_BYTES) % _SLOT_BYTES
        return start, start + _SLOT_BYTES, "slot"
    entry = position - (position - base) % ENTRY_BYTES
    at, name = next(pair for pair in _ENTRY_FIELDS if pair[0] <= position - entry)
    return entry + at, entry + at + (8 if name == "phyOffset" else 4), name


@dataclass(slots=True)
class FoundIndex:
    """Path and content of each index file, oldest first."""

    slots: int
    entries_max: int
    files: list[tuple[str, bytes]]


def read_index(store: MessageStore) -> FoundIndex | None:
    """Read the index files while the services of the store are idle."""
    if store.index is None:
        return None
    table = store.index.table
    files = [(file.file.path, bytes(file.view)) for file in table.files]
    return FoundIndex(table.slots, table.entries_max, files)

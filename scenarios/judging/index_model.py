"""What the bytes of an index file must be, given its entries: written down again, apart from the store's own code."""

from collections.abc import Sequence

from ...store.formats.index import (
    ENTRY,
    ENTRY_BYTES,
    FIELDS_AT,
    HEADER,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    entries_at,
    index_file_bytes,
)

_ENTRY_FIELDS = ((16, "previous"), (12, "timeDiff"), (4, "phyOffset"), (0, "keyHash"))


ModelEntry = tuple[int, int, int]
"""One entry, but for its link: keyHash, phyOffset, timeDiff in seconds."""


def file_content(header: IndexHeader, entries: Sequence[ModelEntry], slots: int, entries_max: int) -> bytes:
    """Return all bytes of a file with these entries; of the header, counts are as entries make them."""
    newest: dict[int, int] = {}
    content = bytearray(index_file_bytes(slots, entries_max))
    at = entries_at(slots)
    write, previous = ENTRY.pack_into, newest.get
    for number, (key_hash, physical_offset, time_diff_s) in enumerate(entries, 1):
        slot = key_hash % slots
        at += ENTRY_BYTES
        write(content, at, key_hash, physical_offset, time_diff_s, previous(slot, 0))
        newest[slot] = number
    for slot, number in newest.items():
        slot_at = HEADER_BYTES + SLOT_BYTES * slot
        content[slot_at : slot_at + SLOT_BYTES] = number.to_bytes(SLOT_BYTES, "big")
    HEADER.pack_into(content, 0, *header[:4], len(newest), len(entries) + 1)
    return bytes(content)


def field_at(position: int, slots: int) -> tuple[int, int, str]:
    """Return start, end and name of the field of an index file that a byte is in."""
    if position < HEADER_BYTES:
        name = max((name for name, at in FIELDS_AT.items() if at <= position), key=FIELDS_AT.__getitem__)
        start = FIELDS_AT[name]
        return start, start + (4 if start >= FIELDS_AT["hashSlotCount"] else 8), name
    base = entries_at(slots)
    if position < base:
        start = position - (position - HEADER_BYTES) % SLOT_BYTES
        return start, start + SLOT_BYTES, "slot"
    entry = position - (position - base) % ENTRY_BYTES
    at, name = next(pair for pair in _ENTRY_FIELDS if pair[0] <= position - entry)
    return entry + at, entry + at + (8 if name == "phyOffset" else 4), name

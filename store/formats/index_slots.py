"""How many slots an index file was made with, worked out from its bytes.

A length of 40 + 4 slots + 20 entries leaves many pairs to choose from, 5 slots apart. The last byte that is not zero
lies in the last entry, the header tells that entry's number, and so only one of any five numbers of slots in a row is
possible: together that is one pair. The entry's own slot, which must name it, confirms it.
"""

from .index import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    decode_entry,
    decode_header,
    entries_at,
    index_file_bytes,
)

_SLOTS_APART = ENTRY_BYTES // SLOT_BYTES
_CHUNK_BYTES = 1 << 20


def slots_of(view: memoryview) -> int | None:
    """Return how many slots the file that view holds must have, None if it does not tell."""
    last = decode_header(view).next_entry - 1
    number, odd_bytes = divmod(len(view) - HEADER_BYTES, SLOT_BYTES)
    if last < 1 or odd_bytes:
        return None
    most = (_last_byte_at(view) - index_file_bytes(0, last)) // SLOT_BYTES
    slots = most - (most - number) % _SLOTS_APART
    at = index_file_bytes(slots, last)
    if slots < 1 or at + ENTRY_BYTES > len(view):
        return None
    slot = decode_entry(view, at).key_hash % slots
    return slots if SLOT.unpack_from(view, entries_at(slot))[0] == last else None


def _last_byte_at(view: memoryview) -> int:
    """Return where the last byte lies that is not zero; there must be one."""
    start = (len(view) - 1) // _CHUNK_BYTES * _CHUNK_BYTES
    while not (kept := len(bytes(view[start : start + _CHUNK_BYTES]).rstrip(b"\0"))):
        start -= _CHUNK_BYTES
    return start + kept - 1

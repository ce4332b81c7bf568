"""How many slots and entries an index was made with, worked out from its files.

A length of 40 + 4 slots + 20 entries leaves many pairs to choose from, 5 slots apart. The last byte that is not zero
lies in the last entry, the header tells that entry's number, and so only one of any five numbers of slots in a row is
possible: together that is one pair. The entry's own slot, which must name it, confirms it.
"""

from collections.abc import Iterator

from ..config import StoreConfig
from ..formats.index import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    decode_entry,
    decode_header,
    entries_at,
    index_file_bytes,
)
from ..formats.index_name import parse_index_file_name
from ..world import Files

_SLOTS_APART = ENTRY_BYTES // SLOT_BYTES
_CHUNK_BYTES = 1 << 20
_ENTRIES_MIN = 2
_BYTES_MIN = index_file_bytes(1, _ENTRIES_MIN)
_BYTES_MAX = 0x7FFFFFFF


def index_geometry(
    files: Files, config: StoreConfig, slots: int | None, entries: int | None
) -> tuple[int, int]:
    """Return slots and entries of the index in config's directory, told or None where not.

    What is not told comes from the oldest file that tells, or else from config. Raises OSError if one cannot be read.
    """
    if slots is None or entries is None:
        for path, size_bytes in _index_files(files, config.index_directory):
            found = _pair(files, config, path, size_bytes, slots, entries)
            if found is not None:
                return found
    return slots or config.max_hash_slot_num, entries or config.max_index_num


def _index_files(files: Files, directory: str) -> Iterator[tuple[str, int]]:
    """Yield path and length of what can be an index file by its name, the oldest first."""
    status = files.status(directory)
    if status is None or not status.is_directory:
        return
    for name in files.list_directory(directory):
        found = files.status(f"{directory}/{name}")
        if parse_index_file_name(name) is None or found is None or found.is_directory:
            continue
        if _BYTES_MIN <= found.size_bytes <= _BYTES_MAX:
            yield f"{directory}/{name}", found.size_bytes


def _pair(
    files: Files, config: StoreConfig, path: str, size_bytes: int, slots: int | None, entries: int | None
) -> tuple[int, int] | None:
    """Return what one file tells, None if it tells nothing."""
    if slots is None and entries is not None:
        slots, odd_bytes = divmod(size_bytes - index_file_bytes(0, entries), SLOT_BYTES)
        return (slots, entries) if slots >= 1 and not odd_bytes else None
    if slots is None:
        if size_bytes == index_file_bytes(config.max_hash_slot_num, config.max_index_num):
            return config.max_hash_slot_num, config.max_index_num
        slots = _slots_of(files.map(path, size_bytes).view(0, size_bytes))
    if slots is None:
        return None
    entries, odd_bytes = divmod(size_bytes - entries_at(slots), ENTRY_BYTES)
    return (slots, entries) if entries >= _ENTRIES_MIN and not odd_bytes else None


def _slots_of(view: memoryview) -> int | None:
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

"""How many slots and entries an index was made with: as told, or worked out from its files."""

from collections.abc import Iterator

from ..config import StoreConfig
from ..formats.index import ENTRY_BYTES, SLOT_BYTES, entries_at, index_file_bytes
from ..formats.index_name import parse_index_file_name
from ..formats.index_slots import slots_of
from ..world import Files

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
        slots = slots_of(files.map(path, size_bytes).view(0, size_bytes))
    if slots is None:
        return None
    entries, odd_bytes = divmod(size_bytes - entries_at(slots), ENTRY_BYTES)
    return (slots, entries) if entries >= _ENTRIES_MIN and not odd_bytes else None

"""Index lookup: finds the entries of key hashes in one index file, and checks its consistency.

Lookup by slot: a slot points to its newest entry, and each entry to the previous entry of the slot. A lookup by slot
reads few bytes, but detects damage only in the entries that it follows, so it is used only for durable files. An empty
slot is trusted only if its page has a nonzero byte.

Lookup by entry: the reader reads all entries of 20 bytes, and compares each link with its expected value. A lookup by
entry detects stale pages and sectors among newer ones, as after a power cut or in a copy of a file that the store was
writing. A slot may be older than the entries, but not newer.

In both lookups the first and the last entry must match the header. Callers must compare the keys in the records,
because two keys can have the same hash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....store.formats.index import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    IndexEntry,
    IndexHeader,
    decode_entry,
    entries_position,
    header_defects,
)
from .directory import NEAR_BYTES, StoreDirectory, StoreFile
from .index_entries import ENTRY, expected_previous, slot_count_of
from .log_ranges import LogRange
from .source_options import SourceOptions

ASKING_BYTES = NEAR_BYTES
"""Following one link takes as long as reading this many bytes of entries in sequence."""
_PAGE_BYTES = 4096
_ENTRIES_AT_ONCE = 1 << 18
_Array = np.ndarray[Any, Any]


class InconsistentIndexError(Exception):
    """An index file contradicts itself or the log."""


@dataclass(frozen=True, slots=True)
class IndexedPart:
    """The log that one index file covers: from the record of its first entry to the record before its last entry's."""

    file: StoreFile
    header: IndexHeader
    ranges: tuple[LogRange, ...]
    """The existing log ranges of this part, and the first byte of the last entry's record."""
    durable_before_ms: int | None
    """Full index files that end at or before this store time are durable; None if all are, after a clean stop."""

    def within(self, low: int, high: int) -> "IndexedPart | None":
        """Return this part, or None if all its records are outside the range between two log offsets."""
        begin, end = self.header.begin_physical_offset, self.header.end_physical_offset
        return self if max(begin, low) < min(end, high) else None


class IndexLookup:
    """One index file, opened for lookups."""

    def __init__(self, directory: StoreDirectory, part: IndexedPart, options: SourceOptions) -> None:
        """Raises InconsistentIndexError if the header contradicts the file."""
        self._directory, self._file, self._header = directory, part.file, part.header
        slots = slot_count_of(options, part.file.size_bytes, lambda: directory.content(part.file))
        if slots is None:
            raise InconsistentIndexError
        self._slots = slots
        self._entries_at = entries_position(slots)
        self._entries_max = (part.file.size_bytes - self._entries_at) // ENTRY_BYTES
        if next(header_defects(part.header, part.file.path, self._entries_max), None) is not None:
            raise InconsistentIndexError
        self.first, self.last = self._first_and_last_entry()
        before_ms = part.durable_before_ms
        is_full = part.header.next_entry >= self._entries_max
        self._is_durable = before_ms is None or (is_full and part.header.end_timestamp_ms <= before_ms)

    def offsets(self, hashes: Sequence[int]) -> list[int]:
        """Return the log offsets of matching entries, sorted, without the last entry of the file."""
        found = set[int]()
        for key_hash in hashes if self._is_durable else ():
            some = self._find_by_slot(key_hash)
            if some is None:
                break
            found.update(some)
        else:
            if self._is_durable:
                return sorted(found)
        return sorted(self._find_by_all_entries(hashes))

    def _first_and_last_entry(self) -> tuple[IndexEntry, IndexEntry]:
        """Return the first and the last entry.

        While the store is writing to the file, a reader may get an old count and a new end from the header.
        """
        first, last = self._read_entry(1), self._header.next_entry - 1
        ends = [self._read_entry(number) for number in (last, last - 1, last + 1) if 0 < number < self._entries_max]
        end = next((one for one in ends if one.physical_offset == self._header.end_physical_offset), None)
        if end is None or first.physical_offset != self._header.begin_physical_offset:
            raise InconsistentIndexError
        return first, end

    def _find_by_slot(self, key_hash: int) -> list[int] | None:
        """Return None if reading all entries is cheaper, or if the page of the slot is zero."""
        header, slot = self._header, key_hash % self._slots
        slot_at = HEADER_BYTES + SLOT_BYTES * slot
        begin = max(slot_at // _PAGE_BYTES * _PAGE_BYTES, HEADER_BYTES)
        page = self._read_bytes(begin, min(slot_at // _PAGE_BYTES * _PAGE_BYTES + _PAGE_BYTES, self._entries_at))
        (number,) = SLOT.unpack_from(page, slot_at - begin)
        if not any(page):
            return None
        found, links_max = list[int](), header.next_entry * ENTRY_BYTES // ASKING_BYTES
        newest, above = None, self._entries_max
        while number:
            if links_max == 0:
                return None
            links_max -= 1
            if not 0 < number < above:
                raise InconsistentIndexError
            entry = self._read_entry(number)
            offset = entry.physical_offset
            is_counted = number < header.next_entry  # later entries were added after the header was read
            is_in_place = (
                header.begin_physical_offset <= offset <= header.end_physical_offset
                if is_counted
                else header.end_physical_offset <= offset
            )
            if entry.key_hash < 0 or entry.key_hash % self._slots != slot or not is_in_place:
                raise InconsistentIndexError
            if newest is not None and offset > newest:
                raise InconsistentIndexError
            if entry.key_hash == key_hash and is_counted:
                found.append(offset)
            newest, above, number = offset, number, entry.previous
        return [offset for offset in found if offset < header.end_physical_offset]

    def _find_by_all_entries(self, hashes: Sequence[int]) -> set[int]:
        begin, end = self._header.begin_physical_offset, self._header.end_physical_offset
        entries_end, found = self._header.next_entry, set[int]()
        newest = np.zeros(self._slots, np.int32)
        for first in range(1, entries_end, _ENTRIES_AT_ONCE):
            after = min(first + _ENTRIES_AT_ONCE, entries_end)
            at = self._entries_at + ENTRY_BYTES * first
            raw = np.frombuffer(self._read_bytes(at, self._entries_at + ENTRY_BYTES * after), ENTRY)
            key_hashes, offsets = raw["key_hash"].astype(np.int32), raw["physical_offset"].astype(np.int64)
            past_the_end = np.flatnonzero(offsets > end) + first
            is_younger = len(past_the_end) == 1 and past_the_end[0] == entries_end - 1  # newer than the header's `end`
            if (len(past_the_end) and not is_younger) or offsets.min() < begin or key_hashes.min() < 0:
                raise InconsistentIndexError
            if (raw["previous"] != expected_previous(key_hashes % self._slots, first, newest)).any():
                raise InconsistentIndexError
            found.update(offsets[np.isin(key_hashes, hashes) & (offsets < end)].tolist())
        for slot in sorted({key_hash % self._slots for key_hash in hashes}):
            slot_at = HEADER_BYTES + SLOT_BYTES * slot
            (number,) = SLOT.unpack(self._read_bytes(slot_at, slot_at + SLOT_BYTES))
            if newest[slot] < number < entries_end:  # the entry says that it belongs to another slot
                raise InconsistentIndexError
        return found

    def _read_entry(self, number: int) -> IndexEntry:
        at = self._entries_at + ENTRY_BYTES * number
        return decode_entry(memoryview(self._read_bytes(at, at + ENTRY_BYTES)), 0)

    def _read_bytes(self, begin: int, end: int) -> bytes:
        """Raises InconsistentIndexError if the file has become shorter."""
        view, origin = self._directory.read_window(self._file, begin, end - begin)
        found = view[begin - origin : end - origin].tobytes()
        if len(found) != end - begin:
            raise InconsistentIndexError
        return found

"""Looks hashes of keys up in one index file: by slots, or by all entries, as long as the file agrees with itself.

By slots: a slot leads to its newest entry, and each entry to the one before it. That takes a few bytes of a file. It
shows damage only where it passes, so it is done in files that are known to be durable. A slot is believed if its page
has anything at all.

By entries: all of them, 20 bytes each, and each link is held against what it must be. Any page or sector of another
moment shows, as a power cut leaves them, and so does a file that was copied while it was written. A slot may be older
than the entries, and not younger.

Either way the first and the last entry are those that the header has. Nothing says of which key a hash is: records do.
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
    entries_at,
    header_defects,
)
from .directory import NEAR_BYTES, StoreDirectory, StoreFile
from .index_entries import ENTRY, slots_in
from .log_ranges import LogRange
from .source_options import SourceOptions

ASKING_BYTES = NEAR_BYTES
"""Following a link costs about as much as reading so many bytes of entries one behind the other."""
_PAGE_BYTES = 4096
_ENTRIES_AT_ONCE = 1 << 18
_Array = np.ndarray[Any, Any]


class OddIndexError(Exception):
    """An index file does not agree with itself, or with the log."""


@dataclass(frozen=True, slots=True)
class IndexedPart:
    """What one index file accounts for: the log from its first entry's record up to its last one's, without that."""

    file: StoreFile
    header: IndexHeader
    ranges: tuple[LogRange, ...]
    """What there is of that part of the log, and the first byte of the last entry's record."""
    durable_before_ms: int | None
    """Full files that end at this store time or before are known to be durable; None: the store was stopped, so all."""

    def within(self, low: int, high: int) -> "IndexedPart | None":
        """Return it if some of its records may be between two log offsets."""
        begin, end = self.header.begin_physical_offset, self.header.end_physical_offset
        return self if max(begin, low) < min(end, high) else None


class IndexLookup:
    """The index file of a part."""

    def __init__(self, directory: StoreDirectory, part: IndexedPart, options: SourceOptions) -> None:
        """Raise OddIndexError if the file cannot be what its header says."""
        self._directory, self._file, self._header = directory, part.file, part.header
        slots = slots_in(options, part.file.size_bytes, lambda: directory.content(part.file))
        if slots is None:
            raise OddIndexError
        self._slots = slots
        self._entries_at = entries_at(slots)
        self._entries_max = (part.file.size_bytes - self._entries_at) // ENTRY_BYTES
        if next(header_defects(part.header, part.file.path, self._entries_max), None) is not None:
            raise OddIndexError
        self.first, self.last = self._ends()
        before_ms = part.durable_before_ms
        is_full = part.header.next_entry >= self._entries_max
        self._is_durable = before_ms is None or (is_full and part.header.end_timestamp_ms <= before_ms)

    def offsets(self, hashes: Sequence[int]) -> list[int]:
        """Return where records with keys of some hashes begin, in order, in front of the last one that is indexed.

        Raises OddIndexError.
        """
        found = set[int]()
        for key_hash in hashes if self._is_durable else ():
            some = self._by_slot(key_hash)
            if some is None:
                break
            found.update(some)
        else:
            if self._is_durable:
                return sorted(found)
        return sorted(self._by_entries(hashes))

    def _ends(self) -> tuple[IndexEntry, IndexEntry]:
        """Return the first entry and the last.

        Of a file that is being written, count and end of the header may be of two moments.
        """
        first, last = self._entry(1), self._header.next_entry - 1
        ends = [self._entry(number) for number in (last, last - 1, last + 1) if 0 < number < self._entries_max]
        end = next((one for one in ends if one.physical_offset == self._header.end_physical_offset), None)
        if end is None or first.physical_offset != self._header.begin_physical_offset:
            raise OddIndexError
        return first, end

    def _by_slot(self, key_hash: int) -> list[int] | None:
        """Return the offsets that a slot leads to; None if it costs more than reading all entries, or says nothing."""
        header, slot = self._header, key_hash % self._slots
        slot_at = HEADER_BYTES + SLOT_BYTES * slot
        begin = max(slot_at // _PAGE_BYTES * _PAGE_BYTES, HEADER_BYTES)
        page = self._bytes(begin, min(slot_at // _PAGE_BYTES * _PAGE_BYTES + _PAGE_BYTES, self._entries_at))
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
                raise OddIndexError
            entry = self._entry(number)
            offset = entry.physical_offset
            is_counted = number < header.next_entry  # others are younger than the header
            is_in_place = (
                header.begin_physical_offset <= offset <= header.end_physical_offset
                if is_counted
                else header.end_physical_offset <= offset
            )
            if entry.key_hash < 0 or entry.key_hash % self._slots != slot or not is_in_place:
                raise OddIndexError
            if newest is not None and offset > newest:
                raise OddIndexError
            if entry.key_hash == key_hash and is_counted:
                found.append(offset)
            newest, above, number = offset, number, entry.previous
        return [offset for offset in found if offset < header.end_physical_offset]

    def _by_entries(self, hashes: Sequence[int]) -> set[int]:
        """Return the offsets of entries with some hashes, and look at all entries."""
        begin, end = self._header.begin_physical_offset, self._header.end_physical_offset
        behind_all, found = self._header.next_entry, set[int]()
        newest = np.zeros(self._slots, np.int32)
        for first in range(1, behind_all, _ENTRIES_AT_ONCE):
            behind = min(first + _ENTRIES_AT_ONCE, behind_all)
            at = self._entries_at + ENTRY_BYTES * first
            raw = np.frombuffer(self._bytes(at, self._entries_at + ENTRY_BYTES * behind), ENTRY)
            key_hashes, offsets = raw["key_hash"].astype(np.int32), raw["physical_offset"].astype(np.int64)
            past_the_end = np.flatnonzero(offsets > end) + first
            is_younger = len(past_the_end) == 1 and past_the_end[0] == behind_all - 1  # than the header's other fields
            if (len(past_the_end) and not is_younger) or offsets.min() < begin or key_hashes.min() < 0:
                raise OddIndexError
            if (raw["previous"] != _previous(key_hashes % self._slots, first, newest)).any():
                raise OddIndexError
            found.update(offsets[np.isin(key_hashes, hashes) & (offsets < end)].tolist())
        for slot in sorted({key_hash % self._slots for key_hash in hashes}):
            slot_at = HEADER_BYTES + SLOT_BYTES * slot
            (number,) = SLOT.unpack(self._bytes(slot_at, slot_at + SLOT_BYTES))
            if newest[slot] < number < behind_all:  # that one says it is another slot's
                raise OddIndexError
        return found

    def _entry(self, number: int) -> IndexEntry:
        at = self._entries_at + ENTRY_BYTES * number
        return decode_entry(memoryview(self._bytes(at, at + ENTRY_BYTES)), 0)

    def _bytes(self, begin: int, end: int) -> bytes:
        """Return bytes of the file as they are at one moment. Raises OddIndexError if it has become shorter."""
        view, origin = self._directory.window(self._file, begin, end - begin)
        found = view[begin - origin : end - origin].tobytes()
        if len(found) != end - begin:
            raise OddIndexError
        return found


def _previous(slots: _Array, first: int, newest: _Array) -> _Array:
    """Return what each of some entries must have as the one before it; newest has and gets the last of each slot.

    first: the number of the first of them.
    """
    numbers = np.arange(first, first + len(slots), dtype=np.int32)
    found = newest[slots]
    order = np.argsort(slots, kind="stable")
    follows = slots[order[1:]] == slots[order[:-1]]
    found[order[1:][follows]] = numbers[order[:-1][follows]]
    newest[slots] = numbers  # of equal ones the last counts
    return found

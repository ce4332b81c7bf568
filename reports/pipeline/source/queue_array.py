"""Consume queue as an array: finds an entry by number, or by log offset with a binary search.

Entries are in log order, so a few small reads find the first entry after a log offset. In a damaged queue the search
may miss entries.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ....store.formats.consume_queue import BLANK_ENTRY, ENTRY_BYTES, QueueEntry, decode_entry
from .directory import StoreDirectory, StoreFile

ENTRY = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_PAGE_BYTES = 4096
_ENTRIES_FIRST, _ENTRIES_MAX = 200, 1 << 15
"""Number of entries in the first read, and the maximum per read. The number quadruples with each read."""
_UNWRITTEN = 1 << 63
"""Sort key: greater than any log offset."""
_Array = np.ndarray[Any, Any]


class QueueArray:
    """One consume queue, with the files that existed when this object was created."""

    def __init__(self, directory: StoreDirectory, files: Sequence[StoreFile]) -> None:
        assert all(one.base_offset < other.base_offset for one, other in pairwise(files)), "binary search needs order"
        self._directory = directory
        self._files = [file for file in files if file.size_bytes >= ENTRY_BYTES]
        self._ends = list(accumulate(file.size_bytes // ENTRY_BYTES for file in self._files))
        self._seen: dict[str, tuple[memoryview, int]] = {}

    def at(self, queue_offset: int) -> QueueEntry | None:
        """Return the entry at a queue offset, possibly unwritten; None after the end of the files."""
        position = queue_offset * ENTRY_BYTES
        for file in self._files:
            if file.base_offset <= position <= file.base_offset + file.size_bytes - ENTRY_BYTES:
                return self._read_entry(file, position - file.base_offset)
        return None

    def record_bounds_between(self, low: int, high: int) -> tuple[_Array, _Array]:
        """Return starts and ends of the records between two log offsets, including a record that spans `low`."""
        count = self._ends[-1] if self._ends else 0
        number = max(bisect_left(range(count), low, key=self._physical_offset) - 1, 0)
        parts, wanted = [np.empty(0, ENTRY)], _ENTRIES_FIRST
        while number < count:
            some = self._read_entries(number, wanted)
            (stop,) = np.nonzero((some["size"] <= 0) | (some["physical_offset"] >= high))
            parts.append(some[: stop[0]] if len(stop) else some)
            if len(stop) or not len(some):
                break
            number += len(some)
            wanted = min(4 * wanted, _ENTRIES_MAX)
        found = np.concatenate(parts)
        begins = found["physical_offset"].astype(np.int64)
        ends = begins + found["size"]
        is_blank = (begins == BLANK_ENTRY.physical_offset) & (found["size"] == BLANK_ENTRY.size_bytes)
        is_inside = (begins >= 0) & (ends > low) & ~is_blank
        return begins[is_inside], ends[is_inside]

    def _physical_offset(self, number: int) -> int:
        which = bisect_right(self._ends, number)
        first = self._ends[which - 1] if which else 0
        entry = self._read_entry(self._files[which], (number - first) * ENTRY_BYTES)
        return entry.physical_offset if entry is not None and entry.size_bytes > 0 else _UNWRITTEN

    def _read_entry(self, file: StoreFile, position: int) -> QueueEntry | None:
        page = position // _PAGE_BYTES * _PAGE_BYTES
        some = self._entry_bytes(file, page, _PAGE_BYTES + ENTRY_BYTES)[position - page :]
        return decode_entry(some, 0) if len(some) >= ENTRY_BYTES else None  # otherwise the file has become shorter

    def _read_entries(self, number: int, wanted: int) -> _Array:
        which = bisect_right(self._ends, number)
        file, first = self._files[which], self._ends[which - 1] if which else 0
        assert first <= number < self._ends[which], (first, number, self._ends[which])
        count = min(wanted, self._ends[which] - number)
        raw = bytes(self._entry_bytes(file, (number - first) * ENTRY_BYTES, count * ENTRY_BYTES))
        return np.frombuffer(raw, ENTRY, count=len(raw) // ENTRY_BYTES)

    def _entry_bytes(self, file: StoreFile, position: int, size_bytes: int) -> memoryview:
        """Return up to `size_bytes` bytes. The last window is cached."""
        view, origin = self._seen.get(file.path, (memoryview(b""), 0))
        end = min(position + size_bytes, file.size_bytes)
        if not origin <= position <= end <= origin + len(view):
            view, origin = self._seen[file.path] = self._directory.read_window(file, position, size_bytes)
        return view[position - origin : end - origin]

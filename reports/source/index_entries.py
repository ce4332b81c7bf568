"""The table `index_entries`: the key index, a row for each entry, and for each place where a file is at odds with it.

    column              type          meaning
    file, position      string, bigint
    number              int           of the entry in its file, from 1 on; null in a row of damage to slots or header
    key_hash            int
    physical_offset     bigint        where the key's record is in the log
    time_diff_s         int           as counted from begin_timestamp_ms
    previous            int           the entry before it in the same slot, 0 for none
    begin_timestamp_ms  bigint        of the file
    damage              string        what is wrong with link, slot or header; null if nothing is

How many slots and entries a file has room for is not in it: the options hashSlots and indexEntries tell, or RocketMQ's
defaults if they fit its length, or else the file itself, by its last entry. Filters on key_hash and physical_offset are
seen to here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...store.formats.index import (
    ENTRY_BYTES,
    FIELDS_AT,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    decode_header,
    entries_at,
    index_file_bytes,
)
from ...store.formats.index_slots import slots_of
from .conditions import Conditions
from .directory import StoreDirectory, StoreFile
from .source_options import SourceOptions

FIELDS = (
    pa.field("file", pa.string()),
    pa.field("position", pa.int64()),
    pa.field("number", pa.int32()),
    pa.field("key_hash", pa.int32()),
    pa.field("physical_offset", pa.int64()),
    pa.field("time_diff_s", pa.int32()),
    pa.field("previous", pa.int32()),
    pa.field("begin_timestamp_ms", pa.int64()),
    pa.field("damage", pa.string()),
)
DEFAULT_HASH_SLOTS = 5_000_000
DEFAULT_INDEX_ENTRIES = 20_000_000
_ENTRY = np.dtype(
    [("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_diff_s", ">i4"), ("previous", ">i4")]
)
_ROWS_MAX = 1 << 16
_Array = Any
"""Of numpy."""


class IndexEntries:
    """The key index as a table."""

    pushed_columns = frozenset({"key_hash", "physical_offset"})

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._fields = options.chosen(FIELDS)
        self.schema = pa.schema(self._fields)

    def partitions(self, directory: StoreDirectory, conditions: Conditions) -> Sequence[StoreFile]:
        """Return all files: a hash may be in each."""
        return directory.index_files()

    def batches(
        self, directory: StoreDirectory, partition: StoreFile, conditions: Conditions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        view = directory.content(partition)
        slots = self._slots(view)
        if slots is None:
            if not conditions and len(view.tobytes().strip(b"\0")):
                reason = f"size: expected that of an index file with an entry, found {len(view)} bytes"
                yield self._damage(partition, [(0, reason)])
            return
        header = decode_header(view)
        room = (len(view) - entries_at(slots)) // ENTRY_BYTES
        count = max(min(header.next_entry, room) - 1, 0)
        entries = np.frombuffer(view, _ENTRY, count=count, offset=entries_at(slots) + ENTRY_BYTES)
        found = {
            name: entries[name].astype(entries[name].dtype.newbyteorder("=")) for name in _ENTRY.names or ()
        }
        links = _links(found["key_hash"], slots)
        for start in range(0, count, _ROWS_MAX):
            end = min(start + _ROWS_MAX, count)
            yield self._batch(partition, header, slots, found, links, start, end, conditions)
        if not conditions:
            odd = [*_odd_header(header, found, room), *_odd_slots(view, slots, found["key_hash"])]
            if odd:
                yield self._damage(partition, odd)

    def _slots(self, view: memoryview) -> int | None:
        """Return how many slots a file has, None if it cannot be told."""
        told, entries = self._options.hash_slots, self._options.index_entries
        if told is None and entries is not None:
            slots, odd_bytes = divmod(len(view) - index_file_bytes(0, entries), SLOT_BYTES)
            return slots if slots > 0 and not odd_bytes else None
        if told is None and len(view) == index_file_bytes(DEFAULT_HASH_SLOTS, DEFAULT_INDEX_ENTRIES):
            told = DEFAULT_HASH_SLOTS
        if told is None:
            return slots_of(view) if len(view) > HEADER_BYTES else None
        return told if len(view) > entries_at(told) else None

    def _batch(
        self,
        file: StoreFile,
        header: IndexHeader,
        slots: int,
        found: dict[str, _Array],
        links: _Array,
        start: int,
        end: int,
        conditions: Conditions,
    ) -> pa.RecordBatch:
        columns: dict[str, Any] = {name: values[start:end] for name, values in found.items()}
        allowed = conditions.mask(columns, end - start)
        columns = {name: values[allowed] for name, values in columns.items()}
        numbers = np.arange(start + 1, end + 1, dtype=np.int64)[allowed]
        wanted, rows = links[start:end][allowed], int(allowed.sum())
        is_odd = columns["previous"] != wanted
        reasons = [
            f"previous: expected {wanted[row]}, found {columns['previous'][row]}" if is_odd[row] else None
            for row in (range(rows) if is_odd.any() else ())
        ]
        columns["damage"] = pa.array(reasons or [None] * rows, pa.string())
        columns["number"] = numbers.astype(np.int32)
        columns["position"] = entries_at(slots) + ENTRY_BYTES * numbers
        columns["file"] = pa.repeat(file.path, rows)
        columns["begin_timestamp_ms"] = pa.repeat(pa.scalar(header.begin_timestamp_ms, pa.int64()), rows)
        arrays = [pa.array(columns[field.name], field.type) for field in self._fields]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _damage(self, file: StoreFile, odd: list[tuple[int, str]]) -> pa.RecordBatch:
        """Return rows of what is wrong at some positions."""
        known = [{"file": file.path, "position": position, "damage": reason} for position, reason in odd]
        rows = [{name: row.get(name) for name in self.schema.names} for row in known]
        return pa.RecordBatch.from_pylist(rows, self.schema)


def _links(hashes: _Array, slots: int) -> _Array:
    """Return what each entry's `previous` must be: the number of the last one before it in the same slot, or 0."""
    of_slot = hashes % slots
    order = np.argsort(of_slot, kind="stable")
    links = np.zeros(len(hashes), np.int32)
    follows = of_slot[order[1:]] == of_slot[order[:-1]]
    links[order[1:][follows]] = order[:-1][follows] + 1
    return links


def _odd_slots(view: memoryview, slots: int, hashes: _Array) -> Iterator[tuple[int, str]]:
    """Yield each slot that does not lead to its newest entry."""
    found = np.frombuffer(view, ">i4", count=slots, offset=HEADER_BYTES)
    wanted = np.zeros(slots, np.int32)
    wanted[hashes % slots] = np.arange(1, len(hashes) + 1, dtype=np.int32)  # of equal ones the last counts
    for slot in np.nonzero(found != wanted)[0]:
        yield HEADER_BYTES + SLOT_BYTES * int(slot), f"slot: expected {wanted[slot]}, found {found[slot]}"


def _odd_header(header: IndexHeader, found: dict[str, _Array], room: int) -> Iterator[tuple[int, str]]:
    """Yield each field of the header that is at odds with the entries."""
    if header.next_entry > room:
        yield FIELDS_AT["indexCount"], f"indexCount: expected at most {room}, found {header.next_entry}"
    offsets = found["physical_offset"]
    if not len(offsets):
        return
    pairs = (
        ("beginPhyOffset", header.begin_physical_offset, int(offsets[0])),
        ("endPhyOffset", header.end_physical_offset, int(offsets[-1])),
    )
    for name, value, wanted in pairs:
        if value != wanted:
            yield FIELDS_AT[name], f"{name}: expected {wanted}, its entry's, found {value}"

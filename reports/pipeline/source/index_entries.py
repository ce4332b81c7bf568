"""The table `index_entries`: one row per entry of the key index, and one per inconsistency of an index file.

`COMMENTS` in `rocketmq` explains the columns. `number` is null for damage of slots or the header.

An index file does not store its numbers of slots and entries. They come from the options hashSlots and indexEntries,
else from RocketMQ's defaults if these match the file size, else from the position of the last entry.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ....store.formats.index import (
    ENTRY_BYTES,
    FIELDS_AT,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    decode_header,
    entries_position,
    header_defects,
    index_file_bytes,
    slots_of,
    used_slots_defects,
)
from .columns import DAMAGE, Reason, RowConditions, batch_of, damage_array, damage_batch, fields_of, pause_for_writes
from .directory import StoreDirectory, StoreFile
from .source_options import SourceOptions

_ENTRY_FIELDS = "key_hash int32, physical_offset int64, time_diff_s int32, previous int32"
FIELDS = (*fields_of(f"file string, position int64, number int32, {_ENTRY_FIELDS}, begin_timestamp_ms int64"), DAMAGE)
DEFAULT_HASH_SLOTS = 5_000_000
DEFAULT_INDEX_ENTRIES = 20_000_000
ENTRY = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_diff_s", ">i4"), ("previous", ">i4")])
_ROWS_MAX = 1 << 16
_Array = Any


class IndexEntries:
    """The key index as a table."""

    condition_columns = frozenset({"key_hash", "physical_offset"})

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.schema = pa.schema(options.chosen(FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[StoreFile]:
        """Return all files, because any file may contain a requested hash."""
        return directory.index_files()

    def batches(
        self, directory: StoreDirectory, partition: StoreFile, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        view = directory.content(partition)
        slots = slot_count_of(self._options, len(view), lambda: view)
        if slots is None and _has_entries(view):
            pause_for_writes()  # the store may be writing the first entry; it updates the count in the header last
            slots = slot_count_of(self._options, len(view), lambda: view)
        if slots is None:
            if not conditions and _has_entries(view):
                reason = Reason("size", "that of an index file with an entry", f"{len(view)} bytes")
                yield damage_batch(self.schema, reason, file=partition.path, position=0)
            return
        header = decode_header(view)
        room = (len(view) - entries_position(slots)) // ENTRY_BYTES
        count = max(min(header.next_entry, room) - 1, 0)
        entries = np.frombuffer(view, ENTRY, count=count, offset=entries_position(slots) + ENTRY_BYTES)
        found = {name: entries[name].astype(entries[name].dtype.newbyteorder("=")) for name in ENTRY.names or ()}
        links = expected_previous(found["key_hash"] % slots, 1, np.zeros(slots, np.int32))
        for start in range(0, count, _ROWS_MAX):
            end = min(start + _ROWS_MAX, count)
            yield self._entry_batch(partition, header, slots, found, links, start, end, conditions)
        if not conditions:
            odd = [
                *_inconsistent_header(header, partition.path, found, slots, room),
                *_inconsistent_slots(view, slots, found["key_hash"]),
            ]
            if odd:
                pause_for_writes()
                if decode_header(directory.content(partition)) != header:  # the store continues to write to this file
                    odd = list(_inconsistent_slots(view, slots, found["key_hash"], written_later=header.next_entry))
            if odd:
                rows = [{"file": partition.path, "position": at, "damage": reason._asdict()} for at, reason in odd]
                yield pa.RecordBatch.from_pylist(rows, self.schema)

    def _entry_batch(
        self,
        file: StoreFile,
        header: IndexHeader,
        slots: int,
        found: dict[str, _Array],
        links: _Array,
        start: int,
        end: int,
        conditions: RowConditions,
    ) -> pa.RecordBatch:
        columns: dict[str, Any] = {name: values[start:end] for name, values in found.items()}
        allowed = conditions.mask(columns, end - start)
        columns = {name: values[allowed] for name, values in columns.items()}
        numbers = np.arange(start + 1, end + 1, dtype=np.int64)[allowed]
        wanted, rows = links[start:end][allowed], int(allowed.sum())
        is_odd = columns["previous"] != wanted
        reasons = [
            Reason("previous", str(wanted[row]), str(columns["previous"][row])) if is_odd[row] else None
            for row in (range(rows) if is_odd.any() else ())
        ]
        columns["damage"] = damage_array(reasons) if reasons else pa.nulls(rows, DAMAGE.type)
        columns["number"] = numbers.astype(np.int32)
        columns["position"] = entries_position(slots) + ENTRY_BYTES * numbers
        columns["file"] = pa.repeat(file.path, rows)
        columns["begin_timestamp_ms"] = pa.repeat(pa.scalar(header.begin_timestamp_ms, pa.int64()), rows)
        return batch_of(self.schema, columns)


def slot_count_of(options: SourceOptions, size_bytes: int, content: Callable[[], memoryview]) -> int | None:
    """Return the number of slots, or None. Calls `content` only if options and size do not determine the number."""
    slots, entries = options.hash_slots, options.index_entries
    if slots is None and entries is not None:
        slots, odd_bytes = divmod(size_bytes - index_file_bytes(0, entries), SLOT_BYTES)
        return slots if slots > 0 and not odd_bytes else None
    if slots is None and size_bytes == index_file_bytes(DEFAULT_HASH_SLOTS, DEFAULT_INDEX_ENTRIES):
        slots = DEFAULT_HASH_SLOTS
    if slots is None:
        return slots_of(content()) if size_bytes > HEADER_BYTES else None
    return slots if size_bytes > entries_position(slots) else None


def _has_entries(view: memoryview) -> bool:
    """Check the bytes after the header. The store writes the header before the first entry."""
    return bool(view[HEADER_BYTES if len(view) > HEADER_BYTES else 0 :].tobytes().strip(b"\0"))


def expected_previous(slots: _Array, first: int, newest: _Array) -> _Array:
    """Return the expected `previous` of consecutive entries. first: number of the first entry.

    newest: the last entry of each slot before these entries; updated in place.
    """
    numbers = np.arange(first, first + len(slots), dtype=np.int32)
    found = newest[slots]
    order = np.argsort(slots, kind="stable")
    follows = slots[order[1:]] == slots[order[:-1]]
    found[order[1:][follows]] = numbers[order[:-1][follows]]
    newest[slots] = numbers  # if a slot occurs several times, the last value stays
    return found


def _inconsistent_slots(
    view: memoryview, slots: int, hashes: _Array, *, written_later: int | None = None
) -> Iterator[tuple[int, Reason]]:
    """Yield each slot that does not point to its newest entry, with the damage.

    written_later: number of the first entry written after the header was read. A slot may point to this or a later
    entry.
    """
    found = np.frombuffer(view, ">i4", count=slots, offset=HEADER_BYTES)
    wanted = np.zeros(slots, np.int32)
    wanted[hashes % slots] = np.arange(1, len(hashes) + 1, dtype=np.int32)  # for a repeated slot the last value stays
    odd = found != wanted
    if written_later is not None:
        odd &= found < written_later
    for slot in np.nonzero(odd)[0]:
        yield HEADER_BYTES + SLOT_BYTES * int(slot), Reason("slot", str(wanted[slot]), str(found[slot]))


def _inconsistent_header(
    header: IndexHeader, path: str, found: dict[str, _Array], slots: int, room: int
) -> Iterator[tuple[int, Reason]]:
    yield from ((error.offset, Reason.from_error(error)) for error in header_defects(header, path, room))
    used_slots = len(np.unique(found["key_hash"] % slots))
    yield from ((error.offset, Reason.from_error(error)) for error in used_slots_defects(header, used_slots, path))
    offsets = found["physical_offset"]
    if not len(offsets):
        return
    begin, end = header.begin_physical_offset, header.end_physical_offset
    for name, value, wanted in (("beginPhyOffset", begin, offsets[0]), ("endPhyOffset", end, offsets[-1])):
        if value != wanted:
            yield FIELDS_AT[name], Reason(name, f"{wanted}, its entry's", str(value))

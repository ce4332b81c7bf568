"""The table `queue_entries`: one row per consume queue entry, up to the last nonzero entry.

The module `comments` explains the columns. The reader skips whole files because of conditions on topic, queue_id and
queue_offset.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ....store.formats.consume_queue import BLANK_ENTRY, ENTRY_BYTES
from .columns import (
    DAMAGE,
    LOOKS_MAX,
    Reason,
    RowConditions,
    batch_of,
    damage_array,
    damage_batch,
    fields_of,
    pause_for_writes,
)
from .directory import QueueFile, StoreDirectory
from .queue_array import ENTRY
from .source_options import SourceOptions

_PLACE = "file string, position int64, topic string, queue_id int32, queue_offset int64"
FIELDS = (*fields_of(f"{_PLACE}, physical_offset int64, size int32, tags_code int64, is_blank bool"), DAMAGE)
_HOLE = Reason("entry", "no hole, as entries follow", "zeros")
_PARTITION_BYTES = 32 << 20
_ROWS_MAX = 1 << 16
_Array = Any


class QueueEntries:
    """The consume queues as a table."""

    condition_columns = frozenset({"topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code"})

    def __init__(self, options: SourceOptions) -> None:
        self.schema = pa.schema(options.chosen(FIELDS))

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[list[QueueFile]]:
        """Return the files that may have matching rows, in groups of about _PARTITION_BYTES."""
        groups: list[list[QueueFile]] = []
        room_bytes = 0
        for one in directory.queue_files():
            first = one.file.base_offset // ENTRY_BYTES
            last = first + one.file.size_bytes // ENTRY_BYTES
            if not (
                conditions.allow("topic", one.topic)
                and conditions.allow("queue_id", one.queue_id)
                and conditions.allow_some_of("queue_offset", first, last)
            ):
                continue
            if room_bytes <= 0:
                groups.append([])
                room_bytes = _PARTITION_BYTES
            groups[-1].append(one)
            room_bytes -= one.file.size_bytes
        return groups

    def batches(
        self, directory: StoreDirectory, partition: list[QueueFile], conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]:
        for one in partition:
            entries, is_zero = _stable_entries(directory, one)
            count = len(entries)
            for start in range(0, count, _ROWS_MAX):
                rows = range(start, min(start + _ROWS_MAX, count))
                yield self._row_batch(one, entries, is_zero, rows, conditions)
            if one.file.size_bytes % ENTRY_BYTES and not conditions:
                yield self._wrong_size_damage(one)

    def _row_batch(
        self, one: QueueFile, entries: _Array, is_zero: _Array, wanted: range, conditions: RowConditions
    ) -> pa.RecordBatch:
        some = entries[wanted.start : wanted.stop]
        numbers = np.arange(wanted.start, wanted.stop, dtype=np.int64)
        columns: dict[str, Any] = {
            "queue_offset": one.file.base_offset // ENTRY_BYTES + numbers,
            "physical_offset": some["physical_offset"].astype(np.int64),
            "size": some["size"].astype(np.int32),
            "tags_code": some["tags_code"].astype(np.int64),
        }
        allowed = conditions.mask(columns, len(wanted))
        columns = {name: values[allowed] for name, values in columns.items()}
        rows = int(allowed.sum())
        zero = is_zero[wanted.start : wanted.stop][allowed]
        columns["is_blank"] = (
            (columns["physical_offset"] == BLANK_ENTRY.physical_offset)
            & (columns["size"] == BLANK_ENTRY.size_bytes)
            & (columns["tags_code"] == BLANK_ENTRY.tags_code)
        )
        columns["position"] = numbers[allowed] * ENTRY_BYTES
        columns["file"] = pa.repeat(one.file.path, rows)
        columns["topic"] = pa.repeat(one.topic, rows)
        columns["queue_id"] = pa.repeat(pa.scalar(one.queue_id, pa.int32()), rows)
        columns["damage"] = (
            damage_array([_HOLE if one else None for one in zero.tolist()])
            if zero.any()
            else pa.nulls(rows, DAMAGE.type)
        )
        return batch_of(self.schema, columns)

    def _wrong_size_damage(self, one: QueueFile) -> pa.RecordBatch:
        found = Reason("size", f"a multiple of {ENTRY_BYTES} bytes", str(one.file.size_bytes))
        position = one.file.size_bytes // ENTRY_BYTES * ENTRY_BYTES
        known = {"file": one.file.path, "position": position, "topic": one.topic, "queue_id": one.queue_id}
        return damage_batch(self.schema, found, **known)


def _stable_entries(directory: StoreDirectory, one: QueueFile) -> tuple[_Array, _Array]:
    """Return the entries up to the last nonzero entry, and a mask of the zero entries.

    Omits entries that a running store appends after the first read.
    """
    entries, is_zero = _entries(directory, one)
    for _ in range(LOOKS_MAX):
        if not len(entries) or not (is_zero.any() or entries["size"][-1] <= 0):
            break
        pause_for_writes()
        again, zero_again = _entries(directory, one, len(entries))
        if np.array_equal(again, entries):
            break
        entries, is_zero = again, zero_again
    return entries, is_zero


def _entries(directory: StoreDirectory, one: QueueFile, count: int | None = None) -> tuple[_Array, _Array]:
    raw = bytes(directory.content(one.file))  # a copy, because a memory-mapped file may change
    entries = np.frombuffer(raw, ENTRY, count=len(raw) // ENTRY_BYTES)
    is_zero = np.ones(len(entries), bool)
    for name in ENTRY.names or ():
        is_zero &= entries[name] == 0
    if count is None:
        (written,) = np.nonzero(~is_zero)
        count = int(written[-1]) + 1 if len(written) else 0
    return entries[:count], is_zero[:count]

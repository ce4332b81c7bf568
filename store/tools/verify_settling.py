"""Settling: finds records with exactly the expected queue entries.

The queue entry of a record is at byte 20 * queueOffset of the queue. If the entry has the expected bytes, record and
entry are *settled*: they need no other check. Memory contains only the bounds of settled spans, but all data of the few
other records.
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ..config import StoreConfig
from ..formats.consume_queue import ENTRY_BYTES, QueueEntry, decode_entry
from ..log.segment import segment_name
from ..world import Files, MappedFile
from .violation import is_refusal

_OFFSET = Struct(">q")
_LOOK_UP_BYTES = 64 << 10
_PENDING_BYTES_MAX = 16 << 20
"""Limit for the total size of all entries that are not compared yet."""
_FILES_MAX = 1024
QueueKey = tuple[str, int]


class SettledSpan(NamedTuple):
    """Consecutive queue entries that match records in log order."""

    first: int
    """The queueOffset of the first record."""
    entries: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class QueueRun:
    """Records of one queue with consecutive queueOffsets, in log order."""

    first: int
    records: int
    physical_offset: int
    is_light: bool
    """Whether this queue is an additional (light) queue of the records."""


class QueuedRecords:
    """Records of one queue, in log order."""

    def __init__(self) -> None:
        self.queue_offsets = array("q")
        self.stored_ms = array("q")
        self.entries = bytearray()
        """Expected queue entries, which contain the tagsCode, not the address of an extension unit."""
        self.damaged: set[int] = set()
        """Indexes of records with a wrong body checksum."""

    def __len__(self) -> int:
        return len(self.queue_offsets)

    def add(self, queue_offset: int, entry: bytes, stored_ms: int, *, damaged: bool) -> None:
        assert len(entry) == ENTRY_BYTES, len(entry)
        if damaged:
            self.damaged.add(len(self))
        self.queue_offsets.append(queue_offset)
        self.stored_ms.append(stored_ms)
        self.entries += entry

    def extend(self, others: "QueuedRecords") -> None:
        self.damaged.update(len(self) + position for position in others.damaged)
        self.queue_offsets += others.queue_offsets
        self.stored_ms += others.stored_ms
        self.entries += others.entries

    def entry(self, position: int) -> QueueEntry:
        at = position * ENTRY_BYTES
        return decode_entry(bytes(self.entries[at : at + ENTRY_BYTES]), 0)

    def position_of(self, physical_offset: int) -> int:
        """Return the index of the first record at or after a log offset."""
        return bisect_left(range(len(self)), physical_offset, key=lambda position: self.entry(position).physical_offset)


class QueueFiles:
    """Reads queue entries."""

    def __init__(self, files: Files, config: StoreConfig) -> None:
        self._files = files
        self._root = config.consume_queue_directory
        self._file_bytes = config.mapped_file_size_consume_queue
        self._open: dict[tuple[str, int, int], MappedFile | None] = {}

    def entries(self, queue: QueueKey, number: int, count: int) -> memoryview:
        """Return the bytes of up to `count` entries from entry `number` on. The bytes end at the end of the file.

        Raises OSError for an unreadable file.
        """
        empty = memoryview(b"")
        if number < 0 or self._file_bytes % ENTRY_BYTES:
            return empty
        base_offset = number * ENTRY_BYTES // self._file_bytes * self._file_bytes
        file = self._mapped_file(queue, base_offset)
        if file is None:
            return empty
        begin = number * ENTRY_BYTES - base_offset
        size_bytes = min(file.size_bytes, self._file_bytes) // ENTRY_BYTES * ENTRY_BYTES
        end = min(begin + count * ENTRY_BYTES, size_bytes)
        return file.view(begin, end) if begin < end else empty

    def _mapped_file(self, queue: QueueKey, base_offset: int) -> MappedFile | None:
        place = (*queue, base_offset)
        if place not in self._open:
            # A check reads the files in order, so it never needs a closed file again.
            if len(self._open) == _FILES_MAX:
                self._open.clear()
            self._open[place] = self._open_file(f"{self._root}/{queue[0]}/{queue[1]}/{segment_name(base_offset)}")
        return self._open[place]

    def _open_file(self, path: str) -> MappedFile | None:
        try:
            status = self._files.status(path)
            if status is None or status.is_directory:
                return None
            return self._files.map(path, status.size_bytes)
        except OSError as error:
            if is_refusal(error):
                raise
            return None  # `QueueJudgement` reports this error


class RangeQueue:
    """The records of one queue in a part of the log."""

    def __init__(self) -> None:
        self.runs: list[QueueRun] = []
        self.settled: list[SettledSpan] = []
        self.unsettled = QueuedRecords()


class EntrySettling:
    """Collects the records of a part of the log by queue, and compares them with their queue entries."""

    def __init__(self, files: QueueFiles) -> None:
        self.queues: dict[QueueKey, RangeQueue] = {}
        self._files = files
        self._pending: dict[QueueKey, _PendingRecords] = {}
        self._pending_bytes = 0

    def add(
        self,
        queue: QueueKey,
        first: int,
        entries: bytes,
        times: bytes,
        *,
        is_light: bool = False,
        damaged: bool = False,
    ) -> None:
        """Add records that have consecutive queueOffsets from `first` on.

        `entries` and `times` have the encoding of `NativeCore.runs`. `damaged` means that the bodies are damaged.
        """
        pending = self._pending.get(queue)
        if pending is None:
            pending = self._pending[queue] = _PendingRecords(self.queues.setdefault(queue, RangeQueue()))
        _add_to_runs(pending.of.runs, first, entries, is_light=is_light)
        if damaged or first != pending.end:
            self._look_up(queue, pending)
            pending.first = first
        pending.entries += entries
        pending.times.frombytes(times)
        self._pending_bytes += len(entries)
        if damaged or len(pending.entries) >= _LOOK_UP_BYTES:
            self._look_up(queue, pending, damaged=damaged)
        if self._pending_bytes >= _PENDING_BYTES_MAX:
            self.finish()

    def finish(self) -> None:
        for queue, pending in self._pending.items():
            self._look_up(queue, pending)

    def _look_up(self, queue: QueueKey, pending: "_PendingRecords", *, damaged: bool = False) -> None:
        expected, at = memoryview(bytes(pending.entries)), 0
        while at < len(expected):
            number = pending.first + at // ENTRY_BYTES
            found = self._files.entries(queue, number, (len(expected) - at) // ENTRY_BYTES)
            # If no bytes were found, all remaining entries are missing too.
            end = at + len(found) if len(found) else len(expected)
            if found == expected[at:end]:
                _add_settled_entries(pending.of.settled, number, found)
            else:
                self._compare_each(pending, expected[at:end], found, at, damaged=damaged)
            at = end
        self._pending_bytes -= len(expected)
        assert self._pending_bytes >= 0, self._pending_bytes
        pending.first = pending.end
        pending.entries.clear()
        del pending.times[:]

    def _compare_each(
        self, pending: "_PendingRecords", expected: memoryview, found: memoryview, begin: int, *, damaged: bool
    ) -> None:
        """Compare entries one by one. `begin` is their byte position in `pending.entries`."""
        for at in range(0, len(expected), ENTRY_BYTES):
            entry, position = expected[at : at + ENTRY_BYTES], (begin + at) // ENTRY_BYTES
            number = pending.first + position
            if found[at : at + ENTRY_BYTES] == entry:
                _add_settled_entries(pending.of.settled, number, entry)
            else:
                pending.of.unsettled.add(number, bytes(entry), pending.times[position], damaged=damaged)


class _PendingRecords:
    """Records of one queue with consecutive queueOffsets. Their entries are not compared yet."""

    def __init__(self, of: RangeQueue) -> None:
        self.of = of
        self.first = 0
        self.entries = bytearray()
        self.times = array("q")

    @property
    def end(self) -> int:
        return self.first + len(self.entries) // ENTRY_BYTES


def _add_to_runs(runs: list[QueueRun], first: int, entries: bytes, *, is_light: bool) -> None:
    count, odd_bytes = divmod(len(entries), ENTRY_BYTES)
    assert count > 0, len(entries)
    assert not odd_bytes, len(entries)
    last = runs[-1] if runs else None
    if last is not None and last.is_light == is_light and last.first + last.records == first:
        last.records += count
    else:
        (physical_offset,) = _OFFSET.unpack_from(entries, 0)
        runs.append(QueueRun(first, count, physical_offset, is_light))


def _add_settled_entries(spans: list[SettledSpan], number: int, entries: memoryview) -> None:
    count = len(entries) // ENTRY_BYTES
    assert count > 0, len(entries)
    (first_offset,) = _OFFSET.unpack_from(entries, 0)
    (last_offset,) = _OFFSET.unpack_from(entries, len(entries) - ENTRY_BYTES)
    add_span(spans, SettledSpan(number, count, first_offset, last_offset))


def add_span(spans: list[SettledSpan], span: SettledSpan) -> None:
    """Extend the last span if the new span is adjacent, else append the new span."""
    if spans and spans[-1].first + spans[-1].entries == span.first:
        last = spans[-1]
        spans[-1] = SettledSpan(last.first, last.entries + span.entries, last.first_offset, span.last_offset)
    else:
        spans.append(span)

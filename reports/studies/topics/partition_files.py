"""Partition segments: store consecutive records with a sparse offset index.

    <base offset, 20 digits>.log     records in RocketMQ's format; physicalOffset is the position in this file
    <base offset, 20 digits>.index   8-byte big-endian entries, each at least 4 KiB of records after the preceding one

    offset  bytes  field of an index entry
    0       4      relative_offset   the record's offset minus the base offset
    4       4      position          position of the record's first byte in the log file

The offset of a record is its number in the partition. The base offset is the offset of the segment's first record.
Source of the layout: Kafka, LogSegment.scala and OffsetIndex.scala (index.interval.bytes = 4096).
"""

from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from typing import Protocol

from ....store.formats.message import RECORD_BYTES_MIN

INDEX_EVERY_BYTES = 4096
_ENTRY = Struct(">ii")
_LENGTH = Struct(">i")
_CHUNK_BYTES = 32 * 1024


class GrowingFile(Protocol):
    """An open file that writes can extend."""

    def write(self, at: int, data: bytes) -> int:
        """Write at a position, and extend the file if necessary; return the number of bytes written."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes, or fewer at the end of the file."""

    def sync(self) -> None:
        """Make written data and the size durable. After an OSError, unsynced data may be lost."""

    def close(self) -> None:
        """Close the descriptor."""


OpenFile = Callable[[str], GrowingFile]
"""Opens a file by path for reading and writing; creates a missing file."""


class PartitionSegment:
    """A log file and its index. One task at a time may append; all tasks may read.

    Invariant: `_offsets` and `_positions` are the columns of the index file.
    """

    def __init__(self, open_file: OpenFile, directory: str, base_offset: int) -> None:
        name = f"{directory}/{base_offset:020d}"
        self._log = open_file(f"{name}.log")
        self._index = open_file(f"{name}.index")
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._unindexed_bytes = 0

    def append(self, record: bytes) -> None:
        if self._unindexed_bytes > INDEX_EVERY_BYTES:
            self._add_entry()
        _write_all(self._log, self.size_bytes, record)
        self._unindexed_bytes += len(record)
        self.size_bytes += len(record)
        self.next_offset += 1

    def _add_entry(self) -> None:
        assert len(self._offsets) == len(self._positions), "columns of one index"
        assert not self._positions or self._positions[-1] < self.size_bytes, "entries are ascending"
        entry = _ENTRY.pack(self.next_offset - self.base_offset, self.size_bytes)
        _write_all(self._index, len(self._offsets) * _ENTRY.size, entry)
        self._offsets.append(self.next_offset)
        self._positions.append(self.size_bytes)
        self._unindexed_bytes = 0

    def read(self, offset: int, records_max: int) -> list[bytes]:
        assert offset >= self.base_offset, (offset, self.base_offset)
        at, number = self._indexed_record_before(offset)
        assert number <= offset, (number, offset)  # otherwise the scan would skip the requested record
        end, next_offset = self.size_bytes, self.next_offset
        found: list[bytes] = []
        chunk, chunk_at = b"", at
        while number < next_offset and len(found) < records_max and at < end:
            rest = chunk[at - chunk_at :]
            size_bytes = _LENGTH.unpack_from(rest)[0] if len(rest) >= _LENGTH.size else RECORD_BYTES_MIN
            if len(rest) < size_bytes:
                chunk, chunk_at = self._log.read(at, max(_CHUNK_BYTES, size_bytes)), at
                continue
            if number >= offset:
                found.append(rest[:size_bytes])
            at += size_bytes
            number += 1
        return found

    def _indexed_record_before(self, offset: int) -> tuple[int, int]:
        """Return the position and the offset of the last indexed record at or before an offset."""
        at = bisect_right(self._offsets, offset) - 1
        if at < 0:
            return 0, self.base_offset
        # spends the time of an index read; the content is already in `_offsets` and `_positions`
        self._index.read(at * _ENTRY.size, _ENTRY.size)
        return self._positions[at], self._offsets[at]

    def sync(self) -> None:
        """Sync the log, not the index, which can be rebuilt from the records."""
        self._log.sync()

    def close(self) -> None:
        self._log.close()
        self._index.close()


def _write_all(file: GrowingFile, at: int, data: bytes) -> None:
    while data:
        written = file.write(at, data)
        at, data = at + written, data[written:]

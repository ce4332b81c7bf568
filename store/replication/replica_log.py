"""Replica log: verifies a master's log stream and appends it to a slave's log.

The stream has no epoch and no checksum, so the slave verifies the records. It requests its own last record from the
master, and compares both. If its last record is not durable, it requests an earlier position. A record contains its
offset, its store time and the message. So if the master has the same record, both logs are the same up to this record.
Later records must pass the checks of recovery (sizes, magic, physicalOffset, body CRC, torn topic or properties). The
slave appends only complete records. If a connection ends within a record, the slave requests the record again.

The slave appends the blank record that ends a segment only together with the next record. A master that loses the next
record may lose the blank record too, and would then have a shorter log than a slave with the blank record.

The slave cannot detect three faults: different records before an equal last record; changed bytes in a header, topic or
properties that TCP's checksum missed; and a wrong master, if the slave's log is empty.
"""

from collections import deque
from collections.abc import Iterable
from struct import Struct

from ..errors import CorruptFileError, DivergedError
from ..formats.message import BLANK_BYTES, BLANK_MAGIC, MESSAGE_MAGIC, MESSAGE_MAGIC_V2, RECORD_BYTES_MIN
from ..formats.replication import TransferPiece
from ..formats.scan import SECTOR_BYTES, ScannedRecord, scan_records
from ..log.commit_log import CommitLog
from ..log.segment_queue import SegmentQueue
from ..marks import count_mark

_HEAD = Struct(">ii")
_MAGICS = (MESSAGE_MAGIC, MESSAGE_MAGIC_V2)
_IDLE_HEARTBEATS = 2
"""If two consecutive heartbeats arrive, the master had no data to send between them."""


class ReplicaLog:
    """Verifies and appends a master's stream. Not thread-safe."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self._log: SegmentQueue = commit_log.queue
        self._last_record: int | None = None
        self._damage: CorruptFileError | None = None
        try:
            self._last_record = last_record_offset(self._log)
        except CorruptFileError as damage:
            self._damage = damage
        self._expected = 0
        """Log offset of the next byte in the stream; 0 for an empty log before the first piece."""
        self._begun = False
        self._heartbeats = 0
        self._blank = b""
        """The received blank record at the end of a segment. Kept here until the next record is complete."""
        self._pending = bytearray()
        """Zeros from the sector's start to the log's end, then the received part of an incomplete record."""
        self._padding = 0

    def start_stream(self, kept_offset: int) -> int:
        """Start a new stream. Returns the log offset to request, 0 for an empty log.

        The requested offset is the offset of the last record, at most `kept_offset`. A RocketMQ master treats the
        request as a report, so it must not exceed the log that this slave guarantees. A request of 0 means an empty
        log, so a record at 0 is compared from its second byte. Raises DivergedError if corruption hides the last
        record, because then any log would match.
        """
        if self._damage is not None:
            expected = "a last record to compare with the master's"
            raise DivergedError(self._log.max_offset, expected, f"damage here: {self._damage}")
        last = self._log.max_offset if self._last_record is None else self._last_record
        first = max(self._log.min_offset, 1)  # the first segment of a log may begin after 0
        end = self._log.max_offset
        self._expected = max(min(last, kept_offset), first) if end else 0
        self._begun = False
        self._heartbeats = 0
        self._blank = b""
        self._reset_pending(end)
        return self._expected

    @property
    def is_verified(self) -> bool:
        return self._begun and self._expected >= self._log.max_offset

    def compare_or_append(self, piece: TransferPiece) -> bool:
        """Compare or append the next piece of the stream. Returns whether the log has grown.

        Raises DivergedError, without appending a byte, if the piece does not match.
        """
        if not self._begun:
            self._begun = True
            if self._log.max_offset == 0:
                self._begin_empty(piece)
        if piece.log_offset != self._expected:
            found = f"bytes from offset {piece.log_offset} on"
            raise DivergedError(self._expected, "the next bytes of the master's log", found)
        if piece.is_heartbeat:  # the offset of a heartbeat was checked above
            self._count_heartbeat()
            return False
        self._heartbeats = 0
        new = piece.data[self._compare_known_bytes(piece.data) :]
        self._expected += len(piece.data)
        if not new:
            return False
        self._pending += new
        return self._append_whole_records()

    def _begin_empty(self, piece: TransferPiece) -> None:
        if piece.log_offset % self._log.segment_bytes:
            expected = f"segments of {self._log.segment_bytes} bytes"
            raise DivergedError(piece.log_offset, expected, "a segment that begins here")
        self._expected = piece.log_offset
        self._reset_pending(piece.log_offset)
        count_mark("slave started without log")

    def _count_heartbeat(self) -> None:
        self._heartbeats += 1
        if not self.is_verified and self._heartbeats >= _IDLE_HEARTBEATS:
            expected = f"the master's bytes up to {self._log.max_offset}, the end of this log"
            found = "no data: the master's log is shorter, or begins later"
            raise DivergedError(self._expected, expected, found)

    def _compare_known_bytes(self, data: memoryview) -> int:
        at = self._expected
        size_bytes = min(len(data), max(self._log.max_offset - at, 0))
        if not size_bytes:
            return 0
        segment = self._log.find(at)
        if segment is None:  # a piece is in one segment, so the log contains all of its bytes or none
            raise DivergedError(at, "a byte to compare with the master's", "a gap between this log's segments")
        position = at - segment.base_offset
        own = bytes(segment.file.view(position, position + size_bytes))
        if own != data[:size_bytes]:
            index = next(i for i in range(size_bytes) if own[i] != data[i])
            raise DivergedError(at + index, f"{own[index]:#04x}, as in this log", f"{data[index]:#04x}")
        return size_bytes

    def _append_whole_records(self) -> bool:
        """Append the complete records of the pending bytes. Returns whether the log has grown."""
        base = self._expected - len(self._pending) + self._padding
        room = self._log.segment_bytes - base % self._log.segment_bytes
        begin, end = self._padding, self._whole_records_end(base, room)
        if end == begin:
            return False
        assert begin < end <= min(len(self._pending), begin + room), (begin, end, len(self._pending), room)
        whole = memoryview(self._pending)[:end].toreadonly()
        last = self._verified_last_record(whole, base)
        records, blank = bytes(whole[begin:]), b""
        if end - begin == room and (last is not None or not self._blank):  # a blank record ends each segment
            records_bytes = 0 if last is None else last.physical_offset + last.size_bytes - base
            records, blank = records[:records_bytes], records[records_bytes:]
        if records:
            self._append(base, records, last)
        rest = bytes(self._pending[end:])
        assert base + end - begin <= self._expected, (base, begin, end, self._expected)
        self._reset_pending(base + end - begin)
        self._pending += rest
        self._blank = blank or self._blank
        return bool(records)

    def _append(self, offset: int, records: bytes, last: ScannedRecord | None) -> None:
        store_timestamp_ms = self._commit_log.last_store_timestamp_ms
        if last is not None:
            store_timestamp_ms = last.store_timestamp_ms
        if not self._commit_log.append_replicated(offset, records, store_timestamp_ms, blank=self._blank):
            raise OSError(f"log offset {offset}: the log is closed, or no segment can be created")
        self._blank = b""
        if last is not None:
            self._last_record = last.physical_offset

    def _whole_records_end(self, base: int, room: int) -> int:
        pending, at = self._pending, self._padding
        stop = self._padding + room
        while len(pending) - at >= BLANK_BYTES:
            size_bytes, magic = _HEAD.unpack_from(pending, at)
            if magic == BLANK_MAGIC:
                fits = size_bytes == stop - at
            else:
                fits = magic in _MAGICS and RECORD_BYTES_MIN <= size_bytes <= stop - at - BLANK_BYTES
            if not fits:
                found = bytes(pending[at : at + BLANK_BYTES]).hex()
                raise DivergedError(base + at - self._padding, "a record's size and magic", found)
            if len(pending) - at < size_bytes:
                break
            at += size_bytes
        assert at <= len(pending), (at, len(pending))
        return at

    def _verified_last_record(self, whole: memoryview, base: int) -> ScannedRecord | None:
        """Verify complete records. Returns the last one, or None if `whole` contains only a blank record."""
        begin, end, base_offset = self._padding, len(whole), base - self._padding
        try:
            scan = scan_records(whole, begin, end, file="replication stream", base_offset=base_offset, check_crc=True)
            return _last_record_of(scan)
        except CorruptFileError as error:
            expected, found = f"{error.field} {error.expected}", f"{error.field} {error.found}"
            raise DivergedError(base_offset + error.offset, expected, found) from error

    def _reset_pending(self, end_offset: int) -> None:
        self._padding = end_offset % self._log.segment_bytes % SECTOR_BYTES
        self._pending = bytearray(self._padding)


def last_record_offset(log: SegmentQueue) -> int | None:
    """Return the offset of the last record, None without one. Raises CorruptFileError for corruption before it."""
    for segment in reversed(log.segments):
        wrote, view = segment.wrote.get(), segment.file.view(0, segment.size_bytes)
        file, base_offset = segment.file.path, segment.base_offset
        last = _last_record_of(scan_records(view, 0, wrote, file=file, base_offset=base_offset, check_crc=False))
        if last is not None:
            return last.physical_offset
    return None


def _last_record_of(records: Iterable[ScannedRecord]) -> ScannedRecord | None:
    return next(iter(deque(records, maxlen=1)), None)

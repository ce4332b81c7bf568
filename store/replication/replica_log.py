"""Replica log: appends what a master sends to a slave's log, once it has proved to belong there.

The stream carries no number of an epoch and no checksum, so the proof lies in the records. A slave asks for its last
record again, or from where its disk has the log, and compares: the last record holds its own offset, the time when it
was stored, and the message, so a master that has the same one there has the same log up to there. Behind it every
record is checked as recovery checks one (sizes, magic, physicalOffset, body CRC, torn topic or properties) before it
counts, and a record counts when it is whole: what a cut connection leaves of one is dropped, and asked for again.

What cannot be seen in a stream like this: that logs differ in front of the slave's last record though that is equal;
bytes of header, topic and properties that changed on the way past TCP's checksum; a slave without a record only learns
where to begin.
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
from ..marks import hit

_HEAD = Struct(">ii")
_MAGICS = (MESSAGE_MAGIC, MESSAGE_MAGIC_V2)
_IDLE_HEARTBEATS = 2
"""How many in a row mean that the master has nothing more: it sends what it has before the second is due."""


class ReplicaLog:
    """The log of one slave. One task uses it."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self._log: SegmentQueue = commit_log.queue
        self._last_record: int | None = None
        self._damage: CorruptFileError | None = None
        """What hides the last record, so that nothing can be compared."""
        try:
            self._last_record = last_record_offset(self._log)
        except CorruptFileError as damage:
            self._damage = damage
        self._expected = 0
        """Where the next byte of the stream belongs, if the log is not empty."""
        self._begun = False
        """Whether the first piece of the stream has come."""
        self._heartbeats = 0
        self._pending = bytearray()
        """What has come behind the log's end, of a record that is not whole; zeros in front, up to a sector's begin."""
        self._padding = 0

    def begin(self, kept_offset: int) -> int:
        """Begin with a new stream; return the offset that it has to begin at, 0 for an empty log.

        That is where the last record begins, or kept_offset, up to where this slave promises to have its log: masters
        of RocketMQ take what is asked for behind for a report. To ask for a record at offset 0 would be to say that the
        log is empty: it is compared from its second byte on. Raises DivergedError if damage hides the last record: any
        log would seem to be this one's.
        """
        if self._damage is not None:
            expected = "a last record to compare with the master's"
            raise DivergedError(self._log.max_offset, expected, f"damage here: {self._damage}")
        last = self._log.max_offset if self._last_record is None else self._last_record
        first = max(self._log.min_offset, 1)  # in front of its first segment a log has nothing to keep
        end = self._log.max_offset
        self._expected = max(min(last, kept_offset), first) if end else 0
        self._begun = False
        self._heartbeats = 0
        self._forget_pending(end)  # what is in front of it will be compared
        return self._expected

    @property
    def is_verified(self) -> bool:
        """Return whether the master was seen to have the end of this log."""
        return self._begun and self._expected >= self._log.max_offset

    def take(self, piece: TransferPiece) -> bool:
        """Take the next piece of the stream; return whether the log has grown.

        Raises DivergedError if it cannot be what follows; none of the piece is in the log then.
        """
        if not self._begun:
            self._begun = True
            if self._log.max_offset == 0:
                self._begin_empty(piece)
        if piece.log_offset != self._expected:
            found = f"that it goes on at {piece.log_offset}"
            raise DivergedError(self._expected, "the master's log to go on here", found)
        if piece.is_heartbeat:  # after the check of its offset: a heartbeat has one, too
            self._note_heartbeat()
            return False
        self._heartbeats = 0
        new = piece.data[self._compared(piece.data) :]
        self._expected += len(piece.data)
        if not new:
            return False
        self._pending += new
        return self._append_whole_records()

    # -- joining -----------------------------------------------------------------------------------

    def _begin_empty(self, piece: TransferPiece) -> None:
        """Begin where the master's last file does."""
        if piece.log_offset % self._log.segment_bytes:
            expected = f"files of {self._log.segment_bytes} bytes"
            raise DivergedError(piece.log_offset, expected, "a file that begins here")
        self._expected = piece.log_offset
        self._forget_pending(piece.log_offset)
        hit("slave begins empty")

    def _note_heartbeat(self) -> None:
        self._heartbeats += 1
        if not self.is_verified and self._heartbeats >= _IDLE_HEARTBEATS:
            expected = f"the master to have the bytes up to {self._log.max_offset}, as this log does"
            found = "that it has nothing here: its log is shorter, or begins behind"
            raise DivergedError(self._expected, expected, found)

    def _compared(self, data: memoryview) -> int:
        """Compare what the log has already; return how many bytes that is."""
        at = self._expected
        size_bytes = min(len(data), max(self._log.max_offset - at, 0))
        if not size_bytes:
            return 0
        segment = self._log.find(at)
        if segment is None:  # a piece lies in one file, so the log has all of it or none
            raise DivergedError(at, "a byte to compare with the master's", "a gap between this log's segments")
        position = at - segment.base_offset
        own = bytes(segment.file.view(position, position + size_bytes))
        if own != data[:size_bytes]:
            differs = next(i for i in range(size_bytes) if own[i] != data[i])
            raise DivergedError(at + differs, f"{own[differs]:#04x}, as in this log", f"{data[differs]:#04x}")
        return size_bytes

    # -- growing -----------------------------------------------------------------------------------

    def _append_whole_records(self) -> bool:
        """Move what is whole of what is pending behind the log's end; return whether that was anything."""
        base = self._expected - len(self._pending) + self._padding
        room = self._log.segment_bytes - base % self._log.segment_bytes
        begin, end = self._padding, self._whole_records_end(base, room)
        if end == begin:
            return False
        assert begin < end <= min(len(self._pending), begin + room), (begin, end, len(self._pending), room)
        whole = memoryview(self._pending)[:end].toreadonly()
        last = self._checked(whole, base)
        store_timestamp_ms = self._commit_log.last_store_timestamp_ms
        if last is not None:
            store_timestamp_ms = last.store_timestamp_ms
        if not self._commit_log.append_replicated(base, bytes(whole[begin:]), store_timestamp_ms):
            raise OSError(f"no segment for what belongs at log offset {base}")
        if last is not None:
            self._last_record = last.physical_offset
        rest = bytes(self._pending[end:])
        assert base + end - begin <= self._expected, (base, begin, end, self._expected)
        self._forget_pending(base + end - begin)
        self._pending += rest
        return True

    def _whole_records_end(self, base: int, room: int) -> int:
        """Return up to where the pending bytes are whole records, by the sizes they claim."""
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

    def _checked(self, whole: memoryview, base: int) -> ScannedRecord | None:
        """Check records; return the last, None if there is only a blank one."""
        begin, end, base_offset = self._padding, len(whole), base - self._padding
        try:
            scan = scan_records(whole, begin, end, file="what comes", base_offset=base_offset, check_crc=True)
            return _last(scan)
        except CorruptFileError as error:
            expected, found = f"{error.field} {error.expected}", f"{error.field} {error.found}"
            raise DivergedError(base_offset + error.offset, expected, found) from error

    def _forget_pending(self, end_offset: int) -> None:
        """Have nothing pending behind the log's end, where sectors count from the file's begin."""
        self._padding = end_offset % self._log.segment_bytes % SECTOR_BYTES
        self._pending = bytearray(self._padding)


def last_record_offset(log: SegmentQueue) -> int | None:
    """Return where the last record of a log begins; None if it has none. CorruptFileError if damage hides it."""
    for segment in reversed(log.segments):
        wrote, view = segment.wrote.get(), segment.file.view(0, segment.size_bytes)
        file, base_offset = segment.file.path, segment.base_offset
        last = _last(scan_records(view, 0, wrote, file=file, base_offset=base_offset, check_crc=False))
        if last is not None:
            return last.physical_offset
    return None


def _last(records: Iterable[ScannedRecord]) -> ScannedRecord | None:
    return next(iter(deque(records, maxlen=1)), None)

"""Known records: the part of a stream offset that reveals where recovery truncated the log.

The offset contains a 64-bit digest of the last record's head. Heads are unique: each contains the store time, the queue
offset and the body's checksum. If the last record is unchanged, all earlier records are unchanged; otherwise the log
was truncated. The offset also contains eight bits of the digest of each earlier record. A record is new if its bits
differ, or if its store time is later than that of every record that was read. A new record looks like an old one only
if its eight bits match and the clock was set back. Then a record has an earlier store time than its predecessor, and
the search ends with LogCutError.
"""

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple

from ....store.errors import CorruptFileError
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import scan_records
from .directory import StoreDirectory
from .log_ranges import whole_record_at
from .log_walk import LogWalk

KNOWN_MAX = 512
_HEAD_BYTES = RECORD_BYTES_MIN - 3
_LOOK_BACK_BYTES = 1 << 20
_LOOK_BACK_BYTES_ENOUGH = 8 << 20
"""The search for KNOWN_MAX records goes back this far, and farther if it finds no record."""
_LOOK_BACK_TIMES = 8
_OLD_MARK = Struct(">qI")
"""Earlier versions stored log offset and CRC-32 of the head for each of 1,024 records."""


class LogCutError(Exception):
    """The log was truncated at an unknown log offset."""


class KnownRecord(NamedTuple):
    """One record before the end of a batch."""

    begin: int
    end: int
    """Log offset after the record."""
    digest: bytes
    stored_ms: int


class KnownRecords(NamedTuple):
    """The last undamaged records before the end of a batch."""

    first: int = 0
    """Log offset of the first record."""
    last: int = 0
    digest: bytes = b""
    """Digest of the last record's head."""
    latest_ms: int = 0
    marks: bytes = b""
    """One byte of each record's digest."""

    @classmethod
    def from_offset(cls, offset: dict[str, Any]) -> "KnownRecords":
        marks = b64decode(offset["known"])
        if not marks:
            return cls()
        return cls(offset["first"], offset["last"], bytes.fromhex(offset["digest"]), offset["latest_ms"], marks)

    @classmethod
    def before(cls, walk: LogWalk, to: int, oldest: int) -> "KnownRecords":
        """Return the records from `oldest`, the log offset of a record, to `to`, the end of a batch."""
        back_bytes = _LOOK_BACK_BYTES
        while True:
            low = max(oldest, to - back_bytes)
            found = deque(_known_records(walk, low, to, is_boundary=low == oldest), KNOWN_MAX)
            if low == oldest or len(found) == KNOWN_MAX or (found and back_bytes >= _LOOK_BACK_BYTES_ENOUGH):
                break
            back_bytes *= _LOOK_BACK_TIMES
        if not found:
            return cls()
        assert all(one.end <= other.begin for one, other in pairwise(found)), "records overlap"
        marks = bytes(one.digest[0] for one in found)
        latest_ms = max(one.stored_ms for one in found)
        return cls(found[0].begin, found[-1].begin, found[-1].digest, latest_ms, marks)

    def fields(self) -> dict[str, Any]:
        if not self.marks:
            return {"known": ""}
        numbers = {"first": self.first, "last": self.last, "latest_ms": self.latest_ms}
        return {**numbers, "digest": self.digest.hex(), "known": b64encode(self.marks).decode()}

    def are_unchanged(self, directory: StoreDirectory, walk: LogWalk) -> bool:
        """Compare only the last record: if this record is unchanged, all records are."""
        found = record_head_at(directory, walk, self.last)
        return found is not None and _head_digest(found[0]) == self.digest

    def end_of_unchanged(self, walk: LogWalk, to: int) -> int:
        """Return the log offset after the last unchanged record.

        to: end of the batch. Its last record no longer exists. Raises LogCutError if this record cannot be
        determined.
        """
        if not walk.segments or walk.segments[0].base_offset > self.first:
            raise no_known_record_error(to)
        kept = list[KnownRecord]()
        for mark, found in zip(self.marks[:-1], _known_records(walk, self.first, to, is_boundary=True), strict=False):
            if found.digest[0] != mark or found.stored_ms > self.latest_ms:
                break
            kept = [*kept[-1:], found]
        if not kept:
            raise no_known_record_error(to)
        if len(kept) > 1 and kept[1].stored_ms < kept[0].stored_ms:
            raise LogCutError(
                f"the log was truncated near {kept[0].end}, and the clock was set back there, so it is unknown which"
                f" records from there to {to} the stream has returned. upTo=durable reads only durable records"
            )
        return kept[-1].end


def old_marks_of(offset: dict[str, Any]) -> list[tuple[int, int]]:
    """Return log offsets and checksums from a stream offset of an earlier version, newest last."""
    return [] if "last" in offset else list(_OLD_MARK.iter_unpack(b64decode(offset["known"])))


def no_known_record_error(to: int) -> LogCutError:
    return LogCutError(
        f"the log was truncated before all records that the stream at {to} knows: it has returned records that are no"
        " longer in the log. upTo=durable reads only durable records"
    )


def record_head_at(directory: StoreDirectory, walk: LogWalk, begin: int) -> tuple[bytes, int] | None:
    """Return the head of the record at a log offset, and its end; None if there is no record.

    In the last segment a partial record is ignored, because recovery would truncate it.
    """
    for segment in walk.segments:
        position = begin - segment.base_offset
        if not 0 <= position < segment.size_bytes:
            continue
        view, origin = whole_record_at(directory, segment, position, RECORD_BYTES_MIN)
        at = position - origin
        head = view[at : at + _HEAD_BYTES].tobytes()
        if segment.base_offset >= walk.last_begun:
            base_offset = segment.base_offset + origin
            scan = scan_records(view, at, len(view), file=segment.path, base_offset=base_offset, check_crc=True)
            try:
                if next(scan, None) is None:
                    return None
            except CorruptFileError:
                return None
        return head, begin + int.from_bytes(head[:4], "big")
    return None


def _known_records(walk: LogWalk, low: int, high: int, *, is_boundary: bool) -> Iterator[KnownRecord]:
    for piece in walk.undamaged_records_between(low, high, is_boundary=is_boundary):
        stored_ms, sizes = piece.number("storeTimestamp"), piece.number("totalSize")
        base_offset = piece.segment.base_offset + piece.origin
        numbers = zip(piece.starts.tolist(), sizes.tolist(), stored_ms.tolist(), strict=True)
        for start, size_bytes, time_ms in numbers:
            digest = _head_digest(piece.view[start : start + _HEAD_BYTES])
            begin = base_offset + start
            yield KnownRecord(begin, begin + size_bytes, digest, time_ms)


def _head_digest(head: bytes | memoryview) -> bytes:
    return blake2b(head, digest_size=8).digest()

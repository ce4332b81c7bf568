"""What an offset of a stream knows of the records in front of it, to find where exactly the log was cut.

Of the last record the offset has 64 bits of a digest over the head: two records never have the same head, for it has
the store time, the queue offset and the body's checksum. If that one is still there, all in front of it is. Else the
log was cut. Where is found by following it again from the first record that is known, for of each there are eight bits.
The first one that differs was put since; so was one that is stored later than all that was read. So a new record is
mistaken for the old one only if its eight bits are the same and the clock was set back. That shows if it is stored
earlier than the record in front of it: then nothing is taken for certain.
"""

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple

from ....store.errors import CorruptFileError
from ....store.formats.message import RECORD_BYTES_MIN
from ....store.formats.scan import scan_records
from .directory import StoreDirectory
from .log_ranges import whole_record_at
from .log_walk import LogWalk

KNOWN_MAX = 512
"""How many of its last records an offset knows."""
_HEAD_BYTES = RECORD_BYTES_MIN - 3
_LOOK_BACK_BYTES = 1 << 20
_LOOK_BACK_BYTES_ENOUGH = 8 << 20
"""How far back records are looked for to have KNOWN_MAX of them; farther only if there is none."""
_LOOK_BACK_TIMES = 8
_OLD_MARK = Struct(">qI")
"""Log offset and CRC-32 of the head, of each of 1,024 records: what offsets had before they had eight bits of each."""


class LogCutError(Exception):
    """The log was cut, and the place is not known."""


class KnownRecord(NamedTuple):
    """A record in front of an offset."""

    begin: int
    end: int
    """Log offsets."""
    digest: bytes
    stored_ms: int


class KnownRecords(NamedTuple):
    """The last records in front of an offset, one behind the other but for damage."""

    first: int = 0
    """Log offset of the first."""
    last: int = 0
    digest: bytes = b""
    """Of the last one."""
    latest_ms: int = 0
    """The latest store time of all."""
    marks: bytes = b""
    """A byte for each; empty if none is known."""

    @classmethod
    def of(cls, offset: dict[str, Any]) -> "KnownRecords":
        """Return what an offset says."""
        marks = b64decode(offset["known"])
        if not marks:
            return cls()
        return cls(offset["first"], offset["last"], bytes.fromhex(offset["digest"]), offset["latest_ms"], marks)

    @classmethod
    def in_front_of(cls, walk: LogWalk, to: int, oldest: int) -> "KnownRecords":
        """Return those in front of a log offset where a batch ends, from `oldest` on, where a record begins."""
        back_bytes = _LOOK_BACK_BYTES
        while True:
            low = max(oldest, to - back_bytes)
            found = deque(_records(walk, low, to, is_boundary=low == oldest), KNOWN_MAX)
            if low == oldest or len(found) == KNOWN_MAX or (found and back_bytes >= _LOOK_BACK_BYTES_ENOUGH):
                break
            back_bytes *= _LOOK_BACK_TIMES
        if not found:
            return cls()
        marks = bytes(one.digest[0] for one in found)
        latest_ms = max(one.stored_ms for one in found)
        return cls(found[0].begin, found[-1].begin, found[-1].digest, latest_ms, marks)

    def fields(self) -> dict[str, Any]:
        """Return what an offset has of them."""
        if not self.marks:
            return {"known": ""}
        numbers = {"first": self.first, "last": self.last, "latest_ms": self.latest_ms}
        return {**numbers, "digest": self.digest.hex(), "known": b64encode(self.marks).decode()}

    def are_there(self, directory: StoreDirectory, walk: LogWalk) -> bool:
        """Return whether the last one is still what it was, and so all of them."""
        found = head_at(directory, walk, self.last)
        return found is not None and _digest(found[0]) == self.digest

    def end_of_kept(self, walk: LogWalk, to: int) -> int:
        """Return the log offset behind the last one that is still what it was. Raises LogCutError if that is not known.

        to: the offset they are in front of. The last of them is not there any more.
        """
        if not walk.segments or walk.segments[0].base_offset > self.first:
            raise cut_in_front_of_all(to)
        kept = list[KnownRecord]()
        for mark, found in zip(self.marks[:-1], _records(walk, self.first, to, is_boundary=True), strict=False):
            if found.digest[0] != mark or found.stored_ms > self.latest_ms:
                break
            kept = [*kept[-1:], found]
        if not kept:
            raise cut_in_front_of_all(to)
        if len(kept) > 1 and kept[1].stored_ms < kept[0].stored_ms:
            raise LogCutError(
                f"the log was cut near {kept[0].end}, and the clock was set back there: which of the records behind it"
                f" the stream has given, up to {to}, is not known. With upTo=durable nothing is read that can be cut"
            )
        return kept[-1].end


def old_marks_of(offset: dict[str, Any]) -> list[tuple[int, int]]:
    """Return log offsets and checksums of records, of an offset that has them; the newest last."""
    return [] if "last" in offset else list(_OLD_MARK.iter_unpack(b64decode(offset["known"])))


def cut_in_front_of_all(to: int) -> LogCutError:
    """Return the error of a stream that knows nothing any more which is in the log."""
    return LogCutError(
        f"the log was cut in front of all records that the stream knows, of those in front of {to}, where it is: what"
        " was read there is not in it any more. With upTo=durable nothing is read that can be cut"
    )


def head_at(directory: StoreDirectory, walk: LogWalk, begin: int) -> tuple[bytes, int] | None:
    """Return the head of what is at a log offset, and where it ends; None if there is none any more.

    A record in the segment that is written has to be there as a whole: else recovery will cut it.
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


def _records(walk: LogWalk, low: int, high: int, *, is_boundary: bool) -> Iterator[KnownRecord]:
    """Yield the records between two log offsets."""
    for piece in walk.heads_between(low, high, is_boundary=is_boundary):
        stored_ms, sizes = piece.number("storeTimestamp"), piece.number("totalSize")
        base_offset = piece.segment.base_offset + piece.origin
        numbers = zip(piece.starts.tolist(), sizes.tolist(), stored_ms.tolist(), strict=True)
        for start, size_bytes, time_ms in numbers:
            digest = _digest(piece.view[start : start + _HEAD_BYTES])
            begin = base_offset + start
            yield KnownRecord(begin, begin + size_bytes, digest, time_ms)


def _digest(head: bytes | memoryview) -> bytes:
    return blake2b(head, digest_size=8).digest()

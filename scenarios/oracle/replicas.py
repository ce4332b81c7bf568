"""Replicas: the history of a master's log, and the ranges that slaves have reported.

Each report is compared with the slave's own log when it is sent. A slave with SYNC_FLUSH promises that reported bytes
are durable; any other slave promises only that they are in its page cache, which a power cut may lose. From its first
byte on, a slave's log must be a prefix of one of the master's histories. Each crash that loses the end of a master's
log starts another history. Bytes that were never sent are not kept.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from struct import Struct
from typing import Protocol

from ...faults.disk.disk import Disk
from ...store.config import FlushDiskType
from ...store.formats.message import BLANK_MAGIC, HOST_V6_MASK
from ...store.log.segment import Segment
from ...store.log.segment_queue import SegmentQueue
from ...store.message_store import MessageStore
from .allowances import count_sync_errors
from .evidence import Violation


class AnsweredPut(Protocol):
    """A put at the time of its answer."""

    @property
    def name(self) -> str: ...

    @property
    def wait(self) -> bool: ...

    @property
    def asked_ns(self) -> int: ...

    @property
    def answered_ns(self) -> int | None: ...


@dataclass(slots=True)
class ReportedRange:
    """A range of the log that a slave has reported."""

    first: int = 0
    data: bytes = b""

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @property
    def end(self) -> int:
        return self.first + len(self.data)

    def contains_data(self, start: int, wanted: bytes) -> bool:
        at = start - self.first
        return at >= 0 and self.data[at : at + len(wanted)] == wanted


@dataclass(slots=True)
class Replicas:
    """All slaves of one master, by host."""

    held: dict[str, ReportedRange] = field(default_factory=dict)
    """The range that each slave must still have."""
    lost: list[ReportedRange] = field(default_factory=list)
    """Ranges that slaves had reported, and then lost in a power cut or removed from a full disk."""

    def record_report(self, host: str, store: MessageStore, disk: Disk, offset: int) -> Iterator[Violation]:
        log = store.log
        if offset > log.max_offset:
            summary = f"{host} reports data that it does not have"
            yield Violation("REP", summary, "commitlog", offset, "report", str(log.max_offset))
            return
        held = self.held.setdefault(host, ReportedRange())
        if not held.data:
            held.first = max(log.min_offset, 0)
        new_begin = held.end
        held.data += log_bytes(log, new_begin, offset)
        if store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH and not count_sync_errors(disk):
            for segment in _segments_in(log, new_begin, offset):
                end = min(offset - segment.base_offset, segment.size_bytes)
                if not disk.is_durable(segment.file.path, 0, end):
                    summary, place = f"{host} reports data that is not durable", (segment.file.path, end)
                    yield Violation("REP", summary, *place, "report", "after the sync", "before it")

    def record_slave_crash(self, host: str, *, keeps_all: bool, flushed_where: int) -> None:
        """keeps_all: whether data in the page cache survives."""
        held = self.held.get(host)
        if held is None or keeps_all:
            return
        assert flushed_where >= 0, flushed_where
        self.lost.append(ReportedRange(held.first, held.data))
        held.data = held.data[: max(flushed_where - held.first, 0)]

    def record_new_disk(self, host: str) -> None:
        """Forget what a slave reported before it got a new disk."""
        if (held := self.held.pop(host, None)) is not None:
            self.lost.append(held)

    def record_slave_retention(self, host: str, first: int) -> None:
        """Forget reported data before the first byte of a slave's log, which the slave removed from its full disk."""
        held = self.held.get(host)
        if held is not None and held.data and held.first < first:
            self.lost.append(ReportedRange(held.first, held.data))
            held.first, held.data = first, held.data[first - held.first :]

    def record_slave_recovery(self, host: str, store: MessageStore) -> None:
        """Shorten a slave's reported range to its recovered log, which may lack a blank record at the end.

        A master that lost the same blank record may write another record there.
        """
        held = self.held.get(host)
        if held is not None:
            held.data = held.data[: max(store.log.max_offset - held.first, 0)]

    def has_been_reported(self, start: int, wanted: bytes) -> bool:
        return any(held.contains_data(start, wanted) for held in (*self.held.values(), *self.lost))


_HEAD = Struct(">ii")
_segment_begin = attrgetter("base_offset")


class MasterHistory:
    """The logs of one master over all its restarts. Invariant: the last of `logs` is a prefix of the present log.

    Removed bytes are kept as they were, or as zeros if no one read them.
    """

    def __init__(self) -> None:
        self.logs: list[bytes] = [b""]

    def begin(self, log: SegmentQueue) -> None:
        first = max(log.min_offset, 0)
        found = self.logs[-1][:first].ljust(first, b"\0") + log_bytes(log, first, log.max_offset)
        if not found.startswith(self.logs[-1]):
            self.logs.append(found)
        self.logs[-1] = found

    def extend(self, log: SegmentQueue) -> None:
        """Record the present end of the log before the log is sent."""
        end = log.max_offset
        self.logs[-1] = self.logs[-1].ljust(max(log.min_offset, 0), b"\0")
        while (known := len(self.logs[-1])) < end:
            found = log_bytes(log, known, end)
            if len(self.logs[-1]) == known:  # otherwise another sender has added the bytes during the read
                self.logs[-1] += found

    def sent_log_bytes(self, start: int, size_bytes: int) -> bytes:
        """Return up to size_bytes of the present log from an offset on, but no more than was sent."""
        return self.logs[-1][start : start + size_bytes]

    def first_difference_offset(self, first: int, found: bytes) -> int | None:
        """Return where bytes differ from every log of the history; None if one log has all."""
        longest = max(common_bytes(log, first, found) for log in self.logs)
        return None if longest == len(found) else first + longest


def common_bytes(log: bytes, first: int, found: bytes) -> int:
    """Count the bytes, from an offset on, in which the history and a log agree.

    Zeros in a record's flag, times and hosts are ignored: no checksum covers them, so recovery cannot notice a loss.
    """
    own = log[first : first + len(found)]
    if own == found:
        return len(found)
    unchecked = _offsets_without_checksum(log)
    for at, byte in enumerate(own):
        if byte != found[at] and (found[at] or first + at not in unchecked):
            return at
    return len(own)


def _offsets_without_checksum(log: bytes) -> set[int]:
    """Return the offsets in records that may be zero instead: flag, and sysFlag to preparedTransactionOffset."""
    offsets: set[int] = set()
    at = 0
    while at + _HEAD.size <= len(log):
        size_bytes, magic = _HEAD.unpack_from(log, at)
        if size_bytes <= 0:
            break
        if magic != BLANK_MAGIC:
            hosts_v6 = (int.from_bytes(log[at + 36 : at + 40], "big") & HOST_V6_MASK).bit_count()
            offsets.update(range(at + 16, at + 20), range(at + 36, at + 84 + 12 * hosts_v6))
        at += size_bytes
    return offsets


def whole_log(log: SegmentQueue) -> bytes:
    return bytes(max(log.min_offset, 0)) + log_bytes(log, 0, log.max_offset)


def log_bytes(log: SegmentQueue, start: int, end: int) -> bytes:
    """Return the readable bytes of a log in [start, end)."""
    pieces = []
    for segment in _segments_in(log, start, end):
        readable = segment.readable.get()
        from_, to = max(start - segment.base_offset, 0), min(end - segment.base_offset, readable)
        if from_ < to:
            pieces.append(bytes(segment.file.view(from_, to)))
    return b"".join(pieces)


def _segments_in(log: SegmentQueue, start: int, end: int) -> Sequence[Segment]:
    """Return the segments of a log that have bytes in [start, end).

    Only these: this module runs at each frame, and a read of a segment's positions is a scheduling point.
    """
    segments = log.segments
    first = max(bisect_right(segments, start, key=_segment_begin) - 1, 0)
    return segments[first : bisect_left(segments, end, lo=first, key=_segment_begin)]

"""The mini workload of every tool, around a segmented log.

A producer appends a record of 32 bytes and continues once the flusher has synced it. The dispatcher delivers synced
records. At some point the power fails, and the log is read again: it must be a prefix of the appended records, with all
acknowledged and delivered ones. A segment holds eight records, so logs have up to two of them.
"""

from collections.abc import Callable
from struct import Struct
from typing import Protocol
from zlib import crc32

PRODUCERS, APPENDS_EACH = 3, 5
RECORD_BYTES, SEGMENT_BYTES = 32, 256
SECTOR_BYTES = 8
"""Sector size of toy disks: smaller than a record, so that records can be torn."""
_RECORD = Struct(">I28s")
assert _RECORD.size == RECORD_BYTES


class Place(Protocol):
    """The operations of the log on a disk."""

    def create(self, path: str) -> None:
        """Make a file of SEGMENT_BYTES zeros with a durable name."""

    def store(self, path: str, at: int, data: bytes) -> None:
        """Write, durable or not."""

    def sync(self, path: str) -> None:
        """Make earlier writes durable."""


class Log:
    """The log, with lists of appended, acknowledged and delivered records."""

    def __init__(self, place: Place) -> None:
        self.appended: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.delivered = 0
        self.flushed = 0
        """Number of durable records."""
        self.operations = 0
        """Number of operations of all kinds, to compare tools."""
        self._place = place

    def append(self, body: bytes) -> int:
        """Append a record; return the new number of records. One at a time."""
        self.operations += 1
        path, at = place_of(len(self.appended))
        if at == 0:
            self._place.create(path)
        self.appended.append(body)  # before the write, because the power may fail during it
        self._place.store(path, at, encode(body))
        return len(self.appended)

    def flush(self) -> None:
        """Sync the earlier appends."""
        self.operations += 1
        end = len(self.appended)
        for path in sorted({place_of(number)[0] for number in range(self.flushed, end)}):
            self._place.sync(path)
        self.flushed = max(self.flushed, end)

    def acknowledge(self, body: bytes) -> None:
        """Tell a producer that its record is durable."""
        self.acknowledged.append(body)

    def dispatch(self) -> None:
        """Deliver durable records."""
        self.operations += 1
        self.delivered = max(self.delivered, self.flushed)

    @property
    def is_done(self) -> bool:
        """Return whether all producers were answered."""
        return len(self.acknowledged) == PRODUCERS * APPENDS_EACH

    def judge(self, read: Callable[[str], bytes | None]) -> None:
        """Recover, and compare with the lists. read: returns the bytes of a file, None if it is missing.

        Raises BrokenPromiseError.
        """
        self.operations += 1
        recovered = scan(read)
        if recovered != self.appended[: len(recovered)]:
            raise BrokenPromiseError(f"{recovered} is no beginning of {self.appended}")
        lost = {*self.acknowledged, *self.appended[: self.delivered]}.difference(recovered)
        if lost:
            raise BrokenPromiseError(f"{sorted(lost)} are lost of {self.appended}")


class BrokenPromiseError(Exception):
    """An acknowledged or delivered record is lost, or an unknown record exists."""


def body_of(producer: int, number: int) -> bytes:
    return f"record {number} of producer {producer}".encode().ljust(28)


def encode(body: bytes) -> bytes:
    return _RECORD.pack(crc32(body), body)


def place_of(number: int) -> tuple[str, int]:
    """Return file and position of a record."""
    segment, at = divmod(number * RECORD_BYTES, SEGMENT_BYTES)
    return f"/log/{segment}", at


def scan(read: Callable[[str], bytes | None]) -> list[bytes]:
    """Return the bodies of a log up to the first invalid record."""
    found: list[bytes] = []
    while True:
        path, at = place_of(len(found))
        raw = (read(path) or b"")[at : at + RECORD_BYTES]
        if len(raw) < RECORD_BYTES:
            return found
        crc, body = _RECORD.unpack(raw)
        if crc != crc32(body):
            return found
        found.append(body)


class ToyDisk:
    """A disk for tools without a disk model. In a power cut each unsynced sector survives or not."""

    def __init__(self) -> None:
        self._cached: dict[str, bytearray] = {}
        self._durable: dict[str, bytearray] = {}

    def create(self, path: str) -> None:
        self._cached[path] = bytearray(SEGMENT_BYTES)
        self._durable[path] = bytearray(SEGMENT_BYTES)

    def store(self, path: str, at: int, data: bytes) -> None:
        self._cached[path][at : at + len(data)] = data

    def sync(self, path: str) -> None:
        self._durable[path][:] = self._cached[path]

    def read(self, path: str) -> bytes | None:
        return bytes(self._cached[path]) if path in self._cached else None

    def cut_power(self, survives: Callable[[], bool]) -> None:
        """Set each changed sector to its new or to its synced bytes."""
        for path, cached in self._cached.items():
            durable = self._durable[path]
            for at in range(0, SEGMENT_BYTES, SECTOR_BYTES):
                sector = slice(at, at + SECTOR_BYTES)
                if cached[sector] != durable[sector]:
                    if survives():
                        durable[sector] = cached[sector]
                    else:
                        cached[sector] = durable[sector]

"""The mini workload that every tool runs: three producers on a segmented log, a flusher, a dispatcher, a power cut.

A producer appends a record of 32 bytes and goes on once the flusher has synced it; the dispatcher delivers what is
synced. Anywhere in between the power goes, and the log is read again: it must be a beginning of what was appended, with
everything that was acknowledged or delivered. A segment holds eight records, so that logs have up to two of them.
"""

from collections.abc import Callable
from struct import Struct
from typing import Protocol
from zlib import crc32

PRODUCERS, APPENDS_EACH = 3, 5
RECORD_BYTES, SEGMENT_BYTES = 32, 256
SECTOR_BYTES = 8
"""Of toy disks: less than a record, so that records can be torn."""
_RECORD = Struct(">I28s")
assert _RECORD.size == RECORD_BYTES


class Place(Protocol):
    """What the log asks of a disk."""

    def create(self, path: str) -> None:
        """Make a file of SEGMENT_BYTES zeros, whose name is durable."""

    def store(self, path: str, at: int, data: bytes) -> None:
        """Write, durable or not."""

    def sync(self, path: str) -> None:
        """Make what was written before durable."""


class Log:
    """The log, and the books on it: what was appended, acknowledged and delivered."""

    def __init__(self, place: Place) -> None:
        self.appended: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.delivered = 0
        self.flushed = 0
        """Records that are durable."""
        self.operations = 0
        """Of all kinds, which is what tools are compared by."""
        self._place = place

    def append(self, body: bytes) -> int:
        """Append a record; return how many there are then. One at a time."""
        self.operations += 1
        path, at = place_of(len(self.appended))
        if at == 0:
            self._place.create(path)
        self.appended.append(body)  # before the write, which may be the last thing that happens
        self._place.store(path, at, encode(body))
        return len(self.appended)

    def flush(self) -> None:
        """Sync what was appended before."""
        self.operations += 1
        end = len(self.appended)
        for path in sorted({place_of(number)[0] for number in range(self.flushed, end)}):
            self._place.sync(path)
        self.flushed = max(self.flushed, end)

    def acknowledge(self, body: bytes) -> None:
        """Tell a producer that its record is durable."""
        self.acknowledged.append(body)

    def dispatch(self) -> None:
        """Deliver what is durable."""
        self.operations += 1
        self.delivered = max(self.delivered, self.flushed)

    @property
    def is_done(self) -> bool:
        """Return whether all producers have been answered."""
        return len(self.acknowledged) == PRODUCERS * APPENDS_EACH

    def judge(self, read: Callable[[str], bytes | None]) -> None:
        """Recover, and compare with the books; read: the bytes of a file, None if there is none.

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
    """A record was lost that was acknowledged or delivered, or one is there that nobody appended."""


def body_of(producer: int, number: int) -> bytes:
    """Return the body of a producer's record."""
    return f"record {number} of producer {producer}".encode().ljust(28)


def encode(body: bytes) -> bytes:
    """Return a record."""
    return _RECORD.pack(crc32(body), body)


def place_of(number: int) -> tuple[str, int]:
    """Return file and position of a record."""
    segment, at = divmod(number * RECORD_BYTES, SEGMENT_BYTES)
    return f"/log/{segment}", at


def scan(read: Callable[[str], bytes | None]) -> list[bytes]:
    """Return the bodies from the beginning of a log up to the first that is none."""
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
    """A disk for tools that have none: unsynced sectors of a file survive a power cut one by one, or not."""

    def __init__(self) -> None:
        self._cached: dict[str, bytearray] = {}
        self._durable: dict[str, bytearray] = {}

    def create(self, path: str) -> None:
        """See Place."""
        self._cached[path] = bytearray(SEGMENT_BYTES)
        self._durable[path] = bytearray(SEGMENT_BYTES)

    def store(self, path: str, at: int, data: bytes) -> None:
        """See Place."""
        self._cached[path][at : at + len(data)] = data

    def sync(self, path: str) -> None:
        """See Place."""
        self._durable[path][:] = self._cached[path]

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, None if there is none."""
        return bytes(self._cached[path]) if path in self._cached else None

    def cut_power(self, survives: Callable[[], bool]) -> None:
        """Keep of each sector that differs what was written, or what was synced."""
        for path, cached in self._cached.items():
            durable = self._durable[path]
            for at in range(0, SEGMENT_BYTES, SECTOR_BYTES):
                sector = slice(at, at + SECTOR_BYTES)
                if cached[sector] != durable[sector]:
                    if survives():
                        durable[sector] = cached[sector]
                    else:
                        cached[sector] = durable[sector]

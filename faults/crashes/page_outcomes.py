"""Page outcomes: the possible contents of one dirty page after a power cut.

Version k of a page is its durable state plus the first k of its pending writes. Each sector of a torn page has one of
two versions: a disk writes whole sectors and may stop between two sectors. Worse disks stop inside a sector, which then
begins with bytes of the newer version. Other disks leave garbage in sectors in flight, in which the two versions
differ. A number determines the garbage:

    1      zeros, as after an erase before programming
    2      0xFF, as in an erased flash block
    even   random bytes, derived from the number and the sector's offset
    odd    the bytes of another sector of the file, as after an error of an address line or a mapping table

Sources: Zheng, Tucek, Qin, Lillibridge: "Understanding the Robustness of SSDs under Power Fault", FAST 2013 (shorn,
flying and corrupted writes); SQLite, "Powersafe Overwrite", for the assumption that this model breaks.
"""

from collections.abc import Sequence
from hashlib import shake_128
from typing import NamedTuple

from ..disk.content import Content
from ..disk.page_cache import Write

FILLINGS = 1 << 16
"""Number of garbage numbers. 0 means no garbage."""
_ZEROS, _ONES = 1, 2
TRIED_FILLINGS = (1, 2, 3, 4)  # zeros, ones, another sector's bytes, random bytes


class PageOutcome(NamedTuple):
    """The outcome of one dirty page. Sectors with a bit in `sectors` have version `other`, the rest `version`."""

    version: int
    other: int = 0
    sectors: int = 0
    torn_at: int = 0
    """Page offset of a tear inside a sector, between newer and older bytes. 0 and sector boundaries: no tear."""
    garbage: int = 0
    """Bit mask of sectors with garbage, if their two versions differ."""
    filling: int = 0
    """Garbage number (see `garbage_bytes`). 0: none."""

    @property
    def is_mixed(self) -> bool:
        """Whether some sectors may differ from `version`."""
        return self.version != self.other and bool(self.sectors or self.torn_at or self.filling)


class DirtyPage(NamedTuple):
    """A page with unsynced writes. After a crash it has version `least` or a later one."""

    path: str
    page: int
    writes: Sequence[Write]
    least: int

    @property
    def label(self) -> str:
        return f"page {self.path}#{self.page}"


class SectorFaults(NamedTuple):
    """Faults of single sectors, with fields of FaultPlan, and torn_page_chance of CrashProfile."""

    sector_bytes: int = 512
    torn_bytes_chance: float = 0.0
    garbage_chance: float = 0.0
    torn_page_chance: float = 0.0

    @property
    def is_possible(self) -> bool:
        return self.torn_bytes_chance > 0.0 or self.garbage_chance > 0.0


class Tears(NamedTuple):
    """The damage of a page. page: whether it mixes versions, in whole sectors or inside sectors."""

    page: bool = False
    sectors: int = 0
    """Number of sectors that mix versions."""
    garbage: int = 0


_WHOLE = Tears()


def apply_version(page: bytearray, start: int, writes: Sequence[Write]) -> None:
    """Apply writes within the length of the page. start: file offset of the page."""
    end = start + len(page)
    for _, at, data in writes:
        stop = at + len(data)
        if start <= at and stop <= end:
            page[at - start : stop - start] = data
        else:
            first, last = max(at, start), min(stop, end)
            if first < last:  # else the write is beyond the surviving length
                page[first - start : last - start] = data[first - at : last - at]


def apply_outcome(
    page: bytearray,
    start: int,
    writes: Sequence[Write],
    page_outcome: PageOutcome,
    sector_bytes: int,
    durable: Content = b"",
) -> Tears:
    """Apply an outcome to a durable page at file offset start. Return the damage.

    The page is not torn if all sectors in flight have one version. durable: the file's durable bytes, a source of
    garbage.
    """
    if not page_outcome.is_mixed:
        apply_version(page, start, writes[: page_outcome.version])
        return _WHOLE
    other = page[:]  # from the durable page, because the other version may have fewer writes
    apply_version(other, start, writes[: page_outcome.other])
    apply_version(page, start, writes[: page_outcome.version])
    return mix_versions(page, other, start, page_outcome, sector_bytes, durable)


def mix_versions(
    page: bytearray, other: bytearray, start: int, page_outcome: PageOutcome, sector_bytes: int, durable: Content
) -> Tears:
    """Apply a mixed outcome to a page of one version. Return the damage."""
    chosen = page[:]
    if page_outcome.sectors:
        for sector, first in enumerate(range(0, len(page), sector_bytes)):
            if page_outcome.sectors >> sector & 1:
                page[first : first + sector_bytes] = other[first : first + sector_bytes]
    torn = harmed = 0
    if page_outcome.torn_at % sector_bytes:
        older, newer = (chosen, other) if page_outcome.version < page_outcome.other else (other, chosen)
        torn = _tear_sector(page, older, newer, page_outcome.torn_at, sector_bytes)
    if page_outcome.filling:
        harmed = _apply_garbage(page, start, chosen, other, page_outcome, sector_bytes, durable)
    return _WHOLE if page in (chosen, other) else Tears(True, torn, harmed)


def _tear_sector(page: bytearray, older: bytearray, newer: bytearray, torn_at: int, sector_bytes: int) -> int:
    """Fill a sector with newer bytes before offset torn_at, and with older bytes after it.

    Return 1 if the sector then mixes both versions, else 0.
    """
    first = torn_at - torn_at % sector_bytes
    assert first < torn_at, "a tear at a sector's first byte tears nothing"
    last = min(first + sector_bytes, len(older))
    torn = (newer[first:torn_at] + older[torn_at:last])[: max(0, last - first)]
    page[first:last] = torn
    return int(torn not in (older[first:last], newer[first:last]))


def _apply_garbage(
    page: bytearray,
    start: int,
    one: bytearray,
    other: bytearray,
    page_outcome: PageOutcome,
    sector_bytes: int,
    durable: Content,
) -> int:
    """Fill the selected sectors in flight with garbage. Return the number of sectors that then equal neither
    version.
    """
    harmed = 0
    for sector, first in enumerate(range(0, len(one), sector_bytes)):
        last = min(first + sector_bytes, len(one))
        if page_outcome.garbage >> sector & 1 and one[first:last] != other[first:last]:
            filled = garbage_bytes(page_outcome.filling, durable, start + first, start + last, sector_bytes)
            page[first:last] = filled
            harmed += filled not in (one[first:last], other[first:last])
    return harmed


def garbage_bytes(filling: int, file: Content, start: int, end: int, sector_bytes: int) -> bytes:
    assert 0 < filling < FILLINGS, filling
    size_bytes = end - start
    if filling == _ZEROS:
        return bytes(size_bytes)
    if filling == _ONES:
        return b"\xff" * size_bytes
    if filling % 2 == 0:
        return shake_128(f"{filling} {start}".encode()).digest(size_bytes)
    sectors = -(-len(file) // sector_bytes)
    other = (start // sector_bytes + filling // 2) % sectors * sector_bytes
    return file[other : other + size_bytes].ljust(size_bytes, b"\0")

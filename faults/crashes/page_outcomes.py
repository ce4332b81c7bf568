"""Page outcomes: the possible contents of one dirty page after a power cut.

Version k of a page is its durable state plus the first k of its pending writes. Each sector of a torn page is from one
of two versions: a disk writes whole sectors and may stop between two of them. Worse disks stop inside a sector, which
then begins with bytes of the newer version. Other disks leave garbage in sectors that were being written (sectors in
which the two versions differ). A number determines the garbage:

    1      zeros, as after an erase before programming
    2      0xFF, as in an erased flash block
    even   random bytes, derived from the number and the sector's place
    odd    the bytes of another sector of the file, as after an error of an address line or a mapping table

Sources: Zheng, Tucek, Qin, Lillibridge: "Understanding the Robustness of SSDs under Power Fault", FAST 2013 (shorn,
flying and corrupted writes); SQLite, "Powersafe Overwrite", for the assumption that is broken here.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import shake_128
from itertools import combinations
from typing import NamedTuple

from ..disk.content import Content
from ..disk.page_cache import Write

FILLINGS = 1 << 16
"""Count of garbage numbers. 0 means no garbage."""
_ZEROS, _ONES = 1, 2
_TRIED_FILLINGS = (1, 2, 3, 4)  # one of each kind: zeros, ones, another sector's bytes, random bytes


class PageOutcome(NamedTuple):
    """The outcome of one dirty page. Sectors whose bit is set in `sectors` have version `other`, the rest `version`."""

    version: int
    other: int = 0
    sectors: int = 0
    torn_at: int = 0
    """Offset in the page of a tear inside a sector: newer bytes, then older ones. 0 and sector boundaries: no tear."""
    garbage: int = 0
    """If bit s is set, sector s contains garbage if its two versions differ."""
    filling: int = 0
    """Garbage number (see `garbage_bytes`). 0: none."""


class DirtyPage(NamedTuple):
    """A page with unsynced writes. After a crash the page has version `least` or a later version."""

    path: str
    page: int
    writes: Sequence[Write]
    least: int

    @property
    def label(self) -> str:
        return f"page {self.path}#{self.page}"


class SectorFaults(NamedTuple):
    """Faults of single sectors. Fields as in FaultPlan; torn_page_chance as in CrashProfile."""

    sector_bytes: int = 512
    torn_bytes_chance: float = 0.0
    garbage_chance: float = 0.0
    torn_page_chance: float = 0.0

    @property
    def is_possible(self) -> bool:
        return self.torn_bytes_chance > 0.0 or self.garbage_chance > 0.0


class Tears(NamedTuple):
    """The damage of a page. page: whether it mixes versions, by whole sectors or inside sectors."""

    page: bool = False
    sectors: int = 0
    """Number of sectors that mix versions."""
    garbage: int = 0


_WHOLE = Tears()


class PageOutcomes:
    """The possible contents of one page, numbered in the order found. Equal contents share a number.

    durable_bytes: the durable file at its length after the power cut. page_sectors 0: no tears.
    """

    def __init__(
        self, page: DirtyPage, durable_bytes: Content, page_bytes: int, page_sectors: int, sector_faults: SectorFaults
    ) -> None:
        self.page = page
        self.contents: list[bytes] = []
        self.page_outcomes: list[PageOutcome] = []
        self.start = page.page * page_bytes
        self.end = min(self.start + page_bytes, len(durable_bytes))
        self._durable = durable_bytes
        self._page_sectors = page_sectors
        self._sector_faults = sector_faults
        self._numbers: dict[bytes, int] = {}
        self._known: dict[PageOutcome, int] = {}

    def number(self, page_outcome: PageOutcome) -> int:
        number = self._known.get(page_outcome)
        if number is None:
            content = self._content_of(page_outcome)
            number = self._numbers.setdefault(content, len(self.contents))
            if number == len(self.contents):
                self.contents.append(content)
                self.page_outcomes.append(page_outcome)
            assert len(self.contents) == len(self.page_outcomes) == len(self._numbers), number
            self._known[page_outcome] = number
        return number

    @property
    def latest_version(self) -> int:
        return self.number(PageOutcome(len(self.page.writes)))

    @property
    def least(self) -> int:
        """Number of the page content with durable writes only."""
        return self.number(PageOutcome(self.page.least))

    @property
    def versions(self) -> list[int]:
        latest = len(self.page.writes)
        return [self.number(PageOutcome(version)) for version in range(self.page.least, latest + 1)]

    def outcome_before_operation(self, operation: int) -> int:
        """Return the number of the page content with durable writes and the writes before an operation."""
        earlier = bisect_left(self.page.writes, operation, key=lambda write: write[0])
        return self.number(PageOutcome(max(self.page.least, earlier)))

    def find_all_contents(self, limit: int) -> bool:
        """Find every version and every tear between two versions. False: there are more than limit."""
        versions = range(self.page.least, len(self.page.writes) + 1)
        for version in versions:
            self.number(PageOutcome(version))
        if len(self.contents) > limit:
            return False
        for older, newer in combinations(versions, 2):
            flying = self._sectors_in_flight(older, newer)
            for chosen in range(
                1, (1 << len(flying)) - 1
            ):  # every subset of sectors, except the empty and the full one
                sectors = sum(1 << sector for index, sector in enumerate(flying) if chosen >> index & 1)
                self.number(PageOutcome(older, newer, sectors))
                if len(self.contents) > limit:
                    return False
        return True

    def tears(self) -> Iterator[int]:
        """Yield tears at each sector boundary, of the last write and of all unsynced writes together."""
        latest = len(self.page.writes)
        for older in sorted({self.page.least, max(self.page.least, latest - 1)}):
            flying = self._sectors_in_flight(older, latest)
            for boundary in range(1, len(flying)):
                for newer in (flying[:boundary], flying[boundary:]):  # both orders, because drives reorder sectors
                    yield self.number(PageOutcome(older, latest, sum(1 << sector for sector in newer)))

    def with_sector_faults(self) -> Iterator[int]:
        """Yield some tears inside sectors and some garbage, for the last write."""
        latest = len(self.page.writes)
        older = latest - 1
        if older < self.page.least:
            return
        flying = self._sectors_in_flight(older, latest)
        for index, sector in enumerate(flying):
            before = sum(1 << one for one in flying[:index])
            if self._sector_faults.torn_bytes_chance > 0.0:
                for torn_at in self._tear_offsets(older, latest, sector):
                    yield self.number(PageOutcome(older, latest, before, torn_at))
            if self._sector_faults.garbage_chance > 0.0:
                for filling in _TRIED_FILLINGS:
                    yield self.number(PageOutcome(older, latest, before, 0, 1 << sector, filling))

    def _sectors_in_flight(self, older: int, newer: int) -> list[int]:
        """Return the sectors in which two versions differ; none if the page cannot be torn."""
        if not self._page_sectors:
            return []
        one, other = (self.contents[self.number(PageOutcome(version))] for version in (older, newer))
        size = self._sector_faults.sector_bytes
        starts = range(0, self.end - self.start, size)
        return [sector for sector, at in enumerate(starts) if one[at : at + size] != other[at : at + size]]

    def _tear_offsets(self, older: int, newer: int, sector: int) -> list[int]:
        """Return up to three offsets: after the first differing byte, in the middle, before the last one."""
        one, other = (self.contents[self.number(PageOutcome(version))] for version in (older, newer))
        first = sector * self._sector_faults.sector_bytes
        last = min(first + self._sector_faults.sector_bytes, len(one))
        differing = [at for at in range(first, last) if one[at] != other[at]]
        begin, end = differing[0], differing[-1]
        return sorted(at for at in {begin + 1, (begin + end + 1) // 2, end} if begin < at <= end)

    def _content_of(self, page_outcome: PageOutcome) -> bytes:
        assert self.page.least <= page_outcome.version <= len(self.page.writes), page_outcome
        content = bytearray(self._durable[self.start : self.end])
        sector_bytes, writes = self._sector_faults.sector_bytes, self.page.writes
        apply_outcome(content, self.start, writes, page_outcome, sector_bytes, self._durable)
        return bytes(content)


def apply_version(page: bytearray, start: int, writes: Sequence[Write]) -> None:
    """Apply writes within the length of the page. start: file offset of the page."""
    end = start + len(page)
    for _, at, data in writes:
        stop = at + len(data)
        if start <= at and stop <= end:
            page[at - start : stop - start] = data
        else:
            first, last = max(at, start), min(stop, end)
            if first < last:  # else the write is after the surviving end of the file
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

    The page is not torn if all sectors in flight have the same version. durable: the file's durable bytes, from which
    garbage sectors may be copied.
    """
    is_torn = page_outcome.sectors or page_outcome.torn_at or page_outcome.filling
    if page_outcome.version == page_outcome.other or not is_torn:
        apply_version(page, start, writes[: page_outcome.version])
        return _WHOLE
    other = page[:]  # from the durable page: the other version may have fewer writes
    apply_version(other, start, writes[: page_outcome.other])
    apply_version(page, start, writes[: page_outcome.version])
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
    """Fill the selected sectors in flight with garbage. Return how many then equal neither version."""
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

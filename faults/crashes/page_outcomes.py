"""What one dirty page may hold after a power cut, each content once: its moments, and what tears make of two."""

from collections.abc import Iterator
from itertools import combinations

from .page_versions import DirtyPage, PageOutcome, lay_outcome
from .sampling import SectorHarm

_FILLINGS = (1, 2, 3, 4)
"""Garbage to try, as `garbage` has it: zeros, ones, another sector's bytes, bytes of chance."""


class PageOutcomes:
    """The contents found so far for one page, numbered in the order in which they were found.

    platter: the whole file, as long as it is after the cut, without any of the page's writes. page_sectors 0: the page
    is not torn. Contents that several survivors lead to have the number, and the survivor, of the first one.
    """

    def __init__(
        self, page: DirtyPage, durable_bytes: bytes, page_bytes: int, page_sectors: int, harm: SectorHarm
    ) -> None:
        self.page = page
        self.contents: list[bytes] = []
        self.page_outcomes: list[PageOutcome] = []
        self.start = page.page * page_bytes
        self.end = min(self.start + page_bytes, len(durable_bytes))
        self._platter = durable_bytes
        self._page_sectors = page_sectors
        self._harm = harm
        self._numbers: dict[bytes, int] = {}
        self._known: dict[PageOutcome, int] = {}

    def number(self, page_outcome: PageOutcome) -> int:
        """Return the number of what a survivor leads to."""
        number = self._known.get(page_outcome)
        if number is None:
            content = self._lay(page_outcome)
            number = self._numbers.setdefault(content, len(self.contents))
            if number == len(self.contents):
                self.contents.append(content)
                self.page_outcomes.append(page_outcome)
            self._known[page_outcome] = number
        return number

    @property
    def latest(self) -> int:
        """Return the number of the page as readers saw it."""
        return self.number(PageOutcome(len(self.page.writes)))

    @property
    def least(self) -> int:
        """Return the number of the page with no more than what is sure."""
        return self.number(PageOutcome(self.page.least))

    @property
    def moments(self) -> list[int]:
        """Return the numbers of all its moments, from the least on."""
        return [
            self.number(PageOutcome(moment)) for moment in range(self.page.least, len(self.page.writes) + 1)
        ]

    def before_operation(self, operation: int) -> int:
        """Return the number of the page with what was written before an operation, or is sure."""
        earlier = sum(number < operation for number, _, _ in self.page.writes)
        return self.number(PageOutcome(max(self.page.least, earlier)))

    def find_all(self, limit: int) -> bool:
        """Find every moment and every tear by sectors between two; return False, early, if they are more than limit."""
        moments = range(self.page.least, len(self.page.writes) + 1)
        for moment in moments:
            self.number(PageOutcome(moment))
        if len(self.contents) > limit:
            return False
        for older, newer in combinations(moments, 2):
            for sectors in self._subsets(self._flying(older, newer)):
                self.number(PageOutcome(older, newer, sectors))
                if len(self.contents) > limit:
                    return False
        return True

    def tears(self) -> Iterator[int]:
        """Yield the numbers of tears at every sector boundary of its last write, and of all its writes together.

        Either side of a boundary is the newer one once: drives reorder sectors.
        """
        latest = len(self.page.writes)
        for older in sorted({self.page.least, max(self.page.least, latest - 1)}):
            flying = self._flying(older, latest)
            for boundary in range(1, len(flying)):
                for newer in (flying[:boundary], flying[boundary:]):
                    yield self.number(PageOutcome(older, latest, sum(1 << sector for sector in newer)))

    def harmed(self) -> Iterator[int]:
        """Yield the numbers of what tears inside the last write's sectors, and garbage there, may leave: some of it."""
        latest = len(self.page.writes)
        older = latest - 1
        if older < self.page.least:
            return
        flying = self._flying(older, latest)
        for index, sector in enumerate(flying):
            before = sum(1 << one for one in flying[:index])
            if self._harm.torn_bytes_chance > 0.0:
                for torn_at in self._cuts(older, latest, sector):
                    yield self.number(PageOutcome(older, latest, before, torn_at))
            if self._harm.garbage_chance > 0.0:
                for filling in _FILLINGS:
                    yield self.number(PageOutcome(older, latest, before, 0, 1 << sector, filling))

    def _flying(self, older: int, newer: int) -> list[int]:
        """Return the sectors in which two moments differ; none if the page is not torn."""
        if not self._page_sectors:
            return []
        one, other = (self.contents[self.number(PageOutcome(moment))] for moment in (older, newer))
        sector_bytes = self._harm.sector_bytes
        starts = range(0, self.end - self.start, sector_bytes)
        return [
            sector
            for sector, at in enumerate(starts)
            if one[at : at + sector_bytes] != other[at : at + sector_bytes]
        ]

    def _cuts(self, older: int, newer: int, sector: int) -> list[int]:
        """Return bytes of the page to tear a sector at: behind the first that differs, half way, before the last."""
        one, other = (self.contents[self.number(PageOutcome(moment))] for moment in (older, newer))
        first = sector * self._harm.sector_bytes
        differing = [
            at for at in range(first, min(first + self._harm.sector_bytes, len(one))) if one[at] != other[at]
        ]
        begin, end = differing[0], differing[-1]
        return sorted(at for at in {begin + 1, (begin + end + 1) // 2, end} if begin < at <= end)

    @staticmethod
    def _subsets(sectors: list[int]) -> Iterator[int]:
        """Yield every set of some sectors, but neither none nor all of them, as bits."""
        for chosen in range(1, (1 << len(sectors)) - 1):
            yield sum(1 << sector for index, sector in enumerate(sectors) if chosen >> index & 1)

    def _lay(self, page_outcome: PageOutcome) -> bytes:
        content = bytearray(self._platter)
        lay_outcome(
            content,
            self.start,
            self.end,
            self.page.writes,
            page_outcome,
            self._harm.sector_bytes,
            self._platter,
        )
        return bytes(content[self.start : self.end])

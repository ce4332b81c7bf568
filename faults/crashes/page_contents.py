"""Page contents: computes the possible contents of one page after a power cut.

`PageOutcomes` numbers the outcomes of each page; many outcomes have equal contents. A new write only adds contents, so
a page's contents are computed once for all crash points and profiles until a sync.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from ..disk.content import Content, page_digest
from ..disk.page_cache import Write
from .page_outcomes import TRIED_FILLINGS, DirtyPage, PageOutcome, SectorFaults, apply_version, mix_versions


class PageContents:
    """The contents of one page at one length of its file. durable: the content without the writes."""

    def __init__(self, page: int, page_bytes: int, durable: bytes, sector_bytes: int) -> None:
        assert len(durable) <= page_bytes, (page, len(durable))
        self._page = page
        self._page_bytes = page_bytes
        self.start = page * page_bytes
        self.size_bytes = len(durable)
        self._sector_bytes = sector_bytes
        self._versions = [durable]
        self._operations: list[int] = []
        self._torn: dict[PageOutcome, bytes] = {}
        self._differing: dict[tuple[int, int], list[int]] = {}
        self._key_changes: dict[bytes, int] = {}

    def operations(self, writes: Sequence[Write]) -> list[int]:
        if len(self._operations) != len(writes):
            self._operations = [number for number, _, _ in writes]
        return self._operations

    def version(self, number: int, writes: Sequence[Write]) -> bytes:
        """Return the durable content with the first `number` writes."""
        versions = self._versions
        while len(versions) <= number:
            content = bytearray(versions[-1])
            apply_version(content, self.start, writes[len(versions) - 1 : len(versions)])
            # an unchanged page stays the same object, which has its hash
            versions.append(versions[-1] if content == versions[-1] else bytes(content))
        return versions[number]

    def content(self, outcome: PageOutcome, writes: Sequence[Write], durable: Content) -> bytes:
        """Return the content of an outcome. durable: the whole file, a source of garbage."""
        version = self.version(outcome.version, writes)
        if not outcome.is_mixed:
            return version
        known = self._torn.get(outcome)
        if known is None:
            page = bytearray(version)
            other = bytearray(self.version(outcome.other, writes))
            mix_versions(page, other, self.start, outcome, self._sector_bytes, durable)
            known = bytes(page)
            if not outcome.filling:
                self._torn[outcome] = known
        return known

    def differing_sectors(self, older: int, newer: int, writes: Sequence[Write]) -> list[int]:
        """Return the differing sectors of two versions."""
        found = self._differing.get((older, newer))
        if found is None:
            one, other = self.version(older, writes), self.version(newer, writes)
            size = self._sector_bytes
            starts = range(0, self.size_bytes, size) if one != other else range(0)
            found = [sector for sector, at in enumerate(starts) if one[at : at + size] != other[at : at + size]]
            self._differing[older, newer] = found
        return found

    def key_change(self, content: bytes) -> int:
        """Return the change in the durable file's digest sum if the page has this content."""
        change = self._key_changes.get(content)
        if change is None:
            change = self._key_changes[content] = self._digest(content) - self._digest(self._versions[0])
        return change

    def _digest(self, content: bytes) -> int:
        return page_digest(self._page, content.ljust(self._page_bytes, b"\0"))


class PageOutcomes:
    """The numbered possible contents of one page. Equal contents share a number.

    file: the durable file at its length after the power cut. factor: factor of its names in keys. page_sectors 0: no
    tears.
    """

    def __init__(
        self,
        page: DirtyPage,
        contents: PageContents,
        file: Content,
        factor: int,
        page_sectors: int,
        sector_faults: SectorFaults,
    ) -> None:
        self.page = page
        self.contents: list[bytes] = []
        self.key_changes: list[int] = []
        """The change in the image's key for each content; complete after `find_key_changes`."""
        self._factor = factor
        self.page_outcomes: list[PageOutcome] = []
        self.start = contents.start
        self._found = contents
        self._file = file
        self._page_sectors = page_sectors
        self._sector_faults = sector_faults
        self._numbers: dict[bytes, int] = {}
        self._known: dict[PageOutcome, int] = {}
        self._of_version: dict[int, int] = {}
        self.operations = contents.operations(page.writes)
        """The operations of the page's writes, oldest first."""

    def number(self, page_outcome: PageOutcome) -> int:
        number = self._known.get(page_outcome)
        if number is None:
            assert self.page.least <= page_outcome.version <= len(self.page.writes), page_outcome
            content = self._found.content(page_outcome, self.page.writes, self._file)
            number = self._numbers.setdefault(content, len(self.contents))
            if number == len(self.contents):
                self._append(content, page_outcome)
            self._known[page_outcome] = number
        return number

    def version(self, version: int) -> int:
        """Return the number of the content after the first `version` writes."""
        number = self._of_version.get(version)
        if number is None:  # most versions of a page are needed, so this is `number` without an outcome for each
            content = self._found.version(version, self.page.writes)
            number = self._of_version[version] = self._numbers.setdefault(content, len(self.contents))
            if number == len(self.contents):
                self._append(content, PageOutcome(version))
        return number

    def _append(self, content: bytes, page_outcome: PageOutcome) -> None:
        self.contents.append(content)
        self.page_outcomes.append(page_outcome)
        assert len(self.contents) == len(self.page_outcomes) == len(self._numbers), page_outcome

    def find_key_changes(self) -> None:
        for content in self.contents[len(self.key_changes) :]:
            self.key_changes.append(self._factor * self._found.key_change(content))

    def content_key_change(self, number: int) -> int:
        """Return the change in the durable file's content key if the page has this content."""
        return self._found.key_change(self.contents[number])

    @property
    def latest_version(self) -> int:
        return self.version(len(self.page.writes))

    @property
    def least(self) -> int:
        """Number of the content with durable writes only."""
        return self.version(self.page.least)

    @property
    def versions(self) -> list[int]:
        return [self.version(version) for version in range(self.page.least, len(self.page.writes) + 1)]

    def find_all_contents(self, limit: int) -> bool:
        """Find every version and every tear of two versions. False: more than limit."""
        versions = range(self.page.least, len(self.page.writes) + 1)
        for version in versions:
            self.version(version)
        if len(self.contents) > limit:
            return False
        for older, newer in combinations(versions, 2) if self._page_sectors else ():
            flying = self._found.differing_sectors(older, newer, self.page.writes)
            for chosen in range(1, (1 << len(flying)) - 1):  # every subset of sectors, except none and all
                sectors = sum(1 << sector for index, sector in enumerate(flying) if chosen >> index & 1)
                self.number(PageOutcome(older, newer, sectors))
                if len(self.contents) > limit:
                    return False
        return True

    def tears(self) -> Iterator[int]:
        """Yield tears at each sector boundary, of the last write, and of all unsynced writes together."""
        latest = len(self.page.writes)
        for older in sorted({self.page.least, max(self.page.least, latest - 1)}):
            flying = self._sectors_in_flight(older, latest)
            for boundary in range(1, len(flying)):
                for newer in (flying[:boundary], flying[boundary:]):  # both orders, because drives reorder sectors
                    yield self.number(PageOutcome(older, latest, sum(1 << sector for sector in newer)))

    def with_sector_faults(self) -> Iterator[int]:
        """Yield some tears inside sectors, and some garbage, of the last write."""
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
                for filling in TRIED_FILLINGS:
                    yield self.number(PageOutcome(older, latest, before, 0, 1 << sector, filling))

    def _sectors_in_flight(self, older: int, newer: int) -> list[int]:
        """Return the differing sectors of two versions; empty if the page cannot be torn."""
        return self._found.differing_sectors(older, newer, self.page.writes) if self._page_sectors else []

    def _tear_offsets(self, older: int, newer: int, sector: int) -> list[int]:
        """Return up to three offsets: after the first differing byte, in the middle, before the last one."""
        one, other = (self._found.version(version, self.page.writes) for version in (older, newer))
        first = sector * self._sector_faults.sector_bytes
        last = min(first + self._sector_faults.sector_bytes, len(one))
        differing = int.from_bytes(one[first:last], "big") ^ int.from_bytes(other[first:last], "big")
        begin = last - -(-differing.bit_length() // 8)
        end = last - 1 - ((differing & -differing).bit_length() - 1) // 8
        return sorted(at for at in {begin + 1, (begin + end + 1) // 2, end} if begin < at <= end)

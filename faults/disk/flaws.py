"""Places of a file that cannot simply be used: sectors that cannot be read, and holes that no block has been given to.

Through a map a whole page comes into memory at once, so one bad sector spoils its page, and touching it is a SIGBUS.
Through a descriptor only the sectors that a write covers in part have to be read first; one that is overwritten whole
is remapped by the drive, and good again. It is so from the write on, whether or not that reaches the platter.
A hole reads as zeros; a store or a write gives it a block, if there is one.

Sources: Bairavasundaram et al., "An Analysis of Latent Sector Errors in Disk Drives", SIGMETRICS 2007; mmap(2), SIGBUS;
posix_fallocate(3) for what files have that were only made longer.
"""

from .damage import DamagedRange

LATENT_SECTOR_ERROR = "latent sector error"


class Flaws:
    """The flaws of one file. bad_sectors: by number. holes: pages, by number."""

    __slots__ = ("_page_bytes", "_sector_bytes", "bad_sectors", "holes")

    def __init__(self, page_bytes: int, sector_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._sector_bytes = sector_bytes
        self.bad_sectors: set[int] = set()
        self.holes: set[int] = set()

    def hole_bytes(self, size_bytes: int) -> int:
        """Return how many bytes of a file of that size are holes."""
        page_bytes = self._page_bytes
        return sum(min(size_bytes - page * page_bytes, page_bytes) for page in self.holes)

    def grow(self, before_bytes: int, after_bytes: int) -> None:
        """Make holes of the pages that a file has got by being made longer."""
        self.holes.update(range(-(-before_bytes // self._page_bytes), -(-after_bytes // self._page_bytes)))

    def spoils(self, start: int, end: int) -> bool:
        """Return whether a page that [start, end) touches has a bad sector."""
        if not self.bad_sectors or start >= end:
            return False
        page_bytes = self._page_bytes
        first = start // page_bytes * page_bytes // self._sector_bytes
        last = -(-end // page_bytes) * page_bytes // self._sector_bytes
        return not self.bad_sectors.isdisjoint(range(first, last))

    def spoils_read(self, start: int, end: int) -> bool:
        """Return whether a bad sector would have to be read to read [start, end) through a descriptor."""
        sector_bytes = self._sector_bytes
        sectors = range(start // sector_bytes, -(-end // sector_bytes))
        return start < end and not self.bad_sectors.isdisjoint(sectors)

    def spoils_write(self, start: int, end: int) -> bool:
        """Return whether a bad sector would have to be read to write [start, end) through a descriptor."""
        sector_bytes = self._sector_bytes
        edges = {at // sector_bytes for at in (start, end) if at % sector_bytes}
        return start < end and not self.bad_sectors.isdisjoint(edges)

    def overwrite(self, start: int, end: int) -> None:
        """Take note that [start, end) was written: bad sectors in it are good again."""
        if self.bad_sectors:
            sector_bytes = self._sector_bytes
            self.bad_sectors.difference_update(range(-(-start // sector_bytes), end // sector_bytes))

    def holes_in(self, start: int, end: int) -> list[int]:
        """Return the holes that [start, end) touches."""
        if not self.holes or start >= end:
            return []
        return [
            page
            for page in range(start // self._page_bytes, -(-end // self._page_bytes))
            if page in self.holes
        ]

    def ranges(self, path: str, size_bytes: int) -> list[DamagedRange]:
        """Return the bad sectors as places of the file at path."""
        sector_bytes = self._sector_bytes
        return [
            DamagedRange(path, at, min(at + sector_bytes, size_bytes), LATENT_SECTOR_ERROR)
            for at in (sector * sector_bytes for sector in sorted(self.bad_sectors))
        ]

"""What one dirty page can hold after a power cut: the state of some moment, or, torn, of two.

Moment k of a page is its durable state with the first k of its pending writes laid over it. A torn page takes each
sector from one of two moments: the disk writes sectors whole, and stopped between two of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .page_cache import Write


class Survivor(NamedTuple):
    """What becomes of one dirty page. Bit s of sectors set: sector s is that of moment other, not of moment."""

    moment: int
    other: int = 0
    sectors: int = 0


class DirtyPage(NamedTuple):
    """A page with unsynced writes, as the survivors' draw sees it. least: the earliest moment it can be at."""

    path: str
    page: int
    writes: Sequence[Write]
    least: int

    @property
    def label(self) -> str:
        """Return what the draws about this page are labelled with."""
        return f"page {self.path}#{self.page}"


def lay_moment(content: bytearray, start: int, end: int, writes: Sequence[Write]) -> None:
    """Lay writes over the page [start, end) of content, and over nothing else."""
    for _, at, data in writes:
        stop = at + len(data)
        if start <= at and stop <= end:
            content[at:stop] = data
        else:
            first, last = max(at, start), min(stop, end)
            content[first:last] = data[first - at : last - at]


def lay_survivor(
    content: bytearray, start: int, end: int, writes: Sequence[Write], survivor: Survivor, sector_bytes: int
) -> bool:
    """Lay over the durable page [start, end) of content what survived; return whether it is truly torn.

    It is not if the sectors that differ all came from the same moment.
    """
    if not survivor.sectors or survivor.moment == survivor.other:
        lay_moment(content, start, end, writes[: survivor.moment])
        return False
    durable = content[start:end]
    lay_moment(content, start, end, writes[: survivor.other])
    other = content[start:end]
    content[start:end] = durable
    lay_moment(content, start, end, writes[: survivor.moment])
    chosen = content[start:end]
    for sector, first in enumerate(range(start, end, sector_bytes)):
        if survivor.sectors >> sector & 1:
            last = min(first + sector_bytes, end)
            content[first:last] = other[first - start : last - start]
    return content[start:end] not in (chosen, other)

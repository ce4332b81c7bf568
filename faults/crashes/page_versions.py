"""What one dirty page can hold after a power cut: the state of some moment, or, torn, of two.

Moment k of a page is its durable state with the first k of its pending writes laid over it. A torn page takes each
sector from one of two moments: the disk writes sectors whole, and stopped between two of them. Worse disks stop inside
a sector, whose first bytes then are of the newer moment, or leave garbage in sectors that were in flight: those in
which the two moments differ.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..disk.garbage import garbage
from ..disk.page_cache import Write


class PageOutcome(NamedTuple):
    """What becomes of one dirty page. Bit s of sectors set: sector s is that of moment other, not of moment."""

    moment: int
    other: int = 0
    sectors: int = 0
    torn_at: int = 0
    """Byte of the page before which the sector that has it is of the newer moment, and from which on of the older;
    0 and the sectors' own first bytes tear nothing."""
    garbage: int = 0
    """Bit s set: sector s holds garbage if the two moments differ there."""
    filling: int = 0
    """Which garbage, as in `garbage`; 0 for none."""


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


class Tears(NamedTuple):
    """What a page has suffered. page: it is at no one moment, because of whole sectors or of what follows."""

    page: bool = False
    sectors: int = 0
    """How many are at no one moment themselves, torn inside."""
    garbage: int = 0
    """How many hold neither moment's bytes."""


_WHOLE = Tears()


def lay_moment(content: bytearray, start: int, end: int, writes: Sequence[Write]) -> None:
    """Lay writes over the page [start, end) of content, and over nothing else."""
    for _, at, data in writes:
        stop = at + len(data)
        if start <= at and stop <= end:
            content[at:stop] = data
        else:
            first, last = max(at, start), min(stop, end)
            if first < last:  # a write to the page may lie behind the length that is left of the file
                content[first:last] = data[first - at : last - at]


def lay_outcome(
    content: bytearray,
    start: int,
    end: int,
    writes: Sequence[Write],
    page_outcome: PageOutcome,
    sector_bytes: int,
    durable: bytes = b"",
) -> Tears:
    """Lay over the durable page [start, end) of content what survived; return what it has truly suffered.

    It is whole if the sectors that differ all came from the same moment. durable: the whole file, for garbage.
    """
    if page_outcome.moment == page_outcome.other or not (
        page_outcome.sectors or page_outcome.torn_at or page_outcome.filling
    ):
        lay_moment(content, start, end, writes[: page_outcome.moment])
        return _WHOLE
    before = content[start:end]
    lay_moment(content, start, end, writes[: page_outcome.other])
    other = content[start:end]
    content[start:end] = before
    lay_moment(content, start, end, writes[: page_outcome.moment])
    chosen = content[start:end]
    if page_outcome.sectors:
        for sector, first in enumerate(range(start, end, sector_bytes)):
            if page_outcome.sectors >> sector & 1:
                last = min(first + sector_bytes, end)
                content[first:last] = other[first - start : last - start]
    torn = harmed = 0
    if page_outcome.torn_at % sector_bytes:
        older, newer = (chosen, other) if page_outcome.moment < page_outcome.other else (other, chosen)
        torn = _tear_sector(content, start, older, newer, page_outcome.torn_at, sector_bytes)
    if page_outcome.filling:
        harmed = _lay_garbage(content, start, chosen, other, page_outcome, sector_bytes, durable)
    return _WHOLE if content[start:end] in (chosen, other) else Tears(True, torn, harmed)


def _tear_sector(
    content: bytearray, start: int, older: bytearray, newer: bytearray, torn_at: int, sector_bytes: int
) -> int:
    """Make a sector newer up to a byte and older from there on; return 1 if it is at neither moment then."""
    first = torn_at - torn_at % sector_bytes
    last = min(first + sector_bytes, len(older))
    torn = (newer[first:torn_at] + older[torn_at:last])[: max(0, last - first)]
    content[start + first : start + last] = torn
    return int(torn not in (older[first:last], newer[first:last]))


def _lay_garbage(
    content: bytearray,
    start: int,
    one: bytearray,
    other: bytearray,
    page_outcome: PageOutcome,
    sector_bytes: int,
    durable: bytes,
) -> int:
    """Fill the sectors that are said to hold garbage and were in flight; return how many are at neither moment then."""
    harmed = 0
    for sector, first in enumerate(range(0, len(one), sector_bytes)):
        last = min(first + sector_bytes, len(one))
        if page_outcome.garbage >> sector & 1 and one[first:last] != other[first:last]:
            filled = garbage(page_outcome.filling, durable, start + first, start + last, sector_bytes)
            content[start + first : start + last] = filled
            harmed += filled not in (one[first:last], other[first:last])
    return harmed

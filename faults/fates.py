"""The draw of what a power cut takes: which metadata changes, and at which moment each dirty page stays.

Pure chance per page would almost never lose everything or just one thing, and bugs live there, so each cut has a mood.
The mood is not recorded: what is, change by change and page by page, is what it led to, 0 being what survived whole.
So a record reads as the list of what was lost, and each loss can be taken back on its own.
"""

from collections.abc import Callable, Sequence

from ..sim.choices import Stream
from .changes import Change
from .moments import DirtyPage, Survivor
from .profiles import Metadata

_CHANGE_MOODS = ("none", "all", "each on its own", "one missing", "one alone")
_PAGE_MOODS = ("none", "all", "any moment", "any moment", "torn", "torn", "one missing", "one alone")
_TEAR_CHANCES = (0.1, 0.5, 1.0)


def draw_lost_changes(stream: Stream, metadata: Metadata, unsure: Sequence[Change]) -> set[int]:
    """Return the numbers of the changes that a cut takes, out of those it may take."""
    if not unsure:
        return set()
    chance = stream.unrecorded
    if metadata is Metadata.PREFIX:
        kept = _moment(chance, len(unsure))
        lost = stream.decide(len(unsure) + 1, "changes lost from the end", len(unsure) - kept)
        return {change.number for change in unsure[len(unsure) - lost :]}
    fates = _fates_in_any_combination(chance, len(unsure))
    return {
        change.number
        for change, lost in zip(unsure, fates, strict=True)
        if stream.decide(2, f"{change.label} lost", int(lost))
    }


def draw_survivors(stream: Stream, dirty: Sequence[DirtyPage], page_sectors: int) -> list[Survivor]:
    """Return what becomes of each dirty page."""
    if not dirty:
        return []
    proposed = _survivors(stream.unrecorded, dirty, page_sectors)
    return [
        _decided(stream, page, survivor, page_sectors) for page, survivor in zip(dirty, proposed, strict=True)
    ]


def _decided(stream: Stream, page: DirtyPage, proposed: Survivor, page_sectors: int) -> Survivor:
    """Record one page's fate: how many of its newest writes are lost, and, torn, which sectors lost how many."""
    latest = len(page.writes)
    moments = latest - page.least + 1
    label = page.label
    lost = stream.decide(moments, f"{label} writes lost", latest - proposed.moment)
    sectors = stream.decide(1 << page_sectors, f"{label} torn sectors", proposed.sectors)
    if not sectors:
        return Survivor(latest - lost)
    other_lost = stream.decide(moments, f"{label} writes lost in torn sectors", latest - proposed.other)
    return Survivor(latest - lost, latest - other_lost, sectors)


def _fates_in_any_combination(chance: Callable[[], float], changes: int) -> list[bool]:
    """Propose for each change whether it is lost."""
    mood = _CHANGE_MOODS[int(chance() * len(_CHANGE_MOODS))]
    if mood == "each on its own":
        return [chance() < 0.5 for _ in range(changes)]
    fates = [mood in ("none", "one alone")] * changes
    if mood in ("one missing", "one alone"):
        index = int(chance() * changes)
        fates[index] = not fates[index]
    return fates


def _survivors(chance: Callable[[], float], dirty: Sequence[DirtyPage], page_sectors: int) -> list[Survivor]:
    mood = _PAGE_MOODS[int(chance() * len(_PAGE_MOODS))]
    if mood == "any moment":
        return [_at_any_moment(chance, page) for page in dirty]
    if mood == "torn":
        torn_chance = _TEAR_CHANCES[int(chance() * len(_TEAR_CHANCES))]
        return [_torn(chance, page, torn_chance, page_sectors) for page in dirty]
    latest = mood in ("all", "one missing")
    survivors = [Survivor(len(page.writes) if latest else page.least) for page in dirty]
    if mood in ("one missing", "one alone"):
        index = int(chance() * len(dirty))
        survivors[index] = Survivor(dirty[index].least if latest else len(dirty[index].writes))
    return survivors


def _at_any_moment(chance: Callable[[], float], page: DirtyPage) -> Survivor:
    return Survivor(page.least + _moment(chance, len(page.writes) - page.least))


def _torn(chance: Callable[[], float], page: DirtyPage, torn_chance: float, page_sectors: int) -> Survivor:
    """Propose a moment and, by chance, another one and the sectors that have that."""
    whole = _at_any_moment(chance, page)
    moments = len(page.writes) - page.least + 1
    if moments == 1 or chance() >= torn_chance:
        return whole
    further = 1 + int(chance() * (moments - 1))
    other = page.least + (whole.moment - page.least + further) % moments
    return Survivor(whole.moment, other, int(chance() * (1 << page_sectors)))


def _moment(chance: Callable[[], float], last: int) -> int:
    """Propose a moment, 0 to last: half of the time any, else an end."""
    if last == 0:
        return 0
    drawn = int(chance() * 2 * (last + 1))
    if drawn <= last:
        return drawn
    return last if drawn % 2 else 0

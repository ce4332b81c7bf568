"""Crash sampling: selects random losses of a power cut, first metadata, then dirty pages.

A record omits the random strategy of a power cut. Survival is recorded as 0, so a record lists the losses, and
shrinking can undo each loss separately.
"""

from collections.abc import Callable, Sequence

from ...sim.choices import Stream
from ..disk.changes import Change, Lost
from .page_outcomes import FILLINGS, DirtyPage, PageOutcome, SectorFaults
from .profiles import CrashProfile

# Independent losses of pages would almost never be a loss of all changes or of only one, where bugs are likely.
# So each power cut has a random strategy.
_CHANGE_STRATEGIES = ("none", "all", "each on its own", "one missing", "one alone")
_PAGE_STRATEGIES = ("none", "all", "any version", "any version", "torn", "torn", "one missing", "one alone")
_TEAR_CHANCES = (0.1, 0.5, 1.0)


def draw_lost_changes(stream: Stream, profile: CrashProfile, unsure: Sequence[Change]) -> Lost:
    if not unsure:
        return {}
    return decide_lost_changes(stream, profile, unsure, _propose_lost_changes(stream.raw_random, profile, unsure))


def decide_lost_changes(stream: Stream, profile: CrashProfile, unsure: Sequence[Change], proposed: Lost) -> Lost:
    """Record the number of lost ordered changes, the lost unordered changes, and the partial growths."""
    ordered, others = profile.metadata.split_by_order(unsure)
    from_end = sum(change.number in proposed for change in ordered)
    count = stream.record_draw(len(ordered) + 1, "changes lost from the end", from_end)
    # An ordered journal can lose only its last changes.
    lost = {change.number: 0 for change in ordered[len(ordered) - count :]}
    first_lost = min(lost, default=None)
    for change in others:
        is_lost = profile.metadata.is_lost_with_ordered(change, first_lost) or bool(
            stream.record_draw(2, f"{change.label} lost", int(change.number in proposed))
        )
        if is_lost:
            lost[change.number] = 0
    for growth in profile.partial_growths(unsure, lost):
        kept_bytes = proposed.get(growth.number, 0)
        lost[growth.number] = stream.record_draw(growth.grown_bytes, f"{growth.label} bytes kept", kept_bytes)
    return lost


def draw_page_outcomes(
    stream: Stream, dirty: Sequence[DirtyPage], page_sectors: int, sector_faults: SectorFaults | None = None
) -> list[PageOutcome]:
    """Select a random outcome for each dirty page. page_sectors: 0 if pages cannot be torn."""
    if not dirty:
        return []
    if sector_faults is not None and not (page_sectors and sector_faults.is_possible):
        sector_faults = None
    proposed = _propose_page_outcomes(stream.raw_random, dirty, page_sectors, sector_faults)
    return [
        record_page_outcome(stream, page, page_outcome, page_sectors, sector_faults)
        for page, page_outcome in zip(dirty, proposed, strict=True)
    ]


def record_page_outcome(
    stream: Stream, page: DirtyPage, proposed: PageOutcome, page_sectors: int, sector_faults: SectorFaults | None
) -> PageOutcome:
    """Record the number of lost newest writes of a page, and the sectors of a torn page with another version.

    A later choice depends only on recorded values, not on the proposal, so a replay makes the same choices.
    """
    latest = len(page.writes)
    assert page.least <= proposed.version <= latest, (page.label, page.least, proposed, latest)
    versions = latest - page.least + 1
    label = page.label
    lost = stream.record_draw(versions, f"{label} writes lost", latest - proposed.version)
    sectors = stream.record_draw(1 << page_sectors, f"{label} torn sectors", proposed.sectors)
    torn_at = damaged = filling = 0
    if sector_faults is not None and sector_faults.torn_bytes_chance > 0.0:
        page_bytes = page_sectors * sector_faults.sector_bytes
        torn_at = stream.record_draw(page_bytes, f"{label} torn at byte", proposed.torn_at)
    if sector_faults is not None and sector_faults.garbage_chance > 0.0:
        damaged = stream.record_draw(1 << page_sectors, f"{label} garbage sectors", proposed.garbage)
    if not (sectors or torn_at or damaged):
        return PageOutcome(latest - lost)
    other_lost = stream.record_draw(versions, f"{label} writes lost in torn sectors", latest - proposed.other)
    if damaged:
        filling = 1 + stream.record_draw(FILLINGS - 1, f"{label} garbage", max(0, proposed.filling - 1))
    return PageOutcome(latest - lost, latest - other_lost, sectors, torn_at, damaged, filling)


def _propose_lost_changes(chance: Callable[[], float], profile: CrashProfile, unsure: Sequence[Change]) -> Lost:
    """Propose lost changes, half of the lost growths with surviving bytes."""
    ordered, others = profile.metadata.split_by_order(unsure)
    kept = _propose_version(chance, len(ordered))
    lost = {change.number: 0 for change in ordered[kept:]}
    if others:
        outcomes = _losses_in_any_combination(chance, len(others))
        lost |= {change.number: 0 for change, taken in zip(others, outcomes, strict=True) if taken}
    for growth in profile.partial_growths(unsure, lost):
        if chance() < 0.5:
            lost[growth.number] = 1 + int(chance() * (growth.grown_bytes - 1))
    return lost


def _losses_in_any_combination(chance: Callable[[], float], changes: int) -> list[bool]:
    strategy = _CHANGE_STRATEGIES[int(chance() * len(_CHANGE_STRATEGIES))]
    if strategy == "each on its own":
        return [chance() < 0.5 for _ in range(changes)]
    outcomes = [strategy in ("none", "one alone")] * changes
    if strategy in ("one missing", "one alone"):
        index = int(chance() * changes)
        outcomes[index] = not outcomes[index]
    return outcomes


def _propose_page_outcomes(
    chance: Callable[[], float], dirty: Sequence[DirtyPage], page_sectors: int, sector_faults: SectorFaults | None
) -> list[PageOutcome]:
    if sector_faults is not None and sector_faults.torn_page_chance > 0.0:
        torn_chance = sector_faults.torn_page_chance
        return [_propose_tear(chance, page, torn_chance, page_sectors, sector_faults) for page in dirty]
    strategy = _PAGE_STRATEGIES[int(chance() * len(_PAGE_STRATEGIES))]
    if strategy == "any version":
        return [_propose_any_version(chance, page) for page in dirty]
    if strategy == "torn":
        torn_chance = _TEAR_CHANCES[int(chance() * len(_TEAR_CHANCES))]
        return [_propose_tear(chance, page, torn_chance, page_sectors, sector_faults) for page in dirty]
    latest = strategy in ("all", "one missing")
    page_outcomes = [PageOutcome(len(page.writes) if latest else page.least) for page in dirty]
    if strategy in ("one missing", "one alone"):
        index = int(chance() * len(dirty))
        page_outcomes[index] = PageOutcome(dirty[index].least if latest else len(dirty[index].writes))
    return page_outcomes


def _propose_any_version(chance: Callable[[], float], page: DirtyPage) -> PageOutcome:
    return PageOutcome(page.least + _propose_version(chance, len(page.writes) - page.least))


def _propose_tear(
    chance: Callable[[], float],
    page: DirtyPage,
    torn_chance: float,
    page_sectors: int,
    sector_faults: SectorFaults | None,
) -> PageOutcome:
    """Propose a page version, possibly with sectors of a second version and other damage."""
    whole = _propose_any_version(chance, page)
    versions = len(page.writes) - page.least + 1
    if versions == 1 or chance() >= torn_chance:
        return whole
    further = 1 + int(chance() * (versions - 1))
    other = page.least + (whole.version - page.least + further) % versions
    torn = PageOutcome(whole.version, other, _propose_sectors(chance, page_sectors))
    if sector_faults is None:
        return torn
    # These faults affect only sectors in flight.
    sector_bytes = sector_faults.sector_bytes
    page_bytes = page_sectors * sector_bytes
    first, last = sorted((torn.version, torn.other))
    start = page.page * page_bytes
    newer = page.writes[first:last]
    flying = [(max(at - start, 0), min(at + len(data) - start, page_bytes)) for _, at, data in newer]
    if chance() < sector_faults.torn_bytes_chance:
        begin, end = flying[int(chance() * len(flying))]
        torn = torn._replace(torn_at=begin + int(chance() * (end - begin)))
    damaged = 0
    for sector in range(page_sectors):
        at = sector * sector_bytes
        in_flight = any(begin < at + sector_bytes and at < end for begin, end in flying)
        if in_flight and chance() < sector_faults.garbage_chance:
            damaged |= 1 << sector
    if damaged:
        torn = torn._replace(garbage=damaged, filling=1 + int(chance() * (FILLINGS - 1)))
    return torn


def _propose_sectors(chance: Callable[[], float], page_sectors: int) -> int:
    """Propose the sectors with the second version, as bits: any, or one with chance 1/2, where bugs are likely."""
    if page_sectors and chance() < 0.5:
        return 1 << int(chance() * page_sectors)
    return int(chance() * (1 << page_sectors))


def _propose_version(chance: Callable[[], float], last: int) -> int:
    """Propose any version from 0 to last with chance 1/2, else the first or the last one."""
    if last == 0:
        return 0
    drawn = int(chance() * 2 * (last + 1))
    if drawn <= last:
        return drawn
    return last if drawn % 2 else 0

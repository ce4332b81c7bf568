"""Crash enumeration: lists all states that a crash may leave, or a selection.

If the limit allows, the list has all combinations (versions of pages, sectors, changes). Else it has these states, up
to the limit:

    no loss, and all losses; loss of all changes after some operation
    loss of only one page, or of all but one; each version in between; one page torn at each sector boundary
    loss of one metadata change, or of all but one; each prefix of the ordered changes; with all pages kept or lost
    some random states, as in a power cut of a run

A partial growth has two lengths: one byte of it survives, or all but one. Tears inside sectors and garbage are only
sampled; they come first if they are the main fault of the crash profile. Most states equal others, so a state has a
key, and builds its image only on demand.

Sources: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014 (ALICE: prefixes, and single operations left
out); Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress, islice, product
from math import prod
from typing import NamedTuple

from ...sim.choices import Choices, Decision, Stream
from ..disk.changes import Change, Lost
from ..disk.image import Image
from ..kinds import FaultKind
from .crash import PowerCut
from .page_contents import PageOutcomes
from .page_outcomes import DirtyPage, PageOutcome, SectorFaults
from .profiles import CrashProfile
from .sampling import decide_lost_changes, draw_lost_changes, draw_page_outcomes, record_page_outcome
from .variant import Chosen, CrashCache, MetadataVariant

_TEARS = (FaultKind.TORN_PAGE, FaultKind.TORN_SECTOR)
DRAWN_STATES = 16
"""Number of random states if the limit excludes some."""


class CrashLosses(NamedTuple):
    """Lost changes with surviving bytes of growths, and the outcome of each dirty page."""

    changes: tuple[tuple[Change, int], ...]
    pages: tuple[tuple[DirtyPage, PageOutcome], ...]


@dataclass(slots=True, eq=False)
class CrashState:
    """A crash state: lost metadata changes, and outcomes of dirty pages."""

    _variant: "MetadataVariant | SurvivingCache"
    _chosen: Chosen
    _key: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        assert len(self._chosen) == len(self._variant.pages), (self._chosen, len(self._variant.pages))

    @property
    def lost(self) -> Lost:
        return self._variant.lost

    @property
    def loss_kinds(self) -> frozenset[FaultKind]:
        """The kinds of the lost changes."""
        return self._variant.loss_kinds

    @property
    def page_outcomes(self) -> list[PageOutcome]:
        pages = self._variant.pages
        return [page.page_outcomes[number] for page, number in zip(pages, self._chosen, strict=True)]

    @property
    def dirty_pages(self) -> list[DirtyPage]:
        """Dirty pages with several versions, in the order of `Chosen`."""
        return [page.page for page in self._variant.pages]

    @property
    def loss_count(self) -> int:
        """Number of lost changes, plus number of pages without their latest version."""
        pages = zip(self._variant.pages, self._chosen, strict=True)
        return len(self.lost) + sum(number != page.latest_version for page, number in pages)

    @property
    def image(self) -> Image:
        return self._variant.image(self._chosen)

    @property
    def key(self) -> int:
        """The key of the image (`disk.keys`), computed without building the image."""
        if self._key is None:
            self._key = self._variant.key(self._chosen)
        return self._key

    @property
    def digest(self) -> str:
        return self._variant.digest(self._chosen)


@dataclass(frozen=True, slots=True)
class SurvivingCache:
    """The single crash state if the page cache survives."""

    whole: Image
    lost: Lost = field(default_factory=dict)
    loss_kinds: frozenset[FaultKind] = frozenset()
    pages: tuple[PageOutcomes, ...] = ()

    def image(self, _: Chosen) -> Image:
        return self.whole

    def key(self, _: Chosen) -> int:
        return self.whole.key

    def digest(self, _: Chosen) -> str:
        return self.whole.digest()


class PossibleStates(ABC):
    """The possible states after one crash or damage at rest."""

    is_exhaustive: bool = False
    """Whether all states are listed, except faults inside sectors and some lengths of partial growth."""
    was_cut: bool = False
    """Whether the limit has excluded states. Valid after the iteration."""
    page_faults: frozenset[str] = frozenset()
    """Possible faults of pages."""
    _made: list[CrashState] | None = None

    def __iter__(self) -> Iterator[CrashState]:
        if self._made is None:
            self._made = self._find_states()
        return iter(self._made)

    @abstractmethod
    def _find_states(self) -> list[CrashState]:
        """Return the states, and set `was_cut`."""

    @abstractmethod
    def decisions(self, state: CrashState, stream_name: str) -> list[Decision]:
        """Return the decisions of the named stream with which a replay reaches the state."""

    @abstractmethod
    def drawn(self, stream: Stream) -> CrashState:
        """Return the state that the stream selects. `decisions` is the inverse."""

    @abstractmethod
    def losses_of(self, state: CrashState) -> CrashLosses:
        """Return the lost changes and pages of a state."""


class CrashStates(PossibleStates):
    """The states of one crash, built on first use. whole: returns the image if the page cache survives."""

    def __init__(
        self,
        cut: PowerCut,
        profile: CrashProfile,
        sector_faults: SectorFaults,
        whole: Image | None,
        cache: CrashCache,
        limit: int,
        stream: Stream,
    ) -> None:
        self._cut = cut
        self._profile = profile
        self._sector_faults = sector_faults
        self._whole = whole
        self._cache = cache
        self._limit = limit
        self._stream = stream
        self._variants: dict[frozenset[tuple[int, int]], MetadataVariant] = {}
        self._unsure = cut.losable_changes() if whole is None else []
        self._ordered = [one.number for one in self._unsure if profile.metadata.is_in_order(one)]
        self._single = [one.number for one in self._unsure if not profile.metadata.is_in_order(one)]
        self._product = self._find_all_variants() if whole is None else None
        self.is_exhaustive = whole is not None or self._product is not None
        self._tears_sectors = profile.torn_bytes_chance > 0.0
        if whole is None:
            has_tears = (cut.page_sectors > 0, cut.page_sectors > 0 and sector_faults.torn_bytes_chance > 0.0)
            self.page_faults = frozenset((FaultKind.PAGE_LOST, *compress(_TEARS, has_tears)))

    def _find_states(self) -> list[CrashState]:
        if self._whole is not None:
            return [CrashState(SurvivingCache(self._whole), ())]
        states = self._representative_states() if self._product is None else self._all_states(self._product)
        made = list(islice(states, self._limit))
        self.was_cut = next(states, None) is not None
        # `_find_all_variants` counts only states without faults inside sectors.
        assert not (self.was_cut and self._product is not None) or self._sector_faults.is_possible, self._limit
        return made

    def decisions(self, state: CrashState, stream_name: str) -> list[Decision]:
        if self._whole is not None:
            return []
        stream = Choices("").stream(stream_name)
        decide_lost_changes(stream, self._profile, self._unsure, state.lost)
        faults, page_sectors = self._sector_faults, self._cut.page_sectors
        sector_faults = faults if page_sectors and faults.is_possible else None
        for page, page_outcome in zip(self._variant(state.lost).pages, state.page_outcomes, strict=True):
            record_page_outcome(stream, page.page, page_outcome, page_sectors, sector_faults)
        return stream.decisions()

    def drawn(self, stream: Stream) -> CrashState:
        if self._whole is not None:
            return CrashState(SurvivingCache(self._whole), ())
        variant, chosen = self._draw_state(stream)
        return CrashState(variant, chosen)

    @property
    def oldest(self) -> CrashState:
        """Return the state without any changes and writes that may be lost."""
        if self._whole is not None:
            return self.newest
        variant = self._variant(dict.fromkeys([*self._ordered, *self._single], 0))
        return CrashState(variant, variant.extreme_choices[1])

    @property
    def newest(self) -> CrashState:
        """Return the state without losses."""
        if self._whole is not None:
            return CrashState(SurvivingCache(self._whole), ())
        variant = self._variant({})
        return CrashState(variant, variant.extreme_choices[0])

    def losses_of(self, state: CrashState) -> CrashLosses:
        lost = state.lost
        changes = tuple((change, lost[change.number]) for change in self._unsure if change.number in lost)
        return CrashLosses(changes, tuple(zip(state.dirty_pages, state.page_outcomes, strict=True)))

    def _variant(self, lost: Lost) -> MetadataVariant:
        lost = self._profile.with_consequences(self._unsure, lost)
        key = frozenset(lost.items())
        variant = self._variants.get(key)
        if variant is None:
            variant = MetadataVariant(self._cut, self._unsure, lost, self._sector_faults, self._cache)
            self._variants[key] = variant
        return variant

    def _states(self, variant: MetadataVariant, wanted: Iterable[Chosen]) -> Iterator[CrashState]:
        return (CrashState(variant, chosen) for chosen in variant.new_choices(wanted))

    # -- all states ----------------------------------------------------------------------------------

    def _find_all_variants(self) -> list[MetadataVariant] | None:
        """Return all metadata variants with all page outcomes; None: more than the limit."""
        if (len(self._ordered) + 1) << len(self._single) > self._limit:
            return None
        variants = []
        states = 0
        for lost in self._all_metadata_losses():
            variant = self._variant(lost)
            if variant in variants:
                continue  # the list has this variant already
            left = self._limit - states
            if 1 << len(variant.pages) > left or not all(page.find_all_contents(left) for page in variant.pages):
                return None
            states += prod(len(page.contents) for page in variant.pages)
            if states > self._limit:
                return None
            variants.append(variant)
        return variants

    def _all_metadata_losses(self) -> Iterator[Lost]:
        for kept in range(len(self._ordered), -1, -1):
            for chosen in range(1 << len(self._single)):
                single = {number for index, number in enumerate(self._single) if chosen >> index & 1}
                yield from self._with_partial_growths(single.union(self._ordered[kept:]))

    def _with_partial_growths(self, numbers: Iterable[int]) -> Iterator[Lost]:
        """Yield the loss of these changes, without and with each partial growth."""
        whole = dict.fromkeys(sorted(numbers), 0)
        growths = self._profile.partial_growths(self._unsure, whole)
        for parts in product(*(sorted({0, 1, growth.grown_bytes - 1}) for growth in growths)):
            yield whole | {growth.number: part for growth, part in zip(growths, parts, strict=True)}

    def _all_states(self, variants: list[MetadataVariant]) -> Iterator[CrashState]:
        if self._tears_sectors:
            for variant in variants:
                yield from self._states(variant, variant.with_sector_faults())
        for variant in variants:
            yield from self._states(variant, list(variant.every_choice()))
        if self._sector_faults.is_possible and not self._tears_sectors:
            for variant in variants:
                yield from self._states(variant, variant.with_sector_faults())

    # -- some states ---------------------------------------------------------------------------------

    def _representative_states(self) -> Iterator[CrashState]:
        kept = self._variant({})
        yield from self._states(kept, kept.extreme_choices)
        if self._tears_sectors:  # the main fault of this profile is first, because the limit drops the last states
            yield from self._states(kept, kept.with_sector_faults())
        yield from self._states_before_operations(kept)
        for lost in self._representative_losses():
            variant = self._variant(lost)
            yield from self._states(variant, variant.extreme_choices)
        yield from self._states(kept, kept.single_page_choices())
        for _ in range(DRAWN_STATES):
            variant, chosen = self._draw_state(self._stream)
            yield from self._states(variant, [chosen])
        if self._sector_faults.is_possible and not self._tears_sectors:
            yield from self._states(kept, kept.with_sector_faults())

    def _states_before_operations(self, kept: MetadataVariant) -> Iterator[CrashState]:
        """Yield states that lose all losable changes and writes after some operation."""
        numbers = set[int]().union(*(page.operations for page in kept.pages))
        unsure = dict.fromkeys([*self._ordered, *self._single], 0)
        variant = kept
        run: list[int] = []  # operations with equal lost changes
        for operation in sorted(numbers.union(unsure), reverse=True):
            if operation in unsure:
                yield from self._states(variant, variant.choices_before_operations(run))
                variant = self._variant({one: 0 for one in unsure if one >= operation})
                run = []
            run.append(operation)
        yield from self._states(variant, variant.choices_before_operations(run))

    def _representative_losses(self) -> Iterator[Lost]:
        """Yield the loss of all changes, of one unordered change, of all but one, and of all but a prefix of the
        ordered changes.
        """
        unsure = dict.fromkeys([*self._ordered, *self._single], 0)
        yield unsure
        for number in self._single:
            yield from self._with_partial_growths([number])
            yield {other: 0 for other in unsure if other != number}
        for kept in range(len(self._ordered)):
            yield from self._with_partial_growths(self._ordered[kept:])

    def _draw_state(self, stream: Stream) -> tuple[MetadataVariant, Chosen]:
        """Return a random state, as in a power cut of a run."""
        variant = self._variant(draw_lost_changes(stream, self._profile, self._unsure))
        dirty = [page.page for page in variant.pages]
        outcomes = draw_page_outcomes(stream, dirty, self._cut.page_sectors, self._sector_faults)
        return variant, variant.drawn(outcomes)

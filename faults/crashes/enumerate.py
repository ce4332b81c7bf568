"""Every state that a crash at one moment may leave, or, where they are too many, those in which bugs live.

If the product of all that may be lost, moment by moment and sector by sector, is within a limit, it is gone through as
a whole. Otherwise these are tried, up to the limit:

    nothing lost, and everything; all that is later than some operation lost
    each page alone lost, alone kept, at each moment in between, torn at every sector boundary
    each change of metadata alone lost, alone kept, each prefix of those that are in order; pages kept or lost
    some drawn as a power cut of a run is drawn

Of a file's growth by allocation that is lost in part, two lengths stand for all: one byte of it, and all but one.
Tears inside sectors and garbage are so many that they are only ever sampled, on disks that have them; where tears
inside sectors are what a kind of crash is about, they come first, so that a limit cuts others.

Sources: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014 (ALICE: prefixes, and single operations
left out); Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018.
"""

from collections.abc import Iterable, Iterator
from itertools import islice, product
from math import prod

from ...sim.choices import Choices, Decision, Stream
from ..disk.changes import Lost
from ..disk.image import Image
from .crash import PowerCut
from .crash_state import Chosen, CrashLosses, CrashState, DurableFiles, MetadataVariant, SurvivingCache
from .profiles import CrashProfile
from .sampling import (
    SectorHarm,
    decide_lost_changes,
    draw_lost_changes,
    draw_page_outcomes,
    record_page_outcome,
)

DRAWN_STATES = 16
"""How many are drawn where not all can be tried."""


class CrashStates:
    """The states that one crash may leave, each with its image; several may have the same one.

    They are made when they are asked for first, and kept. whole: what is left if the page cache survives, None
    if it does not. limit: how many states there may be; stream: draws some of them.
    """

    is_exhaustive: bool
    """Whether these are all there are, but for what happens inside of sectors, and lengths of growth lost in part."""
    was_cut: bool
    """Whether the limit has kept some from being tried that should have been. Known once all were asked for."""

    def __init__(
        self,
        cut: PowerCut,
        profile: CrashProfile,
        page_bytes: int,
        harm: SectorHarm,
        whole: Image | None,
        wall_ms: int,
        limit: int,
        stream: Stream,
    ) -> None:
        self._cut = cut
        self._profile = profile
        self._page_bytes = page_bytes
        self._harm = harm
        self._whole = whole
        self._durable_files = DurableFiles(wall_ms)
        self._limit = limit
        self._stream = stream
        self._variants: dict[frozenset[tuple[int, int]], MetadataVariant] = {}
        self._unsure = cut.unsure_changes() if whole is None else []
        self._ordered = [one.number for one in self._unsure if profile.metadata.is_in_order(one)]
        self._single = [one.number for one in self._unsure if not profile.metadata.is_in_order(one)]
        self._product = self._find_product() if whole is None else None
        self.is_exhaustive = whole is not None or self._product is not None
        self.was_cut = False
        self._made: list[CrashState] | None = None
        self._tears_sectors = profile.torn_bytes_chance > 0.0

    def __iter__(self) -> Iterator[CrashState]:
        if self._made is None:
            self._made = self._make()
        return iter(self._made)

    def _make(self) -> list[CrashState]:
        if self._whole is not None:
            return [CrashState(SurvivingCache(self._whole), (), self._whole.digest())]
        states = self._representatives() if self._product is None else self._everything(self._product)
        made = list(islice(states, self._limit))
        self.was_cut = next(states, None) is not None
        return made

    def decisions(self, state: CrashState, stream_name: str) -> list[Decision]:
        """Return the record with which a replayed crash comes to a state, drawing from the stream of that name."""
        if self._whole is not None:
            return []
        stream = Choices("").stream(stream_name)
        decide_lost_changes(stream, self._profile, self._unsure, state.lost)
        harm = self._harm if self._cut.page_sectors and self._harm.is_possible else None
        for page, page_outcome in zip(self._variant(state.lost).pages, state.page_outcomes, strict=True):
            record_page_outcome(stream, page.page, page_outcome, self._cut.page_sectors, harm)
        return stream.decisions()

    def drawn(self, stream: Stream) -> CrashState:
        """Return the state that a crash comes to that draws from stream, as `decisions` records one."""
        if self._whole is not None:
            return CrashState(SurvivingCache(self._whole), (), self._whole.digest())
        variant, chosen = self._draw(stream)
        return variant.state(chosen)

    def taken(self, state: CrashState) -> CrashLosses:
        """Return what is lost in a state."""
        lost = state.lost
        changes = tuple((change, lost[change.number]) for change in self._unsure if change.number in lost)
        return CrashLosses(changes, tuple(zip(state.dirty_pages, state.page_outcomes, strict=True)))

    def _variant(self, lost: Lost) -> MetadataVariant:
        key = frozenset(lost.items())
        variant = self._variants.get(key)
        if variant is None:
            variant = MetadataVariant(self._cut, lost, self._page_bytes, self._harm, self._durable_files)
            self._variants[key] = variant
        return variant

    # -- all of them -------------------------------------------------------------------------------

    def _find_product(self) -> list[MetadataVariant] | None:
        """Return every variant, with all outcomes of its pages found; None if that makes more states than the limit."""
        if (len(self._ordered) + 1) << len(self._single) > self._limit:
            return None
        variants = []
        states = 0
        for lost in self._all_losses():
            variant = self._variant(lost)
            left = self._limit - states
            if 1 << len(variant.pages) > left or not all(page.find_all(left) for page in variant.pages):
                return None
            states += prod(len(page.contents) for page in variant.pages)
            if states > self._limit:
                return None
            variants.append(variant)
        return variants

    def _all_losses(self) -> Iterator[Lost]:
        for kept in range(len(self._ordered), -1, -1):
            for chosen in range(1 << len(self._single)):
                single = {number for index, number in enumerate(self._single) if chosen >> index & 1}
                yield from self._in_parts(single.union(self._ordered[kept:]))

    def _in_parts(self, numbers: Iterable[int]) -> Iterator[Lost]:
        """Yield the loss of some changes, whole and with each choice of what their growths leave."""
        whole = dict.fromkeys(sorted(numbers), 0)
        growths = self._profile.partial(self._unsure, whole)
        for parts in product(*(sorted({0, 1, growth.grown_bytes - 1}) for growth in growths)):
            yield whole | {growth.number: part for growth, part in zip(growths, parts, strict=True)}

    def _everything(self, variants: list[MetadataVariant]) -> Iterator[CrashState]:
        if self._tears_sectors:
            for variant in variants:
                yield from variant.states(variant.harmed())
        for variant in variants:
            yield from variant.states(list(variant.every()))
        if self._harm.is_possible and not self._tears_sectors:
            for variant in variants:
                yield from variant.states(variant.harmed())

    # -- some of them ------------------------------------------------------------------------------

    def _representatives(self) -> Iterator[CrashState]:
        kept = self._variant({})
        yield from kept.states(kept.extremes)
        if self._tears_sectors:
            yield from kept.states(kept.harmed())
        yield from self._in_order(kept)
        for lost in self._few_losses():
            variant = self._variant(lost)
            yield from variant.states(variant.extremes)
        yield from kept.states(kept.single())
        for _ in range(DRAWN_STATES):
            variant, chosen = self._draw(self._stream)
            yield from variant.states([chosen])
        if self._harm.is_possible and not self._tears_sectors:
            yield from kept.states(kept.harmed())

    def _in_order(self, kept: MetadataVariant) -> Iterator[CrashState]:
        """Yield what is left if all that is later than some operation, and not sure, is lost."""
        numbers = {number for page in kept.pages for number, _, _ in page.page.writes}
        unsure = [*self._ordered, *self._single]
        for operation in sorted(numbers.union(unsure), reverse=True):
            variant = self._variant(dict.fromkeys([one for one in unsure if one >= operation], 0))
            yield from variant.states([variant.before_operation(operation)])

    def _few_losses(self) -> Iterator[Lost]:
        """Yield each change that is on its own lost alone, and kept alone; each prefix of the others; and all."""
        unsure = dict.fromkeys([*self._ordered, *self._single], 0)
        yield unsure
        for number in self._single:
            yield from self._in_parts([number])
            yield {other: 0 for other in unsure if other != number}
        for kept in range(len(self._ordered)):
            yield from self._in_parts(self._ordered[kept:])

    def _draw(self, stream: Stream) -> tuple[MetadataVariant, Chosen]:
        """Draw a state as a power cut of a run is drawn."""
        variant = self._variant(draw_lost_changes(stream, self._profile, self._unsure))
        dirty = [page.page for page in variant.pages]
        return variant, variant.drawn(draw_page_outcomes(stream, dirty, self._cut.page_sectors, self._harm))

"""Combinations of crash states: several disks lose data independently in one crash.

Most bugs need one disk with newer data than another, so the order of the combinations, up to the limit, is:

    every disk at its newest state, and every disk at its oldest
    one disk at its oldest state, the others at their newest, and the reverse
    one disk in each of its states, the others at their newest, and then at their oldest
    all others

A combined state has the files of all disks. The labels of a disk's random choices begin with its directory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

from ...sim.choices import Decision, Stream
from ..crashes.enumeration import CrashLosses, CrashState, CrashStates, PossibleStates
from ..crashes.page_outcomes import DirtyPage, PageOutcome
from ..disk.changes import Lost
from ..disk.image import Image
from ..disk.keys import key_of
from ..kinds import FaultKind


def merged(images: Sequence[Image]) -> Image:
    """Return one image with the files of several images, which have no file in common."""
    files = {path: file for image in images for path, file in image.files.items()}
    links = {path: text for image in images for path, text in image.symlinks.items()}
    assert len(files) == sum(len(image.files) for image in images), "a file is on one disk"
    return Image(files, tuple(sorted({path for image in images for path in image.directories})), links)


@dataclass(slots=True, eq=False, init=False)
class CombinedState(CrashState):
    """One state of each disk."""

    parts: tuple[CrashState, ...]

    def __init__(self, parts: tuple[CrashState, ...]) -> None:
        self.parts = parts
        self._key = key_of(" ".join(str(part.key) for part in parts))

    @property
    def lost(self) -> Lost:
        """Return the losses of the first disk with any, because change numbers are per disk."""
        return next((part.lost for part in self.parts if part.lost), {})

    @property
    def loss_kinds(self) -> frozenset[FaultKind]:
        return frozenset[FaultKind]().union(*(part.loss_kinds for part in self.parts))

    @property
    def page_outcomes(self) -> list[PageOutcome]:
        return [one for part in self.parts for one in part.page_outcomes]

    @property
    def dirty_pages(self) -> list[DirtyPage]:
        return [page for part in self.parts for page in part.dirty_pages]

    @property
    def loss_count(self) -> int:
        return sum(part.loss_count for part in self.parts)

    @property
    def image(self) -> Image:
        return merged([part.image for part in self.parts])

    @property
    def digest(self) -> str:
        return self.image.digest()


class CombinedStates(PossibleStates):
    """The states of several disks after one crash. names: directory of each disk. limit: maximum of combinations."""

    def __init__(self, names: Sequence[str], parts: Sequence[CrashStates], limit: int) -> None:
        self._names, self.parts, self._limit = names, parts, limit
        self.page_faults = frozenset[str]().union(*(part.page_faults for part in parts))
        self.tried = self.possible = 0
        """Number of combinations tried, and number of possible combinations. Valid after the iteration."""

    def _find_states(self) -> list[CrashState]:
        states = [_extremes_first(part) for part in self.parts]
        self.possible = prod(map(len, states))
        self.tried = min(self.possible, self._limit)
        found: dict[int, CrashState] = {}
        for chosen in islice(_in_order(states), self._limit):
            state = CombinedState(chosen)
            found.setdefault(state.key, state)
        self.was_cut = self.possible > self._limit or any(part.was_cut for part in self.parts)
        self.is_exhaustive = not self.was_cut and all(part.is_exhaustive for part in self.parts)
        return list(found.values())

    def decisions(self, state: CrashState, stream_name: str) -> list[Decision]:
        return [
            one._replace(label=f"{name} {one.label}")
            for name, (part, own) in zip(self._names, self.parts_of(state), strict=True)
            for one in part.decisions(own, stream_name)
        ]

    def drawn(self, stream: Stream) -> CrashState:
        parts = zip(self._names, self.parts, strict=True)
        return CombinedState(tuple(part.drawn(stream.with_subject(name)) for name, part in parts))

    def parts_of(self, state: CrashState) -> Iterator[tuple[CrashStates, CrashState]]:
        """Yield for each disk its possible states and its state."""
        assert isinstance(state, CombinedState), state
        yield from zip(self.parts, state.parts, strict=True)

    def losses_of(self, state: CrashState) -> CrashLosses:
        """Return the losses of all disks. Operation numbers are per disk: see `Replayer.losses`."""
        each = [part.losses_of(own) for part, own in self.parts_of(state)]
        return CrashLosses(
            tuple(change for one in each for change in one.changes), tuple(page for one in each for page in one.pages)
        )


def _extremes_first(part: CrashStates) -> list[CrashState]:
    """Return the newest state of a disk, the oldest, then all others."""
    found = {state.key: state for state in (part.newest, part.oldest, *part)}
    return list(found.values())


def _in_order(states: Sequence[Sequence[CrashState]]) -> Iterator[tuple[CrashState, ...]]:
    """Yield each combination once, in the order of the module's docstring."""
    tried: set[tuple[int, ...]] = set()
    for numbers in _numbers_in_order([len(one) for one in states]):
        if numbers not in tried:
            tried.add(numbers)
            yield tuple(one[number] for one, number in zip(states, numbers, strict=True))


def _numbers_in_order(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield one state number per disk. Number 0 is the newest state; number 1 is the oldest if it differs."""
    newest, oldest = tuple(0 for _ in counts), tuple(min(1, count - 1) for count in counts)
    yield from (newest, oldest)
    for of_others, own in ((newest, oldest), (oldest, newest)):
        for disk in range(len(counts)):
            yield (*of_others[:disk], own[disk], *of_others[disk + 1 :])
    for of_others in (newest, oldest):
        for disk, count in enumerate(counts):
            for number in range(count):
                yield (*of_others[:disk], number, *of_others[disk + 1 :])
    yield from product(*map(range, counts))

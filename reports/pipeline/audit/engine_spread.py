"""Engine spread: hands the parts of a store to an engine, bundling short parts.

A Spark task costs about 30 ms besides its work, and a job as much again, which is longer than checking a queue file. So
parts are handed out in bundles, whose size follows the duration of earlier bundles.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Generic

from ....store.real.native import load_core
from ....store.tools.spread import Item, Judgement, Result
from ..spark.engine import Engine
from .place_files import files_at

_BUNDLE_SECONDS = 0.5
"""Target duration of a bundle; a longer part is a bundle of its own."""


@dataclass(frozen=True, slots=True)
class JudgementAt(Generic[Item, Result]):
    """A judgement on parts of the store in a place, callable in a task."""

    judgement: Judgement[Item, Result]
    place: str

    def __call__(self, bundle: Sequence[tuple[int, Item]]) -> tuple[list[tuple[int, Result | OSError]], float]:
        """Return the number of each part with its result or read error, and the seconds."""
        began = perf_counter()
        found = [(number, self._judged(item)) for number, item in bundle]
        return found, perf_counter() - began

    def _judged(self, item: Item) -> Result | OSError:
        try:
            return self.judgement(files_at(self.place), load_core(), item)
        except OSError as error:
            return error


class _Bundles(Generic[Item]):
    def __init__(self, items: Iterable[Item]) -> None:
        self._numbered = enumerate(items)
        self._parts = 1

    def __iter__(self) -> Iterator[list[tuple[int, Item]]]:
        while bundle := list(islice(self._numbered, self._parts)):
            yield bundle

    def note(self, parts: int, seconds: float) -> None:
        """Set the size of the next bundle by the duration of this one, at most double."""
        assert parts > 0, "an empty bundle was handed out"
        fitting = int(_BUNDLE_SECONDS * parts / max(seconds, 1e-6))
        self._parts = max(1, min(fitting, 2 * self._parts))


@dataclass(frozen=True, slots=True)
class EngineSpread:
    """Lets an engine judge parts of the store in a place."""

    engine: Engine
    place: str

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item in order."""
        early: dict[int, Result | OSError] = {}
        wanted = 0
        bundles = _Bundles(items)
        for judged, seconds in self.engine.results(JudgementAt(judgement, self.place), bundles):
            bundles.note(len(judged), seconds)
            early.update(judged)
            while wanted in early:
                found = early.pop(wanted)
                if isinstance(found, OSError):
                    raise found
                yield found
                wanted += 1
        assert wanted == len(items), f"{wanted} results for {len(items)} items; waiting: {sorted(early)}"

"""Parts of a store in any place, handed to an engine; short ones many at a time.

A task costs Spark some 30 ms beside its work, and as much again if it is a job by itself: more than a look at a file of
a queue takes. So parts are handed out in bundles, and how long the last ones took says how many the next ones get.
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
"""How long a bundle is to take; a longer part is one by itself."""


@dataclass(frozen=True, slots=True)
class JudgementAt(Generic[Item, Result]):
    """A judgement on parts of the store in a place, as a task calls it."""

    judgement: Judgement[Item, Result]
    place: str

    def __call__(self, bundle: Sequence[tuple[int, Item]]) -> tuple[list[tuple[int, Result | OSError]], float]:
        """Return of each part its number, and what is found of it or what keeps it from being read; and the seconds."""
        began = perf_counter()
        found = [(number, self._judged(item)) for number, item in bundle]
        return found, perf_counter() - began

    def _judged(self, item: Item) -> Result | OSError:
        try:
            return self.judgement(files_at(self.place), load_core(), item)
        except OSError as error:
            return error


class _Bundles(Generic[Item]):
    """Parts with their numbers, in bundles."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._numbered = enumerate(items)
        self._parts = 1

    def __iter__(self) -> Iterator[list[tuple[int, Item]]]:
        while bundle := list(islice(self._numbered, self._parts)):
            yield bundle

    def note(self, parts: int, seconds: float) -> None:
        """Have bundles follow what so many parts took: twice as many parts in the next one at most."""
        fitting = int(_BUNDLE_SECONDS * parts / max(seconds, 1e-6))
        self._parts = max(1, min(fitting, 2 * self._parts))


@dataclass(frozen=True, slots=True)
class EngineSpread:
    """Has an engine judge parts of the store in a place."""

    engine: Engine
    place: str

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what is found of each item, in their order."""
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

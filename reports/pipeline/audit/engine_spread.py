"""Engine spread: checks parts of a store in Spark tasks, several parts per task.

A Spark task has more overhead than the check of one queue file takes. The duration of earlier tasks determines how many
parts the next task gets.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Generic

from ....store.real.native import load_core
from ....store.tools.spread import Item, Judgement, Result
from ..spark.engine import BundleSize, Engine
from .place_files import files_at


@dataclass(frozen=True, slots=True)
class JudgementAt(Generic[Item, Result]):
    """A check that a task calls with parts of the store at a path or URI."""

    judgement: Judgement[Item, Result]
    place: str

    def __call__(self, bundle: Sequence[tuple[int, Item]]) -> tuple[list[tuple[int, Result | OSError]], float]:
        """Return each part's number with its result or read error, and the duration of all checks in seconds."""
        began = perf_counter()
        found = [(number, self._judge_item(item)) for number, item in bundle]
        return found, perf_counter() - began

    def _judge_item(self, item: Item) -> Result | OSError:
        try:
            return self.judgement(files_at(self.place), load_core(), item)
        except OSError as error:
            return error


def _bundles(items: Iterable[Item], size: BundleSize) -> Iterator[list[tuple[int, Item]]]:
    numbered = enumerate(items)
    while bundle := list(islice(numbered, size.items)):
        yield bundle


@dataclass(frozen=True, slots=True)
class EngineSpread:
    """Runs checks of the store at a path or URI in parallel tasks."""

    engine: Engine
    place: str

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        early: dict[int, Result | OSError] = {}
        wanted = 0
        size = BundleSize()
        for judged, seconds in self.engine.results(JudgementAt(judgement, self.place), _bundles(items, size)):
            size.adapt(len(judged), seconds)
            early.update(judged)
            while wanted in early:
                found = early.pop(wanted)
                if isinstance(found, OSError):
                    raise found
                yield found
                wanted += 1
        assert wanted == len(items), f"{wanted} results for {len(items)} items; waiting: {sorted(early)}"

"""Seed choice: orders measured runs so that changed code soon meets the most different conditions.

A bug in a condition acts only in the runs that reach the outcome that it changes, and few runs reach a rare one. `make
conditions` measures which outcomes of the store's conditions each run reaches. For a changed function, the runs that
execute it are chosen. The next run is always the one with the most new outcomes per CPU second, where outcomes of the
function count most, then those of its module, then those of its package. When no outcome is new, each counts until two
runs have reached it, then four, and so on. This needs the place of a change, nothing else about it.

Source: the additional-greedy order of Rothermel, Untch, Chu and Harrold, "Prioritizing Test Cases For Regression
Testing", 2001, per cost as of Elbaum, Malishevsky and Rothermel, "Test Case Prioritization", 2002.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, reduce
from gzip import BadGzipFile, compress, decompress
from heapq import heapify, heappop, heappush
from operator import or_
from pathlib import Path
from typing import NamedTuple

import msgspec

_FUNCTION_WEIGHT, _MODULE_WEIGHT, _PACKAGE_WEIGHT = 20, 5, 1
_RUNS_PER_OUTCOME = (1, 2, 4, 8, 16, 32, 64)


class CodePlace(NamedTuple):
    """A function or class of a module, by its qualified name. Empty: the whole module."""

    module: str
    function: str

    def contains(self, other: "CodePlace") -> bool:
        """Return whether this place is `other` or encloses it."""
        same = not self.function or f"{other.function}.".startswith(f"{self.function}.")
        return self.module == other.module and same


class MeasuredRun(NamedTuple):
    """A run, and the outcomes that it reached."""

    scenario: str
    seed: int
    cpu_seconds: float
    reached: str
    """Hexadecimal number with a bit for each outcome; the lowest bit is outcome 0."""


class MeasuredRuns(msgspec.Struct, frozen=True):
    """Runs of scenarios, with the outcomes of the store's conditions that each reached."""

    places: list[CodePlace]
    """The place of each outcome."""
    runs: list[MeasuredRun]

    def save(self, path: Path) -> None:
        path.write_bytes(compress(msgspec.json.encode(self)))

    def runs_for(self, changed: Collection[CodePlace]) -> Iterator[MeasuredRun]:
        """Yield the runs that execute a changed place, best first."""
        weighted = self._weighted_masks(changed)
        relevant = reduce(or_, weighted.values())
        outcomes = {number: int(self.runs[number].reached, 16) & relevant for number in self._executing(changed)}
        counts = Counter[int]()
        for wanted in _RUNS_PER_OUTCOME:
            missing = sum(1 << outcome for outcome in _ones(relevant) if counts[outcome] < wanted)
            heap = [(float("-inf"), number) for number in outcomes]
            heapify(heap)
            while heap:
                _, number = heappop(heap)
                new = outcomes[number] & missing
                if not new:
                    continue
                gain = sum(weight * (new & mask).bit_count() for weight, mask in weighted.items())
                key = -gain / self.runs[number].cpu_seconds
                if heap and key > heap[0][0]:  # the next run may gain more; gains only decrease
                    heappush(heap, (key, number))
                    continue
                counts.update(_ones(outcomes.pop(number)))
                missing &= ~sum(1 << outcome for outcome in _ones(new) if counts[outcome] >= wanted)
                yield self.runs[number]

    def counts_for(self, changed: Collection[CodePlace]) -> tuple[Counter[str], Counter[str]]:
        """Return by scenario: its runs that execute a changed place, and all its runs."""
        executing = Counter(self.runs[number].scenario for number in self._executing(changed))
        return executing, Counter(run.scenario for run in self.runs)

    def _executing(self, changed: Collection[CodePlace]) -> Sequence[int]:
        """Return the indexes of the runs that execute a changed place; of all runs, if no run executes any."""
        mask = self._mask(lambda place: any(one.contains(place) for one in changed))
        found = [number for number, run in enumerate(self.runs) if int(run.reached, 16) & mask]
        return found or range(len(self.runs))

    def _weighted_masks(self, changed: Collection[CodePlace]) -> dict[int, int]:
        """Return disjoint sets of outcomes by their weight: those in changed places, in their modules, their
        packages."""
        modules = {one.module for one in changed}
        packages = {module.rpartition(".")[0] for module in modules}
        inside = self._mask(lambda place: any(one.contains(place) for one in changed))
        beside = self._mask(lambda place: place.module in modules) & ~inside
        near = self._mask(lambda place: place.module.rpartition(".")[0] in packages) & ~inside & ~beside
        if not inside | beside | near:
            return {_PACKAGE_WEIGHT: self._mask(lambda place: True)}
        return {_FUNCTION_WEIGHT: inside, _MODULE_WEIGHT: beside, _PACKAGE_WEIGHT: near}

    def _mask(self, holds: Callable[[CodePlace], bool]) -> int:
        return sum(1 << number for number, place in enumerate(self.places) if holds(place))


def _ones(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@cache
def measured_runs(path: Path) -> MeasuredRuns:
    """Read a file of measured runs, once for each process. Raises OSError, and ValueError for another file."""
    try:
        return msgspec.json.decode(decompress(path.read_bytes()), type=MeasuredRuns)
    except (BadGzipFile, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: expected a file of `make conditions`, found {error}") from error

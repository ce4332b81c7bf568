"""How much is to be had in each cell: the rare marks its seeds have hit so far, and the failures they have met.

A mark that n seeds have hit is worth 1/n² a hit, and so is a kind of failure. With less than a square, the many common
marks, which are hit everywhere, would level out the few rare ones. So a failure draws seeds to where it was, and less
so the better it is known. Faults do not count: they are what the harness does, and many of them happen on one disk
only, on which little is promised. Marks are where that got the store.

Only whole numbers, sums and divisions are used, which all machines do alike, and in a fixed order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .cells import DrawRegion
from .rows import Row

COLUMNS = ["scenario", "disk", "policy", "signature", "marks"]
"""What is looked at of a row."""
_TRUST_SEEDS = 20
"""How many seeds a cell needs to count as much as all of its scenario: what a handful gives is noise."""


class RarityCounts:
    """What the seeds of earlier rounds have met, by cell."""

    def __init__(self) -> None:
        self._seeds: Counter[DrawRegion] = Counter()
        self._met: defaultdict[DrawRegion, Counter[str]] = defaultdict(Counter)

    def add(self, rows: Iterable[Row]) -> None:
        """Take note of rows; those whose process did not survive say nothing."""
        for row in rows:
            if row["disk"] is not None:
                cell = DrawRegion(row["scenario"], row["disk"], row["policy"])
                self._seeds[cell] += 1
                self._met[cell].update(_met(row))

    def scores(self, cells: Sequence[DrawRegion]) -> list[float]:
        """Return what a seed of each cell may bring; the same for all as long as nothing has been met."""
        met: Counter[str] = Counter()
        for counts in self._met.values():
            met.update(counts)
        worth = {name: 1 / count**2 for name, count in met.items()}
        gains: dict[DrawRegion, float] = {}
        gains_of_scenario: defaultdict[str, float] = defaultdict(float)
        seeds_of_scenario: Counter[str] = Counter()
        for cell in sorted(self._seeds):
            gains[cell] = sum(count * worth[name] for name, count in sorted(self._met[cell].items()))
            gains_of_scenario[cell.scenario] += gains[cell]
            seeds_of_scenario[cell.scenario] += self._seeds[cell]

        def score(cell: DrawRegion) -> float:
            expected = gains_of_scenario[cell.scenario] / max(1, seeds_of_scenario[cell.scenario])
            gained = gains.get(cell, 0.0) + _TRUST_SEEDS * expected
            return gained / (self._seeds[cell] + _TRUST_SEEDS)

        found = [score(cell) for cell in cells]
        return found if any(found) else [1.0] * len(cells)


def _met(row: Row) -> set[str]:
    names = {f"mark {name}" for name, times in row["marks"] if times}
    return names if row["signature"] is None else {*names, f"failure {row['signature']}"}

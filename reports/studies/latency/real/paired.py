"""Paired differences: compares two modes of a store turn by turn, with intervals by the sign test.

Both modes of a pair put at the same arrivals in the same turn, so phases of the machine cancel out. The interval of the
median ratio has the ratios that a two-sided sign test would not reject. It assumes no distribution.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from ....quantities import LATENCY_COLUMNS, median_interval, percentiles_us
from .turns import MachineCondition, MeasuredCell, MeasuredTurn, Mode

_RATIOS_MIN = 6
CLAIMS = {"C5": (Mode("async", warm=True), Mode("async")), "C7": (Mode("pool"), Mode("async"))}
"""Claim of docs/claims.md -> the better mode according to the claim, and the other mode."""


class MedianRatio(NamedTuple):
    """The median of ratios, and its interval, None for fewer than six ratios."""

    median: float
    interval: tuple[float, float] | None

    def verdict(self) -> str:
        if self.interval is None:
            return "too few turns"
        low, high = self.interval
        if low <= 1 <= high:
            return "no difference seen"
        return "lower" if high < 1 else "higher"


def median_ratio(ratios: Sequence[float]) -> MedianRatio:
    return MedianRatio(median(ratios), median_interval(ratios) if len(ratios) >= _RATIOS_MIN else None)


class PairedDifference(NamedTuple):
    """One percentile of a mode as a multiple of another mode's."""

    claim: str
    """One of CLAIMS."""
    source: str
    condition: MachineCondition
    producers: int
    percentile: str
    turns: int
    ratio: MedianRatio


def paired_differences(turns: Iterable[MeasuredTurn]) -> Iterator[PairedDifference]:
    """Yield the differences of all pairs that were measured."""
    measured: dict[MeasuredCell, dict[int, list[float]]] = {}
    for turn in turns:
        measured.setdefault(turn.cell, {})[turn.number] = percentiles_us(turn.puts.latencies_ns)
    for claim, (mode, other) in CLAIMS.items():
        for cell, by_turn in measured.items():
            others = measured.get(cell._replace(mode=other), {})
            numbers = sorted(by_turn.keys() & others.keys())
            if cell.mode != mode or not numbers:
                continue
            for place, percentile in enumerate(LATENCY_COLUMNS):
                ratio = median_ratio([by_turn[number][place] / others[number][place] for number in numbers])
                yield PairedDifference(
                    claim, cell.source, cell.condition, cell.producers, percentile, len(numbers), ratio
                )

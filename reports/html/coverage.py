"""Coverage as bars: injected faults, ways in which lives ended, marks that were hit, and what never came about."""

from collections.abc import Mapping
from math import log1p
from typing import NamedTuple

from ...scenarios.campaigns.coverage import FAULTS, MARKS, ends_of, faults_of


class Bar(NamedTuple):
    """How often one thing came about; percent: of the longest bar, by logarithm."""

    name: str
    meaning: str
    times: int
    percent: int


class Never(NamedTuple):
    """What never came about."""

    name: str
    meaning: str


class Group(NamedTuple):
    """Things of one sort."""

    title: str
    bars: list[Bar]
    never: list[Never]


def coverage_groups(injected: Mapping[str, int], marks: Mapping[str, int]) -> list[Group]:
    """Return the groups, each from what came about most often; injected: as seeds count it, ends of lives included."""
    return [
        _group("injected faults", faults_of(injected), FAULTS),
        _group("how lives ended", ends_of(injected), {}),
        _group("rare paths that were taken", marks, MARKS),
    ]


def _group(title: str, counts: Mapping[str, int], known: Mapping[str, str]) -> Group:
    most = max(counts.values(), default=0)
    bars = [
        Bar(name, known.get(name, ""), times, round(100 * log1p(times) / log1p(most)))
        for name, times in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if times
    ]
    never = [Never(name, meaning) for name, meaning in known.items() if not counts.get(name)]
    return Group(title, bars, never)

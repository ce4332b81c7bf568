"""Coverage: what came about how often, as bars, and which promise was tried, and broke, on which disk, as a table."""

from collections.abc import Iterable, Mapping
from math import log1p
from types import MappingProxyType
from typing import NamedTuple

from ...scenarios.campaigns.coverage import MARKS, ends_of, faults_in, faults_of
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import Scenario
from ...scenarios.oracle.guarantees import PROMISED, Promise
from ...scenarios.oracle.invariants import INVARIANTS

_STATES = {Promise.KEPT: "held", Promise.INTACT: "intact", Promise.NONE: "none"}


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


def coverage_groups(
    injected: Mapping[str, int], marks: Mapping[str, int], scenarios: Iterable[Scenario]
) -> list[Group]:
    """Return the groups, each sorted by count; injected: as seeds count it, ends of lives included."""
    return [
        bar_group("injected faults", faults_of(injected), faults_in(scenarios)),
        bar_group("how lives ended", ends_of(injected)),
        bar_group("rare paths that were taken", marks, MARKS),
    ]


def bar_group(title: str, counts: Mapping[str, int], known: Mapping[str, str] = MappingProxyType({})) -> Group:
    """Return counts as bars. known: what each that may come about means; those of them that did not are named."""
    most = max(counts.values(), default=0)
    bars = [
        Bar(name, known.get(name, ""), times, round(100 * log1p(times) / log1p(most)))
        for name, times in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if times
    ]
    never = [Never(name, meaning) for name, meaning in known.items() if not counts.get(name)]
    return Group(title, bars, never)


class PromiseCell(NamedTuple):
    """One invariant on one disk. state: held, intact, broken, none (not promised), untried, unjudged."""

    state: str
    seeds: int
    """How many tried it: had something that could break it, and got as far as the check."""
    broken: int


class InvariantRow(NamedTuple):
    """One invariant."""

    invariant: str
    meaning: str
    cells: list[PromiseCell]


class DiskColumn(NamedTuple):
    """One column."""

    name: str
    meaning: str
    seeds: int
    """How many came to a verdict there."""


class Promises(NamedTuple):
    """The table."""

    disks: list[DiskColumn]
    rows: list[InvariantRow]


def promises_table(
    judged: Mapping[str, int], tried: Mapping[tuple[str, str], int], broken: Mapping[tuple[str, str], int]
) -> Promises:
    """Return the table; judged: seeds by disk; tried, broken: seeds by invariant and disk."""
    disks = [DiskColumn(name, disk_model.meaning, judged.get(name, 0)) for name, disk_model in DISK_MODELS.items()]
    rows = [
        InvariantRow(
            invariant,
            meaning,
            [
                _cell(invariant, disk, tried.get(where, 0), broken.get(where, 0))
                for disk in disks
                for where in [(invariant, disk.name)]
            ],
        )
        for invariant, meaning in INVARIANTS.items()
    ]
    return Promises(disks, rows)


def _cell(invariant: str, disk: DiskColumn, tried: int, broken: int) -> PromiseCell:
    state = _STATES[PROMISED[disk.name][invariant]]
    if broken:
        state = "broken"
    elif state != "none" and not disk.seeds:
        state = "unjudged"
    elif state != "none" and not tried:
        state = "untried"
    return PromiseCell(state, tried, broken)

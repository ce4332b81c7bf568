"""Claims on the model: compares warmed segments (C5) and the transient pool (C7) with plain async flush, seed by seed.

`python -m tests.bench.claims.latency --out DIR` writes `latency-claims.csv`. Each row compares two variants
under one condition. Both have the same arrivals and computing times for a seed, so differences are paired. The interval
covers the median of the differences with at least 95 %: the ranks of the sign test, which assumes no distribution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from tornlog.faults.devices.unjournaled import MetadataWrites
from tornlog.reports.quantities import median_interval, percentiles_us
from tornlog.reports.studies.latency.host import REFERENCE
from tornlog.reports.studies.latency.machine import (
    BUSY,
    CONDITIONS,
    FREE,
    PRODUCERS_UNDER_LOAD,
    RATE_UNDER_LOAD,
    SECONDS_UNDER_LOAD,
    SHORT,
    SystemConfig,
)
from tornlog.reports.studies.latency.simulated import simulate
from tornlog.reports.studies.latency.tables import main_cause
from tornlog.reports.studies.latency.traffic import Setup

from .measuring import measure_groups, write_claims

STABLE = "busy, stable pages"
UNJOURNALED = "free, no journal"
_SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
_ROLLOVER_BYTES = 512 << 10
"""Small segments for C5, so that a series uses five of them."""
_BUSY_SECONDS = 3
"""Shorter series, because a neighbour that writes takes most of the simulation's time."""
HEADER = (
    *("claim", "disk", "condition", "host", "figure", "seeds", "plain_us", "variant_us"),
    *("difference_us", "low_us", "high_us", "lower_in_seeds", "plain_waits_for", "variant_waits_for"),
)


class Comparison(NamedTuple):
    """Two variants of puts under one condition."""

    claim: str
    disk: str
    condition: str
    host: str
    """cpython, or jvm: whether a waiting fault stops all threads."""


COMPARISONS = (
    *(Comparison(claim, "hdd", name, "cpython") for claim in ("C5", "C7") for name in (FREE, SHORT, BUSY)),
    *(Comparison("C7", "hdd", STABLE, host) for host in ("cpython", "jvm")),
    *(Comparison(claim, "hdd", UNJOURNALED, "cpython") for claim in ("C5", "C7")),
)


@dataclass(frozen=True, slots=True)
class SeedCase:
    """A comparison with one seed."""

    comparison: Comparison
    seed: int

    def measure(self) -> tuple[list[list[float]], list[str]]:
        """Return the figures of both variants in us, in the order of _SHARES, and their main causes."""
        claim, disk, condition, host = self.comparison
        seconds = _BUSY_SECONDS if condition in (BUSY, STABLE) else SECONDS_UNDER_LOAD
        puts = round(RATE_UNDER_LOAD * seconds)
        plain = Setup("async", PRODUCERS_UNDER_LOAD, RATE_UNDER_LOAD, puts, seed=self.seed)
        variant = replace(plain, flush="pool")
        if claim == "C5":
            plain = replace(plain, segment_bytes=_ROLLOVER_BYTES)
            variant = replace(plain, warm=True)
        costs = replace(REFERENCE, holds_interpreter_lock=host == "cpython")
        found = [simulate(one, costs, _system_of(disk, condition)) for one in (plain, variant)]
        return [percentiles_us(one.latencies_ns, _SHARES.values()) for one in found], [main_cause(one) for one in found]


def _system_of(disk: str, condition: str) -> SystemConfig:
    if condition == STABLE:
        return replace(CONDITIONS[BUSY].system(disk), stable_pages=True)
    if condition == UNJOURNALED:
        return replace(CONDITIONS[FREE].system(disk), unjournaled=MetadataWrites())
    return CONDITIONS[condition].system(disk)


def measure_claims(seeds: int, jobs: int = 1) -> Iterator[tuple[object, ...]]:
    """Yield the rows of all comparisons. `jobs` does not affect them."""
    cases = [SeedCase(comparison, seed) for comparison in COMPARISONS for seed in range(seeds)]
    for comparison, found in zip(COMPARISONS, measure_groups(cases, seeds, jobs), strict=True):
        yield from _rows_of(comparison, found)


def _rows_of(
    comparison: Comparison, found: Sequence[tuple[list[list[float]], list[str]]]
) -> Iterator[tuple[object, ...]]:
    causes = [max(sorted(set(names)), key=names.count) for names in zip(*(causes for _, causes in found), strict=True)]
    for number, figure in enumerate(_SHARES):
        plain, variant = ([figures[which][number] for figures, _ in found] for which in (0, 1))
        differences = [other - one for one, other in zip(plain, variant, strict=True)]
        values = median(plain), median(variant), median(differences), *median_interval(differences)
        lower = sum(difference < 0 for difference in differences)
        yield *comparison, figure, len(found), *(round(us, 1) for us in values), lower, *causes


if __name__ == "__main__":
    write_claims(
        "Compare warmed segments and the transient pool with async flush.", HEADER, measure_claims, "latency-claims"
    )

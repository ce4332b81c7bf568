"""Claims on the model: how read-ahead and the I/O scheduler help late consumers of the shared log.

`python -m tests.bench.claims.topics --out DIR` writes `topics-claims.csv`. Each row compares a variant with Linux's
defaults, seed by seed: the same puts, read by the same consumers with an empty page cache. The interval covers the
median of the ratios with at least 95 % (sign test).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from tornlog.reports.quantities import median_interval
from tornlog.reports.studies.latency.host import REFERENCE
from tornlog.reports.studies.topics.grid import DEVICES
from tornlog.reports.studies.topics.layouts import SHARED, TopicLayout, TopicsSetup
from tornlog.reports.studies.topics.timed_machine import TimedMachine, run_timed
from tornlog.reports.studies.topics.workload import closed_loop, few_topics_of, run_late_consumers

from .measuring import measure_groups, write_claims

_PUTS = 20_000
_TOPICS = (64, 1024)
DEFAULTS = "read-ahead of 128 KiB, sorted queue"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULTS: {},
    "no read-ahead": {"read_ahead_pages": 1},
    "read-ahead of 1 MiB": {"read_ahead_pages": 256},
    "queue in order of arrival": {"sorts_requests": False},
}
"""Name -> fields of TopicsSetup."""
HEADER = (
    *("disk", "topics", "lagging", "variant", "seeds", "records_per_s", "ratio", "low", "high"),
    *("read_bytes_per_record", "queue_wait_share"),
)
"""ratio: records per second as a multiple of the defaults. queue_wait_share: of the waits for reads, in queues."""


class LateReads(NamedTuple):
    """The reads of late consumers."""

    records_per_second: float
    read_bytes_per_record: float
    queue_wait_share: float


@dataclass(frozen=True, slots=True)
class LateCase:
    """One variant with one seed on one disk, with consumers of a few or of all topics."""

    disk: str
    topics: int
    all_lag: bool
    variant: str
    seed: int

    def measure(self) -> LateReads:
        base = TopicsSetup(SHARED, "async", self.topics, _PUTS, seed=self.seed)
        setup = replace(base, **VARIANTS[self.variant])
        return run_timed(
            setup, REFERENCE, DEVICES[self.disk], lambda machine: self._read_late(machine, machine.start())
        )

    def _read_late(self, machine: TimedMachine, layout: TopicLayout) -> LateReads:
        closed_loop(machine, layout)
        machine.settle(layout)
        lagging = range(self.topics) if self.all_lag else few_topics_of(self.topics)
        found = run_late_consumers(machine, layout, lagging)
        of_records, of_queues = machine.read_wait_ns
        share = of_queues / max(of_records + of_queues, 1)
        return LateReads(found.records_per_second, found.read_bytes_per_record, share)


def measure_claims(seeds: int, jobs: int = 1) -> Iterator[tuple[object, ...]]:
    """Yield the rows of all cases. `jobs` does not affect them."""
    places = [(disk, topics, all_lag) for disk in DEVICES for topics in _TOPICS for all_lag in (False, True)]
    cases = [LateCase(*place, variant, seed) for place in places for variant in VARIANTS for seed in range(seeds)]
    for place, found in zip(places, measure_groups(cases, seeds * len(VARIANTS), jobs), strict=True):
        yield from _rows_of(*place, seeds, found)


def _rows_of(
    disk: str, topics: int, all_lag: bool, seeds: int, found: Sequence[LateReads]
) -> Iterator[tuple[object, ...]]:
    defaults = found[:seeds]
    for number, variant in enumerate(VARIANTS):
        mine = found[number * seeds : (number + 1) * seeds]
        ratios = [one.records_per_second / other.records_per_second for one, other in zip(mine, defaults, strict=True)]
        rate, read_bytes, share = (median(figures) for figures in zip(*mine, strict=True))
        bounds = (round(one, 3) for one in (median(ratios), *median_interval(ratios)))
        place = disk, topics, "all" if all_lag else "few"
        yield *place, variant, seeds, round(rate), *bounds, round(read_bytes), round(share, 3)


if __name__ == "__main__":
    write_claims("Compare read-ahead and I/O schedulers for late consumers.", HEADER, measure_claims, "topics-claims")

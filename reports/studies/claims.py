"""Claims on the models: measures cases seed by seed, bounds medians, and writes the table of a command."""

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import comb
from operator import methodcaller
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ...scenarios.campaigns.worker_pool import run_jobs
from ...sim.interruption import interruptible

SEEDS = 20
T_co = TypeVar("T_co", covariant=True)


class ClaimCase(Protocol, Generic[T_co]):
    """One simulation. Its fields determine the result."""

    def measure(self) -> T_co: ...


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return bounds that contain the median of the distribution with at least 95 %, if there are 6 values or more."""
    ordered, count = sorted(values), len(values)
    below, rank = 0.0, 0
    # The true median is below the value of rank k with the probability of at most k heads in `count` tosses.
    while below + comb(count, rank) / 2**count <= 0.025:
        below += comb(count, rank) / 2**count
        rank += 1
    first = max(rank - 1, 0)
    return ordered[first], ordered[count - 1 - first]


def measure_groups(cases: Iterable[ClaimCase[T_co]], group: int, jobs: int) -> Iterator[list[T_co]]:
    """Yield the results of each `group` consecutive cases, in order. `jobs` does not affect them."""
    found: list[T_co] = []
    with interruptible() as interruption:
        for _, result in run_jobs(methodcaller("measure"), cases, jobs, interruption):
            found.append(result)
            if len(found) == group:
                yield found
                found = []


def write_claims(
    description: str, header: Sequence[str], rows: Callable[[int, int], Iterable[Sequence[object]]], name: str
) -> None:
    """Run the command line. rows: called with the numbers of seeds and of processes."""
    from ..plotting import save_table

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    save_table(header, rows(options.seeds, options.jobs), options.out, name)

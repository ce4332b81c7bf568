"""Cases of claims: measures them seed by seed, and writes the table of a command."""

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tornlog.scenarios.campaigns.worker_pool import run_jobs
from tornlog.sim.interruption import interruptible

SEEDS = 20
T_co = TypeVar("T_co", covariant=True)


class ClaimCase(Protocol, Generic[T_co]):
    """One simulation. Its fields determine the result."""

    def measure(self) -> T_co: ...


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
    from tornlog.reports.plotting import save_table

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    save_table(header, rows(options.seeds, options.jobs), options.out, name)

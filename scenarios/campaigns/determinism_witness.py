"""The witness process of a determinism check: it runs seeds in the order given and prints what came of each.

It is a process that calls `main`: a pickled `Job` on its standard input gives a pickled answer on its standard output,
for `Runs` a list of `Statement`, for `OneRun` a `TraceRecording`.
"""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ...sim.determinism import record
from ...sim.guard import guard
from ...sim.trace import TraceRecording
from ..claims.catalogue import SCENARIOS
from .seeds import digest_of, run_seed


@dataclass(frozen=True, slots=True)
class Runs:
    """Seeds of scenarios to run, in this order, so many under one guard before garbage is collected."""

    seeds: list[tuple[str, int]]
    batch: int


@dataclass(frozen=True, slots=True)
class OneRun:
    """One seed to run and report in full."""

    scenario: str
    seed: int


Job = Runs | OneRun


class Statement(NamedTuple):
    """What one seed gave."""

    scenario: str
    seed: int
    outcome: str
    digest: str
    error: str


def attest(job: Runs) -> Iterator[Statement]:
    """Run seeds, and yield what each gave."""
    for first in range(0, len(job.seeds), job.batch):
        with guard():
            for name, seed in job.seeds[first : first + job.batch]:
                result = run_seed(SCENARIOS[name], seed)
                yield Statement(name, seed, result.outcome, result.digest, result.error)


def record_run(job: OneRun) -> TraceRecording:
    """Run one seed, and return all that happened."""
    return record(partial(digest_of, SCENARIOS[job.scenario], job.seed))


def main() -> None:
    """Take a job, and answer it."""
    job: Job = pickle.load(sys.stdin.buffer)
    answer = record_run(job) if isinstance(job, OneRun) else list(attest(job))
    pickle.dump(answer, sys.stdout.buffer)

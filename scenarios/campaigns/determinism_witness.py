"""Determinism witness: a process that runs given seeds and returns their digests.

`main` reads a pickled `Job` from standard input and writes a pickled result to standard output: a list of
`SeedStatement` for `WitnessRuns`, a `TraceRecording` for `TracedSeed`.
"""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ...sim.determinism import record_trace
from ...sim.guard import leak_guard
from ...sim.trace import TraceRecording
from ..claims.catalogue import SCENARIOS
from .seeds import digest_of, run_seed


@dataclass(frozen=True, slots=True)
class WitnessRuns:
    """Scenarios and seeds to run in this order. Each batch of seeds shares one determinism guard and one garbage
    collection."""

    seeds: list[tuple[str, int]]
    batch: int


@dataclass(frozen=True, slots=True)
class TracedSeed:
    """One seed to run with a trace."""

    scenario: str
    seed: int


Job = WitnessRuns | TracedSeed


class SeedStatement(NamedTuple):
    """The outcome and the digest of one seed."""

    scenario: str
    seed: int
    outcome: str
    digest: str
    error: str


def results_of_job(job: WitnessRuns) -> Iterator[SeedStatement]:
    for first in range(0, len(job.seeds), job.batch):
        with leak_guard():
            for name, seed in job.seeds[first : first + job.batch]:
                result = run_seed(SCENARIOS[name], seed)
                yield SeedStatement(name, seed, result.outcome, result.digest, result.error)


def record_run(job: TracedSeed) -> TraceRecording:
    return record_trace(partial(digest_of, SCENARIOS[job.scenario], job.seed))


def main() -> None:
    job: Job = pickle.load(sys.stdin.buffer)
    answer = record_run(job) if isinstance(job, TracedSeed) else list(results_of_job(job))
    pickle.dump(answer, sys.stdout.buffer)

"""Many seeds of many scenarios, in this process or in several, and their sum.

Results are folded in seed order whatever process they came from, so the digests of a batch do not depend on how it was
cut up. `tornlog run --jobs N` is the standard library's process pool; everything larger belongs on Spark.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, islice
from multiprocessing import get_context
from time import perf_counter
from typing import Any

from ..sim.guard import guard
from .failures.failure import Failure
from .scenario import Scenario
from .seeds import SeedResult, run_seed

BATCH_SEEDS = 25
FAILURES_KEPT_MAX = 20
"""Failures of one scenario that are kept, beside the first of each signature; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some seeds of one scenario: what a worker takes at a time."""

    scenario: Scenario
    first: int
    count: int
    mutant: str | None = None
    check_determinism: bool = False

    @property
    def seeds(self) -> range:
        """Return the batch's seeds."""
        return range(self.first, self.first + self.count)


@dataclass(slots=True)
class Tally:
    """The sum of one scenario's seeds."""

    scenario: Scenario
    seeds: int = 0
    crash_points: int = 0
    messages: int = 0
    steps: int = 0
    wall_seconds: float = 0.0
    violations: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    """How many seeds came to a verdict on each disk."""
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    """In how many of them each invariant was checked on something that could break it, as (invariant, disk)."""
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many of them broke each invariant on each disk, as (invariant, disk)."""
    signatures: Counter[str] = field(default_factory=Counter)
    """How often each promise was broken in which way: `Violation.signature` of what a run broke first."""
    failures: list[Failure] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    nondeterministic: list[str] = field(default_factory=list)
    _digest: Any = field(default_factory=lambda: blake2b(digest_size=16), repr=False)

    @property
    def digest(self) -> str:
        """Return the digest folded over the seeds, in order."""
        folded: str = self._digest.hexdigest()
        return folded

    def add(self, result: SeedResult) -> None:
        """Take the next seed's result."""
        self.seeds += 1
        self.crash_points += result.crashes
        self.messages += result.messages
        self.steps += result.steps
        self.wall_seconds += result.wall_seconds
        self.fired += result.fired
        self.marks += result.marks
        self._digest.update(result.digest.encode())
        place = f"{self.scenario.name} --seed {result.seed}"
        if result.outcome in ("held", "violated"):
            self.judged[result.disk] += 1
            self.tried.update((invariant, result.disk) for invariant in result.tried)
        if result.outcome == "violated":
            self.violations += 1
            if result.failure is not None:
                self._add_failure(result.failure, result.disk)
        elif result.outcome == "nondeterministic":
            self.nondeterministic.append(f"{place}: {result.error}")
        elif result.outcome == "harness-error":
            self.errors.append(f"{place}: {result.error}")

    def _add_failure(self, failure: Failure, disk: str) -> None:
        for invariant in dict.fromkeys(violation.invariant for violation in failure.violations):
            self.broken[invariant, disk] += 1
        signature = failure.violations[0].signature
        if len(self.failures) < FAILURES_KEPT_MAX or not self.signatures[signature]:
            self.failures.append(failure)
        self.signatures[signature] += 1


def run_batch(batch: Batch) -> list[SeedResult]:
    """Run a batch, under one guard: each run's own then costs nothing."""
    return list(results_of(batch))


def results_of(
    batch: Batch, *, cpu_seconds_max: float | None = None, in_detail: bool = False
) -> Iterator[SeedResult]:
    """Run a batch, seed by seed; options are those of `run_seed`."""
    with guard():
        for seed in batch.seeds:
            yield run_seed(
                batch.scenario,
                seed,
                mutant=batch.mutant,
                check_determinism=batch.check_determinism,
                cpu_seconds_max=cpu_seconds_max,
                in_detail=in_detail,
            )


def batches_of(
    scenarios: Sequence[Scenario],
    seeds: range | None,
    *,
    mutant: str | None = None,
    check_determinism: bool = False,
) -> Iterator[Batch]:
    """Yield batches, the scenarios taking turns: for the seeds given, or without end."""
    starts = count(0, BATCH_SEEDS) if seeds is None else range(seeds.start, seeds.stop, BATCH_SEEDS)
    for start in starts:
        size = BATCH_SEEDS if seeds is None else min(BATCH_SEEDS, seeds.stop - start)
        for scenario in scenarios:
            yield Batch(scenario, start, size, mutant, check_determinism)


def run_batches(
    batches: Iterable[Batch],
    *,
    jobs: int = 1,
    seconds: float | None = None,
    on_progress: Callable[[Tally, int], None] = lambda tally, seeds: None,
) -> dict[str, Tally]:
    """Run batches until there are none left or the time is up; return a tally for each scenario.

    Batches begun are finished. on_progress(tally, seeds): seeds more are in that tally.
    """
    tallies: dict[str, Tally] = {}
    deadline = None if seconds is None else perf_counter() + seconds
    for batch, results in _results(batches, jobs, deadline):
        tally = tallies.setdefault(batch.scenario.name, Tally(batch.scenario))
        for result in results:
            tally.add(result)
        on_progress(tally, len(results))
    return tallies


def _results(
    batches: Iterable[Batch], jobs: int, deadline: float | None
) -> Iterator[tuple[Batch, list[SeedResult]]]:
    """Yield every batch begun before the deadline with its results, in the order of the batches."""
    source = iter(batches)
    if jobs == 1:
        for batch in _until(source, deadline):
            yield batch, run_batch(batch)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        pending: dict[int, tuple[Batch, Future[list[SeedResult]]]] = {}
        numbered = enumerate(_until(source, deadline))
        next_out = 0
        while True:
            for number, batch in islice(numbered, 2 * jobs + 2 - len(pending)):
                pending[number] = (batch, _submit(pool, batch))
            if not pending:
                return
            wait([future for _, future in pending.values()], return_when=FIRST_COMPLETED)
            while next_out in pending and pending[next_out][1].done():
                batch, future = pending.pop(next_out)
                next_out += 1
                try:
                    yield batch, future.result()
                except BrokenProcessPool as error:
                    numbered = enumerate(
                        ()
                    )  # the pool is gone: what is pending is lost, and no more is begun
                    yield batch, [_lost(batch, seed, error) for seed in batch.seeds]


def _submit(pool: ProcessPoolExecutor, batch: Batch) -> Future[list[SeedResult]]:
    """Submit a batch; to a pool that is broken, as one that failed."""
    try:
        return pool.submit(run_batch, batch)
    except BrokenProcessPool as error:
        failed: Future[list[SeedResult]] = Future()
        failed.set_exception(error)
        return failed


def _lost(batch: Batch, seed: int, error: Exception) -> SeedResult:
    """Return the result of a seed whose worker was killed, or that waited for one."""
    return SeedResult(batch.scenario.name, seed, "harness-error", error=f"worker process died: {error}")


def _until(batches: Iterator[Batch], deadline: float | None) -> Iterator[Batch]:
    for batch in batches:
        if deadline is not None and perf_counter() >= deadline:
            return
        yield batch

"""Runner: runs many seeds of many scenarios and adds up the results.

The runner adds results in seed order, so the digest does not depend on the number of processes. `tornlog run --jobs N`
uses a process pool on one machine. Use Spark for larger campaigns.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain
from time import perf_counter
from typing import Any

from ...sim.guard import leak_guard
from ...sim.interruption import Interruption
from ..claims.ranges import Ranges
from ..claims.scenario import Scenario
from ..runs.outcome import RunCounts
from .failures.failure import Failure
from .pairs import Pair, pairs_in
from .seeds import SeedResult, run_seed
from .worker_pool import is_stop_wanted, run_in_processes

BATCH_SEEDS = 25
FAILURES_KEPT_MAX = 20
"""Maximum number of kept failures of a scenario, in addition to the first failure of each signature.

Further failures are only counted.
"""
_ORDINARY = Ranges()


@dataclass(frozen=True, slots=True)
class CampaignReach:
    """The completed part of a campaign."""

    asked: int = 0
    not_run: tuple[str, ...] = ()
    """The scenarios without any run, or the mutants with an unfinished mutation run."""
    interrupted: bool = False

    @classmethod
    def of_campaign(cls, asked: int, not_run: tuple[str, ...], interruption: Interruption) -> "CampaignReach":
        return cls(asked, not_run, interruption.is_requested) if not_run or interruption.is_requested else ALL


ALL = CampaignReach()


@dataclass(frozen=True, slots=True)
class Batch:
    """Seeds of one scenario for one job of a worker."""

    scenario: Scenario
    first: int
    count: int
    mutant: str | None = None
    check_determinism: bool = False

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(slots=True)
class Tally(RunCounts):
    """The summed results of one scenario."""

    scenario: Scenario
    seeds: int = 0
    wall_seconds: float = 0.0
    violations: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)
    """Number of runs in which each pair of features or faults occurred."""
    judged: Counter[str] = field(default_factory=Counter)
    """Number of judged runs by disk model."""
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of runs with data that could violate an invariant, by (invariant, disk)."""
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of runs that violated an invariant, by (invariant, disk)."""
    signatures: Counter[str] = field(default_factory=Counter)
    """Number of runs by signature of the first violation."""
    failures: list[Failure] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    nondeterministic: list[str] = field(default_factory=list)
    _digest: Any = field(default_factory=lambda: blake2b(digest_size=16), repr=False)
    _first_seed: int = 0
    _next_seed: int | None = None

    @property
    def digest(self) -> str:
        """The digest of all seeds up to the first seed that an interruption skipped."""
        folded: str = self._digest.hexdigest()
        return folded

    def has_seed(self, seed: int) -> bool:
        """Return whether the digest includes a seed."""
        return (
            self._first_seed is not None and self._next_seed is not None and self._first_seed <= seed < self._next_seed
        )

    def add(self, result: SeedResult, *, in_turn: bool = True) -> None:
        """Add a result. in_turn: whether its seed is the next seed; the digest includes no other seeds."""
        assert result.scenario == self.scenario.name, (result.scenario, self.scenario.name)
        self.seeds += 1
        self.add_counts(result)
        self.wall_seconds += result.wall_seconds
        self.injected += result.injected
        self.marks += result.marks
        self.pairs.update(pairs_in(result.features, result.injected))
        if in_turn and self._next_seed in (None, result.seed):
            self._first_seed = result.seed if self._next_seed is None else self._first_seed
            self._digest.update(result.digest.encode())
            self._next_seed = result.seed + 1
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
        assert self.violations <= self.seeds, (self.violations, self.seeds)

    def add_kept_failure(self, failure: Failure) -> None:
        """Add a failure of an earlier campaign that still reproduces. The digest does not include it."""
        disk = failure.smallest.record.setup.disk
        self.seeds += 1
        self.violations += 1
        self.judged[disk] += 1
        self._add_failure(failure, disk)

    def _add_failure(self, failure: Failure, disk: str) -> None:
        for invariant in dict.fromkeys(violation.invariant for violation in failure.violations):
            self.broken[invariant, disk] += 1
        signature = failure.violations[0].signature
        if len(self.failures) < FAILURES_KEPT_MAX or not self.signatures[signature]:
            self.failures.append(failure)
        self.signatures[signature] += 1


def run_batch(batch: Batch) -> list[SeedResult]:
    """Run a batch under one determinism guard, which is cheaper than one guard per run. A stopped worker returns
    early."""
    results = []
    for result in results_of(batch):
        results.append(result)
        if is_stop_wanted():
            break
    return results


def results_of(batch: Batch, *, stall_seconds: float | None = None, in_detail: bool = False) -> Iterator[SeedResult]:
    """Run a batch and yield its results. For the options see `run_seed`."""
    with leak_guard():
        for seed in batch.seeds:
            yield run_seed(
                batch.scenario,
                seed,
                mutant=batch.mutant,
                check_determinism=batch.check_determinism,
                stall_seconds=stall_seconds,
                in_detail=in_detail,
            )


def batches_of(
    scenarios: Sequence[Scenario],
    seeds: range | None,
    *,
    mutant: str | None = None,
    check_determinism: bool = False,
    first: int = 0,
) -> Iterator[Batch]:
    """Yield batches of seeds in rounds over all scenarios. If `seeds` is None, continue forever from `first`.

    The first rounds have batches of one or two seeds, so that a short campaign runs every scenario. Scenarios with rare
    ranges come first.
    """
    order = _sort_rarest_first(scenarios)
    start, stop = (first, None) if seeds is None else (seeds.start, seeds.stop)
    first, size = start, 1
    while stop is None or start < stop:
        assert 0 < size <= BATCH_SEEDS, size
        count = size if stop is None else min(size, stop - start)
        for scenario in order:
            yield Batch(scenario, start, count, mutant, check_determinism)
        start += count
        size = min(start - first, BATCH_SEEDS)


def _sort_rarest_first(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Sort scenarios, those with the rarest ranges first."""
    drawn = [_rare_ranges_of(scenario) for scenario in scenarios]
    shared = Counter(chain.from_iterable(drawn))
    rarity = [min((shared[one] for one in own), default=len(scenarios)) for own in drawn]
    return [scenarios[number] for number in sorted(range(len(scenarios)), key=rarity.__getitem__)]


def _rare_ranges_of(scenario: Scenario) -> set[tuple[str, object]]:
    """Return a scenario's non-default ranges. Each disk and ending is a separate range."""
    found: set[tuple[str, object]] = set()
    for path, options in scenario.ranges.chosen.items():
        if options != _ORDINARY[path]:
            named = all(isinstance(each, str) for each in options)
            found |= {(path, each) for each in options} if named else {(path, None)}
    return found


def run_batches(
    batches: Iterable[Batch],
    *,
    jobs: int = 1,
    seconds: float | None = None,
    on_progress: Callable[[Tally, int], None] = lambda tally, seeds: None,
    interruption: Interruption | None = None,
    tallies: dict[str, Tally] | None = None,
) -> dict[str, Tally]:
    """Run all batches within a time limit. Return a tally for each scenario.

    Only an interruption ends a running batch early. on_progress: called with a tally and the number of seeds just added
    to it. tallies: earlier tallies to which the results are added.
    """
    tallies = {} if tallies is None else tallies
    deadline = None if seconds is None else perf_counter() + seconds
    for batch, results in _results_before_deadline(batches, jobs, deadline, interruption or Interruption()):
        tally = tallies.setdefault(batch.scenario.name, Tally(batch.scenario))
        for result in results:
            tally.add(result)
        on_progress(tally, len(results))
    return tallies


def _results_before_deadline(
    batches: Iterable[Batch], jobs: int, deadline: float | None, interruption: Interruption
) -> Iterator[tuple[Batch, list[SeedResult]]]:
    source = _started_before(iter(batches), deadline)
    if jobs > 1:
        for batch, found in run_in_processes(run_batch, source, jobs, interruption):
            if isinstance(found, BrokenProcessPool):
                found = [_lost_result(batch, seed, found) for seed in batch.seeds]
            yield batch, found
        return
    for batch in source:
        left, results = results_of(batch), []
        while (result := interruption.result_unless_requested(partial(next, left, None))) is not None:
            results.append(result)
        if results:
            yield batch, results
        if interruption.is_requested:
            return


def _lost_result(batch: Batch, seed: int, error: Exception) -> SeedResult:
    return SeedResult(batch.scenario.name, seed, "harness-error", error=f"worker process died: {error}")


def _started_before(batches: Iterator[Batch], deadline: float | None) -> Iterator[Batch]:
    for batch in batches:
        if deadline is not None and perf_counter() >= deadline:
            return
        yield batch


def verdict_of(tallies: Sequence[Tally], reach: CampaignReach = ALL) -> str:
    counts = (
        (sum(tally.violations for tally in tallies), "broken"),
        (sum(len(tally.nondeterministic) for tally in tallies), "not deterministic"),
        (sum(len(tally.errors) for tally in tallies), "lost to errors of the harness"),
    )
    words = [f"{count:,} {what}" for count, what in counts if count]
    if not words:
        words.append("every promise held" if reach == ALL else "no promise broken")
    return ", ".join([*incomplete_verdict_words(reach, "scenario"), *words])


def incomplete_verdict_words(reach: CampaignReach, what: str) -> list[str]:
    """Return the first words of the verdict on an incomplete campaign."""
    words = ["interrupted"] if reach.interrupted else []
    return [*words, f"{len(reach.not_run)} of {reach.asked} {what}s not run"] if reach.not_run else words

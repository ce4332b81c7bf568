"""Mutation runs: measure the CPU time until a scenario finds a bug.

A run finds the bug if the run fails with the bug and passes without it. Each round runs one seed of each scenario,
until one run finds the bug. Scenarios with brokers, except swarms, run in every second round only, because their runs
cost four times as much. Under a limit of CPU time, a scenario runs less often if few of its runs execute the mutated
code, and with a file of measured runs, `seed_choice` chooses the first runs. This uses no knowledge of the bug, only of
the place that changed. Cost is counted in core-seconds: CPU time of the runs with the bug. Ranges narrowed to a known
bug do not measure how fast unknown bugs are found.

The order of scenarios does not matter: the median cost was 2.9 to 4.2 core-seconds in seven orders (70 mutants, three
seeds of each scenario, 2026-11-29).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from inspect import getattr_static
from itertools import chain, count
from math import ceil
from pathlib import Path
from sys import modules
from time import perf_counter, process_time
from typing import Any

from ...sim.guard import leak_guard
from ...sim.interruption import Interruption
from ...sim.process import STALL_SECONDS
from ..claims.catalogue import SCENARIOS, SWARM
from ..claims.scenario import Scenario
from ..mutants.activity import functions_in, functions_using
from ..mutants.known import mutant_named
from ..mutants.mutant import Mutant
from .failures.failure import Failure
from .failures.shrink import shrink_failure
from .seed_choice import CodePlace, measured_runs
from .seeds import SeedResult, run_seed
from .worker_pool import run_jobs

SIZES_SHOWN = ("messages", "preemptions", "sectors")
_SHARES = {"median": 0.5, "95 %": 0.95, "maximum": 1.0}
"""The reported percentiles of the cost per mutant (nearest-rank method)."""
_ROUNDS_PER_TURN = 2
"""A scenario with expensive runs runs once in this number of rounds, other scenarios in each round."""
_WAIT_ROUNDS_MAX = 128
"""The longest wait of a scenario after runs without the mutated code; a later seed may execute it."""
_COMPARED_MAX = 40
"""If a mutant does not report differences, this number of seeds is also run without the mutant."""


@dataclass(frozen=True, slots=True)
class MutationLimits:
    """Limits after which a mutation run ends without a find."""

    seeds: int | None = None
    """Seeds of each scenario; None: no limit."""
    core_seconds: float | None = None
    """CPU time of all runs with the mutant; None: no limit."""

    def __post_init__(self) -> None:
        assert self.seeds is not None or self.core_seconds is not None, "a mutation run has an end"


@dataclass(frozen=True, slots=True)
class MutationSettings:
    """The scenarios and limits of a mutation run."""

    limits: MutationLimits
    scenarios: tuple[Scenario, ...] | None = tuple(one for one in SCENARIOS.values() if not one.missing)
    """Scenarios to run. None: one scenario with ranges narrowed to the mutant's needs."""
    all_scenarios: bool = False
    """Whether to continue until every scenario has found the mutant."""
    shrink_seconds: float | None = None
    """The time limit for shrinking the failure; None: no shrinking."""
    measured: Path | None = None
    """File of the runs from which the first seeds are chosen; None: the seeds are 0, 1, …"""


@dataclass(frozen=True, slots=True)
class MutantFind:
    """The run in which a scenario found a mutant."""

    scenario: str
    seed: int
    invariant: str
    """The first violated invariant."""
    seeds: int
    """Number of runs of all scenarios up to this run."""
    core_seconds: float


@dataclass(frozen=True, slots=True)
class MutantResult:
    """The result of one mutant."""

    id: str
    finds: tuple[MutantFind, ...]
    """The first find of each scenario, in the order of the runs."""
    seeds: int
    """Number of runs up to the first find, or of all runs."""
    core_seconds: float
    reached: int | None
    """Number of runs that executed the mutated code; None: the mutant changes a constant."""
    bit: int | None
    """Number of runs in which the mutant reported a different action; None: the mutant does not report."""
    differing: tuple[int, int] | None = None
    """Two counts: seeds with another digest without the mutant, and compared seeds.

    None if the mutant was found or reports differences.
    """
    is_expected: bool = True
    """Whether the mutant was expected to violate the first violated invariant."""
    clean_violation: str = ""
    """A violation on a seed that fails even without the mutant."""
    error: str = ""
    failure: Failure | None = None
    shrunk: dict[str, Any] | None = None

    @property
    def found(self) -> bool:
        return bool(self.finds)

    @property
    def invariant(self) -> str:
        return self.finds[0].invariant if self.finds else ""

    @property
    def scenario(self) -> str:
        return self.finds[0].scenario if self.finds else ""

    @property
    def missed_because(self) -> str:
        """Explain why the mutant may not have been found. If the mutant changed no run, the checks are not the
        reason."""
        if self.reached == 0:
            return "never reached"
        ran = "" if self.reached is None else f"reached in {_seeds_text(self.reached)}, "
        if self.bit is not None:
            return f"{ran}bit in {_seeds_text(self.bit)}, not seen" if self.bit else f"{ran}never bit"
        if self.differing is None:
            return f"{ran}not seen"
        differing, compared = self.differing
        return (
            f"{ran}ran otherwise in {differing} of {_seeds_text(compared)} compared{', not seen' if differing else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "found": self.found,
            "scenario": self.scenario,
            "invariant": self.invariant,
            "expected": self.is_expected,
            "seeds": self.seeds,
            "core_seconds": round(self.core_seconds, 3),
            "reached": self.reached,
            "bit": self.bit,
            "differing": None if self.differing is None else dict(zip(("seeds", "of"), self.differing, strict=True)),
            "missed_because": "" if self.found else self.missed_because,
            "finds": [{**asdict(one), "core_seconds": round(one.core_seconds, 3)} for one in self.finds],
            "shrunk": self.shrunk,
            "clean_violation": self.clean_violation,
            "error": self.error,
        }


def _seeds_text(number: int) -> str:
    return f"{number:,} seed{'' if number == 1 else 's'}"


def core_seconds_texts(results: Sequence[MutantResult]) -> dict[str, str]:
    """Return median, 95th percentile and maximum of the core-seconds until a mutant is found.

    Unfound mutants count as slowest. A percentile at an unfound mutant has the form "over N", where N is the longest
    mutation run.
    """
    found = sorted(result.core_seconds for result in results if result.found)
    longest = max((result.core_seconds for result in results), default=0.0)
    texts = {}
    for name, share in _SHARES.items():
        rank = max(1, ceil(share * len(results)))
        texts[name] = f"{found[rank - 1]:.1f}" if rank <= len(found) else f"over {longest:.1f}"
    return texts


def _has_expensive_runs(scenario: Scenario) -> bool:
    return scenario.ranges.has_brokers and scenario.name not in SWARM


def narrowed_scenario(mutant: Mutant) -> Scenario:
    return Scenario(f"hunt-{mutant.id}", "every promise of the store, at once", mutant.needs)


def run_mutant(mutant: Mutant, settings: MutationSettings) -> MutantResult:
    """Run seeds with a mutant until a run finds the mutant. A harness error is returned as a result.

    A failing seed is run again without the mutant. The seed is a find if the second run passes.
    """
    search = _MutantSearch(mutant, settings)
    with leak_guard():
        search.run()
        result = search.result()
    if settings.shrink_seconds is None or result.failure is None:
        return result
    return _with_shrunk_find(result, result.failure, settings.shrink_seconds)


class _MutantSearch:
    def __init__(self, mutant: Mutant, settings: MutationSettings) -> None:
        self._mutant = mutant
        self._limits = settings.limits
        self._all_scenarios = settings.all_scenarios
        self._scenarios = settings.scenarios or (narrowed_scenario(mutant),)
        self._finds: list[MutantFind] = []
        self._first: Failure | None = None
        self._clean_violation = self._error = ""
        self._seeds, self._core_seconds = 0, 0.0
        self._reached = self._bit = 0
        self._measured = None if settings.measured is None else measured_runs(settings.measured)
        self._places = _places_of(mutant)
        self._runs, self._runs_reaching = Counter[str](), Counter[str]()
        """By scenario: its runs, and those that executed the mutated code. Of chosen runs, the measurement counts."""
        self._digests: list[tuple[Scenario, int, str]] = []
        """Seeds to compare with a run without the mutant."""

    def run(self) -> None:
        finders: set[str] = set()
        for scenario, seed in chain(self._chosen_seeds(), self._seeds_in_rounds()):
            if scenario.name in finders:
                continue
            self._add_result(scenario, self._run_seed(scenario, seed))
            finders = {find.scenario for find in self._finds}
            limit = self._limits.core_seconds
            is_over = limit is not None and self._core_seconds >= limit
            is_found = len(finders) == (len(self._scenarios) if self._all_scenarios else 1)
            if is_over or is_found or self._error:
                return

    def _chosen_seeds(self) -> Iterator[tuple[Scenario, int]]:
        """Yield the measured runs that execute the mutated code."""
        if self._measured is None or self._limits.seeds is not None:
            return
        scenarios = {one.name: one for one in self._scenarios}
        for run in self._measured.runs_for(self._places):
            if run.scenario in scenarios:
                yield scenarios[run.scenario], run.seed
        for counts, measured in zip(
            (self._runs_reaching, self._runs), self._measured.counts_for(self._places), strict=True
        ):
            counts.clear()
            counts.update(measured)

    def _seeds_in_rounds(self) -> Iterator[tuple[Scenario, int]]:
        """Yield scenarios with their next seeds. Expensive scenarios run in every _ROUNDS_PER_TURN-th round.

        Measured seeds are left out. Without a limit of seeds, a scenario waits longer if few of its runs executed the
        mutated code.
        """
        limit = self._limits.seeds
        due = {one.name: _ROUNDS_PER_TURN if _has_expensive_runs(one) else 1 for one in self._scenarios}
        for number in count(1):
            for scenario in self._scenarios:
                name = scenario.name
                if due[name] == number and self._runs[name] != limit:
                    self._runs[name] += 1
                    yield scenario, self._runs[name] - 1
                    wait = 1 if limit is not None else self._turns_until_next(name)
                    due[name] = number + wait * (_ROUNDS_PER_TURN if _has_expensive_runs(scenario) else 1)
            if all(self._runs[name] == limit for name in due):
                return

    def _turns_until_next(self, name: str) -> int:
        """Return 1 for the scenario with the largest share of runs that executed the mutated code.

        For a share of half as many it returns 2, and so on. For a scenario without such runs it doubles with each run.
        """
        if not self._mutant.has_reach:
            return 1
        reaching, runs = self._runs_reaching[name], self._runs[name]
        assert reaching <= runs, (name, reaching, runs)
        if not reaching:
            return min(_WAIT_ROUNDS_MAX, 1 << runs)
        largest = max(Fraction(count, self._runs[other]) for other, count in self._runs_reaching.items())
        return min(_WAIT_ROUNDS_MAX, ceil(largest * runs / reaching))

    def _run_seed(self, scenario: Scenario, seed: int) -> SeedResult:
        began = process_time()
        result = run_seed(scenario, seed, mutant=self._mutant.id, stall_seconds=STALL_SECONDS)
        self._core_seconds += process_time() - began
        self._seeds += 1
        return result

    def _add_result(self, scenario: Scenario, result: SeedResult) -> None:
        self._runs_reaching[scenario.name] += result.reached > 0
        if not self._finds:
            self._reached += result.reached > 0
            self._bit += result.bit > 0
            assert max(self._reached, self._bit) <= self._seeds, (self._reached, self._bit, self._seeds)
        if result.error:
            self._error = f"{scenario.name}, seed {result.seed}: {result.error}"
        elif result.failure is not None:
            self._add_find(scenario, result.seed, result.failure)
        elif len(self._digests) < _COMPARED_MAX and (result.reached or not self._mutant.has_reach):
            self._digests.append((scenario, result.seed, result.digest))

    def _add_find(self, scenario: Scenario, seed: int, failure: Failure) -> None:
        clean = run_seed(scenario, seed, stall_seconds=STALL_SECONDS)
        if clean.outcome != "held":  # both runs failed, so this seed is no find
            found = str(clean.failure.violations[0]) if clean.failure else clean.error
            self._clean_violation = self._clean_violation or f"{scenario.name} --seed {seed}: {found}"
            return
        assert scenario.name not in {find.scenario for find in self._finds}, scenario.name
        self._first = self._first or failure
        invariant = failure.violations[0].invariant
        self._finds.append(MutantFind(scenario.name, seed, invariant, self._seeds, self._core_seconds))

    def result(self) -> MutantResult:
        mutant, first = self._mutant, self._finds[0] if self._finds else None
        reports = mutant.reports_bites or self._bit > 0
        return MutantResult(
            mutant.id,
            tuple(self._finds),
            self._seeds if first is None else first.seeds,
            self._core_seconds if first is None else first.core_seconds,
            self._reached if mutant.has_reach else None,
            self._bit if reports else None,
            None if reports or first is not None or self._error else self._count_differing_seeds(),
            first is None or first.invariant in mutant.found_by,
            self._clean_violation,
            self._error,
            self._first,
        )

    def _count_differing_seeds(self) -> tuple[int, int]:
        """Return two counts: seeds with another digest without the mutant, and compared seeds."""
        clean = [run_seed(scenario, seed, stall_seconds=STALL_SECONDS) for scenario, seed, _ in self._digests]
        pairs = zip(clean, self._digests, strict=True)
        return sum(result.digest != digest for result, (_, _, digest) in pairs), len(clean)


def _with_shrunk_find(mutant_result: MutantResult, failure: Failure, seconds_max: float) -> MutantResult:
    began = perf_counter()
    small = shrink_failure(failure, stop=lambda: perf_counter() - began > seconds_max, stall_seconds=STALL_SECONDS)
    size, seconds = small.failure.smallest.size, round(perf_counter() - began, 3)
    return replace(
        mutant_result, failure=small.failure, shrunk={**asdict(size), "tries": small.tries, "seconds": seconds}
    )


def _places_of(mutant: Mutant) -> set[CodePlace]:
    """Return the functions that a mutant replaces; of a constant or an imported function, the users in the same module.
    Without users: the constant's class or module."""
    places = set[CodePlace]()
    for patch in mutant.patches:
        owner, functions = patch.owner, functions_in(getattr_static(patch.owner, patch.name))
        if isinstance(owner, type):
            known = owner.__module__, owner.__qualname__
        else:
            known = owner.__name__, ""
        if not functions or functions[0].__module__ != known[0]:
            functions = functions_using(modules[known[0]], patch.name)
        places.update(CodePlace(one.__module__, one.__qualname__) for one in functions)
        places.update([] if functions else [CodePlace(*known)])
    return places


def run_mutants(
    names: Sequence[str], settings: MutationSettings, *, jobs: int = 1, interruption: Interruption | None = None
) -> Iterator[MutantResult]:
    """Run the mutants in a process pool, and return the results in the order of `names`.

    After an interruption, unfinished mutants have no result.
    """
    run_one = partial(_run_named_mutant, settings=settings)
    return (found for _, found in run_jobs(run_one, names, jobs, interruption or Interruption()))


def _run_named_mutant(name: str, settings: MutationSettings) -> MutantResult:
    return run_mutant(mutant_named(name), settings)

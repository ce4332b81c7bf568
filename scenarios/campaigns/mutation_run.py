"""Mutation runs: how many seeds it takes to see a bug, while the store without it stays silent on them."""

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from ...sim.process import CPU_SECONDS_MAX
from ..claims.scenario import Scenario
from ..mutants.known import mutant_named
from ..mutants.mutant import Mutant
from .failures.failure import Failure
from .failures.shrink import shrink_failure
from .interruption import Interruption, in_processes
from .seeds import SeedResult, run_seed

SIZES_SHOWN = ("messages", "preemptions", "sectors")
"""What is reported of the size of a shrunk failure."""


@dataclass(frozen=True, slots=True)
class MutantResult:
    """What came of running one mutant."""

    id: str
    found: bool
    invariant: str
    seeds: int
    """Seeds run until it was found, or all of them."""
    seconds: float
    clean_violation: str
    """What the unmutated store broke on the same seeds: nothing, or the find proves nothing."""
    failure: Failure | None = None
    """What found it."""
    shrunk: dict[str, Any] | None = None
    """The size of the smaller failure, and what that took; None if none was asked for."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON takes it."""
        return {
            "id": self.id,
            "found": self.found,
            "invariant": self.invariant,
            "seeds": self.seeds,
            "seconds": round(self.seconds, 3),
            "shrunk": self.shrunk,
            "clean_violation": self.clean_violation,
        }


def narrowed_scenario(mutant: Mutant) -> Scenario:
    """Return the scenario a mutant is run in: anything at all, within what the mutant needs."""
    return Scenario(f"hunt-{mutant.id}", "every promise of the store, at once", mutant.ranges)


def run_mutant(mutant: Mutant, seeds: int, *, shrink_seconds: float | None = None) -> MutantResult:
    """Run up to so many seeds with a mutant, and those same seeds without it if that finds it.

    With shrink_seconds, what found it is made smaller for so long at most.

    Raises RuntimeError for what is wrong with the harness.
    """
    ground = narrowed_scenario(mutant)
    began = perf_counter()
    invariant, used, failure = "", 0, None
    for result in _results(ground, seeds, mutant.id):
        used += 1
        if result.error:
            raise RuntimeError(f"{mutant.id}, seed {result.seed}: {result.error}")
        if result.failure is not None:
            failure = result.failure
            invariant = failure.violations[0].invariant
            break
    seconds = perf_counter() - began
    violation = ""
    if invariant:
        clean = _results(ground, used, None)
        broken = next((result for result in clean if result.outcome != "held"), None)
        if broken is not None:
            violation = broken.error or (str(broken.failure.violations[0]) if broken.failure else broken.outcome)
    mutant_result = MutantResult(mutant.id, bool(invariant), invariant, used, seconds, violation, failure)
    return (
        mutant_result if shrink_seconds is None or failure is None else _shrunk(mutant_result, failure, shrink_seconds)
    )


def _shrunk(mutant_result: MutantResult, failure: Failure, seconds_max: float) -> MutantResult:
    """Return the result with its failure made smaller."""
    began = perf_counter()
    small = shrink_failure(failure, stop=lambda: perf_counter() - began > seconds_max, cpu_seconds_max=CPU_SECONDS_MAX)
    size, seconds = small.failure.smallest.size, round(perf_counter() - began, 3)
    return replace(
        mutant_result,
        failure=small.failure,
        shrunk={**asdict(size), "tries": small.tries, "seconds": seconds},
    )


def run_mutants(
    names: Sequence[str],
    seeds: int,
    *,
    jobs: int = 1,
    shrink_seconds: float | None = None,
    interruption: Interruption | None = None,
) -> Iterator[MutantResult]:
    """Run mutants, so many at a time in processes of their own; yield what comes of each in the order of names.

    An interruption leaves out those whose run has not ended.
    """
    run_one = partial(_run_named, seeds=seeds, shrink_seconds=shrink_seconds)
    interruption = interruption or Interruption()
    if jobs > 1:
        for _, found in in_processes(run_one, names, jobs, interruption):
            if isinstance(found, BrokenProcessPool):
                raise found
            yield found
        return
    for name in names:
        mutant_result = interruption.unless_wanted(partial(run_one, name))
        if mutant_result is None:
            return
        yield mutant_result


def _run_named(name: str, seeds: int, shrink_seconds: float | None) -> MutantResult:
    return run_mutant(mutant_named(name), seeds, shrink_seconds=shrink_seconds)


def _results(ground: Scenario, seeds: int, mutant: str | None) -> Iterator[SeedResult]:
    """Yield the results of the first seeds."""
    for seed in range(seeds):
        yield run_seed(ground, seed, mutant=mutant, cpu_seconds_max=CPU_SECONDS_MAX)

"""Hunting a mutant: how many seeds until some invariant sees it, while the unmutated store stays silent on them."""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from .mutants.mutant import Mutant
from .plan import Ranges
from .scenario import Scenario
from .seeds import run_seed


@dataclass(frozen=True, slots=True)
class Hunted:
    """What came of one hunt."""

    id: str
    found: bool
    invariant: str
    seeds: int
    """Seeds run until it was found, or all of them."""
    seconds: float
    clean_violation: str
    """What the unmutated store broke on the same seeds: nothing, or the hunt proves nothing."""

    def to_json(self) -> dict[str, Any]:
        """Return the hunt as JSON takes it. `shrunk` is null: failures are not shrunk yet."""
        return {
            "id": self.id,
            "found": self.found,
            "invariant": self.invariant,
            "seeds": self.seeds,
            "seconds": round(self.seconds, 3),
            "shrunk": None,
            "clean_violation": self.clean_violation,
        }


def hunting_ground(mutant: Mutant) -> Scenario:
    """Return the scenario a mutant is hunted in: anything at all, within what the mutant needs."""
    ranges = Ranges() if mutant.narrow is None else mutant.narrow(Ranges())
    return Scenario(f"hunt-{mutant.id}", "every promise of the store, at once", ranges)


def hunt(mutant: Mutant, seeds: int) -> Hunted:
    """Run up to so many seeds with a mutant, then those same seeds without. Raises what is wrong with the harness."""
    ground = hunting_ground(mutant)
    began = perf_counter()
    invariant, used = "", 0
    for seed in range(seeds):
        used += 1
        result = run_seed(ground, seed, mutant=mutant.id)
        if result.error:
            raise RuntimeError(f"{mutant.id}, seed {seed}: {result.error}")
        if result.failure is not None:
            invariant = result.failure.violations[0].invariant
            break
    seconds = perf_counter() - began
    clean = (run_seed(ground, seed) for seed in range(used))
    broken = next((result for result in clean if result.outcome != "held"), None)
    violation = ""
    if broken is not None:
        violation = broken.error or (str(broken.failure.violations[0]) if broken.failure else broken.outcome)
    return Hunted(mutant.id, bool(invariant), invariant, used, seconds, violation)

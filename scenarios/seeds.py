"""One seed of one scenario, from its number to a result that can travel between processes."""

import traceback
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter

from ..sim.choices import Choices
from ..sim.determinism import guarded, require_same_digest
from ..sim.errors import NondeterminismError
from .failure import Failure, tell_story
from .mutants import MUTANTS
from .plan import Plan, draw_plan
from .run import Outcome, Run
from .scenario import Scenario


@dataclass(slots=True)
class SeedResult:
    """What one seed gave."""

    scenario: str
    seed: int
    outcome: str
    """`held`, `violated`, `nondeterministic`, or `harness-error`."""
    digest: str = ""
    crashes: int = 0
    messages: int = 0
    steps: int = 0
    virtual_ns: int = 0
    wall_seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None
    error: str = ""
    """What went wrong in the harness."""


def run_seed(
    scenario: Scenario, seed: int, *, mutant: str | None = None, check_determinism: bool = False
) -> SeedResult:
    """Run one seed. Never raises for what a run does: a fault of the harness is a result too."""
    began = perf_counter()
    result = SeedResult(scenario.name, seed, "held")
    try:
        with MUTANTS[mutant].applied() if mutant is not None else nullcontext():
            _run(scenario, seed, mutant, result, check_determinism=check_determinism)
    except Exception:
        result.outcome = "harness-error"
        result.error = traceback.format_exc()
    result.wall_seconds = perf_counter() - began
    return result


def _run(
    scenario: Scenario, seed: int, mutant: str | None, result: SeedResult, *, check_determinism: bool
) -> None:
    choices, outcome = _execute(scenario, seed)
    result.digest = outcome.digest
    result.crashes = outcome.crashes
    result.messages = outcome.messages
    result.steps = outcome.steps
    result.virtual_ns = outcome.virtual_ns
    result.fired = outcome.fired
    if check_determinism:
        try:
            require_same_digest(outcome.digest, _execute(scenario, seed)[1].digest)
        except NondeterminismError as error:
            result.outcome = "nondeterministic"
            result.error = str(error)
            return
    if outcome.violations:
        result.outcome = "violated"
        result.failure = _failure(scenario, seed, mutant, choices, outcome)


def _execute(scenario: Scenario, seed: int) -> tuple[Choices, Outcome]:
    choices, plan = draw(scenario, seed)
    return choices, guarded(Run(plan, choices).execute)


def _failure(
    scenario: Scenario, seed: int, mutant: str | None, choices: Choices, outcome: Outcome
) -> Failure:
    failure = Failure(
        scenario.name,
        scenario.claim,
        seed,
        mutant,
        outcome.plan,
        choices.recorded(),
        outcome.schedule,
        outcome.digest,
        outcome.violations,
        [],
    )
    return replace(failure, story=tell_story(failure))


def draw(scenario: Scenario, seed: int) -> tuple[Choices, Plan]:
    """Return a seed's choices and the plan drawn from them."""
    choices = Choices(f"{scenario.name}/{seed}")
    return choices, draw_plan(choices.stream("plan"), scenario.ranges)

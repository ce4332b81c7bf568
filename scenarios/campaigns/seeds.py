"""Seeds: run one seed of a scenario and return a result that can be pickled."""

import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from ...faults.simulation.record import execute, record_of
from ...faults.simulation.simulation import Simulation
from ...sim.choices import Choices
from ...sim.determinism import require_same_digest
from ...sim.errors import NondeterminismError, ReplayDivergedError
from ...sim.policies import Policy
from ...sim.process import CpuLimitReached, collect_garbage_at_end, stall_limit
from ...sim.trace import Trace
from ..claims.plan import Plan
from ..claims.ranges import draw_plan
from ..claims.scenario import Scenario
from ..mutants.known import applied_mutant
from ..runs.outcome import RunCounts, RunOutcome
from ..runs.run_of import simulation_of
from .failures.failure import Failure
from .failures.replay import failing_run_of, run_plan
from .pairs import features_of


@dataclass(slots=True)
class SeedResult(RunCounts):
    """The result of one seed."""

    scenario: str
    seed: int
    outcome: str
    """`held`, `violated`, `nondeterministic`, or `harness-error`."""
    digest: str = ""
    disk: str = ""
    """The disk model of the plan, or empty if an error occurred before the plan was made."""
    virtual_ns: int = 0
    wall_seconds: float = 0.0
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    features: tuple[str, ...] = ()
    """Names in `pairs` of the enabled features."""
    tried: tuple[str, ...] = ()
    """Invariants that the run could have violated."""
    plan: Plan | None = None
    """Only detailed runs have a plan and latencies."""
    put_us: Counter[int] = field(default_factory=Counter)
    """Number of successful puts by latency in µs of virtual time."""
    failure: Failure | None = None
    error: str = ""
    reached: int = 0
    """Number of calls of the mutant's code."""
    bit: int = 0
    """Number of calls in which the mutant reported a different action."""


def run_seed(
    scenario: Scenario,
    seed: int,
    *,
    mutant: str | None = None,
    check_determinism: bool = False,
    stall_seconds: float | None = None,
    policy: Policy | None = None,
    in_detail: bool = False,
) -> SeedResult:
    """Run one seed. A harness error is returned as a result.

    stall_seconds: CPU time without a step after which the run counts as endless. `policy` replaces the seed's
    scheduling policy. A policy object has state and serves one run, so `policy` excludes check_determinism.
    """
    assert policy is None or not check_determinism, "a policy has a state, and serves one run"
    began = perf_counter()
    result = SeedResult(scenario.name, seed, "held")
    try:
        with collect_garbage_at_end(), applied_mutant(mutant) as activity, stall_limit(stall_seconds):
            simulation, outcome = _execute_seed(scenario, seed, policy=policy)
            result.reached, result.bit = activity.reached, activity.bit  # counts of this run, before a repetition
            _record_outcome(scenario, seed, mutant, result, simulation, outcome, check_determinism=check_determinism)
            if in_detail:
                result.plan, result.put_us = outcome.plan, outcome.put_us
    except (Exception, CpuLimitReached):
        result.outcome = "harness-error"
        result.error = traceback.format_exc()
    assert result.failure is None or result.outcome == "violated", result.outcome
    result.wall_seconds = perf_counter() - began
    return result


def _record_outcome(
    scenario: Scenario,
    seed: int,
    mutant: str | None,
    result: SeedResult,
    simulation: Simulation,
    outcome: RunOutcome,
    *,
    check_determinism: bool,
) -> None:
    """Copy a run's outcome into its result. Repeat the run after a failure or with check_determinism."""
    assert result.outcome == "held", result.outcome
    result.digest = outcome.digest
    result.disk = outcome.plan.disk
    result.add_counts(outcome)
    result.virtual_ns = outcome.virtual_ns
    result.injected = outcome.injected
    result.marks = outcome.marks
    result.features = features_of(outcome.plan)
    result.tried = outcome.tried
    if check_determinism:
        try:
            again = partial(digest_of, scenario, seed)
            require_same_digest(outcome.digest, again(None), again)
            record_of(run_plan, outcome.plan, simulation, outcome)  # repeats the run
        except (NondeterminismError, ReplayDivergedError) as error:
            result.outcome = "nondeterministic"
            result.error = str(error)
            return
    if outcome.violations:
        result.outcome = "violated"
        original = failing_run_of(outcome, simulation)
        result.failure = Failure(scenario.name, scenario.claim, seed, mutant, original)


def _execute_seed(
    scenario: Scenario, seed: int, trace: Trace | None = None, policy: Policy | None = None
) -> tuple[Simulation, RunOutcome]:
    choices, plan = draw_plan_of_seed(scenario, seed)
    simulation = simulation_of(plan, choices, policy, trace)
    return simulation, execute(run_plan, plan, simulation)


def digest_of(scenario: Scenario, seed: int, trace: Trace | None = None) -> str:
    return _execute_seed(scenario, seed, trace)[1].digest


def draw_plan_of_seed(scenario: Scenario, seed: int) -> tuple[Choices, Plan]:
    choices = Choices(f"{scenario.seed_stream}/{seed}")
    return choices, draw_plan(choices.stream("plan"), scenario.ranges)

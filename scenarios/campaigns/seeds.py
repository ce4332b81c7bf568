"""A seed: one run of one scenario, from its number to a result that can travel between processes."""

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
from ...sim.process import NoEndInSight, cpu_limit, garbage_kept
from ...sim.trace import Trace
from ..claims.plan import Plan
from ..claims.ranges import draw_plan
from ..claims.scenario import Scenario
from ..mutants.known import applied_mutant
from ..runs.counts import RunCounts
from ..runs.outcome import RunOutcome
from ..runs.run_of import simulation_of
from .failures.failure import Failure
from .failures.replay import failing_run_of, run_plan
from .pairs import features_of


@dataclass(slots=True)
class SeedResult(RunCounts):
    """What one seed gave."""

    scenario: str
    seed: int
    outcome: str
    """`held`, `violated`, `nondeterministic`, or `harness-error`."""
    digest: str = ""
    disk: str = ""
    """The disk that it drew; empty if it did not get as far as that."""
    virtual_ns: int = 0
    wall_seconds: float = 0.0
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    features: tuple[str, ...] = ()
    """What its plan switched on, names in `pairs`."""
    tried: tuple[str, ...] = ()
    """The invariants that were checked on something that could have broken them."""
    plan: Plan | None = None
    """What the seed drew; for runs in detail only, as are latencies."""
    put_us: Counter[int] = field(default_factory=Counter)
    """How many puts that were answered OK took so many microseconds of virtual time."""
    failure: Failure | None = None
    error: str = ""
    """What went wrong in the harness."""
    reached: int = 0
    """How often the mutant's code ran; 0 without one."""
    bit: int = 0
    """How often the mutant reported that it did otherwise than the store."""


def run_seed(
    scenario: Scenario,
    seed: int,
    *,
    mutant: str | None = None,
    check_determinism: bool = False,
    cpu_seconds_max: float | None = None,
    policy: Policy | None = None,
    in_detail: bool = False,
) -> SeedResult:
    """Run one seed. Never raises for what a run does: a fault of the harness is a result too.

    With cpu_seconds_max, a run that takes more is taken for one without an end. policy replaces the drawn one, for a
    single run: with it, determinism cannot be checked.
    """
    assert policy is None or not check_determinism, "a policy has a state, and serves one run"
    began = perf_counter()
    result = SeedResult(scenario.name, seed, "held")
    try:
        with garbage_kept(), applied_mutant(mutant) as activity, cpu_limit(cpu_seconds_max):
            simulation, outcome = _execute(scenario, seed, policy=policy)
            result.reached, result.bit = activity.reached, activity.bit  # in this run, whatever is run again of it
            _judge(scenario, seed, mutant, result, simulation, outcome, check_determinism=check_determinism)
            if in_detail:
                result.plan, result.put_us = outcome.plan, outcome.put_us
    except (Exception, NoEndInSight):
        result.outcome = "harness-error"
        result.error = traceback.format_exc()
    result.wall_seconds = perf_counter() - began
    return result


def _judge(
    scenario: Scenario,
    seed: int,
    mutant: str | None,
    result: SeedResult,
    simulation: Simulation,
    outcome: RunOutcome,
    *,
    check_determinism: bool,
) -> None:
    """Take what a run came to into its result; run it again to see whether it is the same, or for a record of it."""
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
            record_of(run_plan, outcome.plan, simulation, outcome)  # as of a failure, which is to replay
        except (NondeterminismError, ReplayDivergedError) as error:
            result.outcome = "nondeterministic"
            result.error = str(error)
            return
    if outcome.violations:
        result.outcome = "violated"
        original = failing_run_of(outcome, simulation)
        result.failure = Failure(scenario.name, scenario.claim, seed, mutant, original)


def _execute(
    scenario: Scenario, seed: int, trace: Trace | None = None, policy: Policy | None = None
) -> tuple[Simulation, RunOutcome]:
    choices, plan = draw(scenario, seed)
    simulation = simulation_of(plan, choices, policy, trace)
    return simulation, execute(run_plan, plan, simulation)


def digest_of(scenario: Scenario, seed: int, trace: Trace | None = None) -> str:
    """Run one seed under the guard, with a trace if there is one to fill; return its digest."""
    return _execute(scenario, seed, trace)[1].digest


def draw(scenario: Scenario, seed: int) -> tuple[Choices, Plan]:
    """Return a seed's choices and the plan drawn from them."""
    choices = Choices(f"{scenario.seed_stream}/{seed}")
    return choices, draw_plan(choices.stream("plan"), scenario.ranges)

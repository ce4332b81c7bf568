"""Schedule search: runs one plan with every schedule within a bound.

The seed determines all other choices. Each user and each disk has its own random stream, so a schedule that swaps two
operations on one disk also swaps their random numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ...faults.simulation.record import execute
from ...faults.simulation.simulation import Simulation
from ...sim.interruption import Interruption
from ...sim.policies import Policy
from ...sim.search import explore_schedules
from ..claims.scenario import Scenario
from ..mutants.known import applied_mutant
from ..runs.outcome import RunOutcome
from ..runs.run_of import simulation_of
from .failures.failure import Failure
from .failures.replay import failing_run_of, run_plan
from .seeds import draw_plan_of_seed


@dataclass(slots=True)
class SearchResult:
    """The result of a schedule search."""

    scenario: str
    seed: int
    summary: str = ""
    """Number and kind of the tried schedules, and whether the search is complete."""
    schedules: int = 0
    schedules_by_cost: list[int] = field(default_factory=list)
    """Number of tried schedules with 0, 1, 2, … preemptions or delays."""
    is_complete: bool = False
    violated: int = 0
    first_violated: int | None = None
    """Number of tried schedules up to the first violation."""
    first_schedule: str | None = None
    """The first schedule with a violation, in the notation of sim.search."""
    last_schedule: str | None = None
    """The last tried schedule. Pass it as `after` to continue an incomplete search."""
    failure: Failure | None = None


def search_schedules(
    scenario: Scenario,
    seed: int,
    bound: int,
    kind: str = "delays",
    limit: int | None = None,
    *,
    mutant: str | None = None,
    after: str | None = None,
    stop_at_first: bool = False,
    on_progress: Callable[[SearchResult], None] = lambda result: None,
    interruption: Interruption | None = None,
) -> SearchResult:
    """Run a seed's plan with every schedule within a bound, and judge each run.

    bound, kind, limit, after: see sim.search.explore_schedules. stop_at_first: end at the first violation. on_progress:
    called after each schedule. Harness errors are raised.
    """

    def run(policy: Policy) -> tuple[Simulation, RunOutcome]:
        choices, plan = draw_plan_of_seed(scenario, seed)
        simulation = simulation_of(plan, choices, policy)
        return simulation, execute(run_plan, plan, simulation)

    search = explore_schedules(run, bound, kind, limit, after)
    result = SearchResult(scenario.name, seed)
    with applied_mutant(mutant):
        schedules, interruption = iter(search), interruption or Interruption()
        while (explored := interruption.result_unless_requested(partial(next, schedules, None))) is not None:
            simulation, outcome = explored.result
            result.schedules += 1
            result.last_schedule = explored.schedule
            if outcome.violations:
                result.violated += 1
                if result.failure is None:
                    result.first_violated, result.first_schedule = result.schedules, explored.schedule
                    original = failing_run_of(outcome, simulation)
                    result.failure = Failure(scenario.name, scenario.claim, seed, mutant, original)
            on_progress(result)
            if result.failure is not None and stop_at_first:
                break
    assert (result.failure is None) == (result.violated == 0), (result.violated, result.schedules)
    assert result.violated <= result.schedules, (result.violated, result.schedules)
    result.summary = str(search)
    result.schedules_by_cost = search.by_cost
    result.is_complete = search.is_complete
    return result

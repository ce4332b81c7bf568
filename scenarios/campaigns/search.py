"""Schedule search: one plan under every schedule within a bound, where seeds would leave that to chance.

Everything but the schedule is as the seed drew it. Streams belong to users and disks, not to moments: a schedule that
lets two operations on one disk change places also has them change their draws.
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
from .seeds import draw


@dataclass(slots=True)
class SearchResult:
    """What a search of schedules gave."""

    scenario: str
    seed: int
    summary: str = ""
    """For a reader: how many schedules of which kind were run, and whether these are all there are."""
    schedules: int = 0
    schedules_by_cost: list[int] = field(default_factory=list)
    """How many of them have 0, 1, 2, … preemptions, or delays."""
    is_complete: bool = False
    violated: int = 0
    """Schedules under which some promise was broken."""
    first_violated: int | None = None
    """How many schedules had been run when the first of these came, itself included."""
    first_schedule: str | None = None
    """That schedule, as sim.search names it."""
    last_schedule: str | None = None
    """Where to go on `after`, if the search is not complete."""
    failure: Failure | None = None
    """What is left of the first of these."""


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
    """Run the plan that a seed draws under every schedule within a bound, and judge each.

    bound, kind, limit, after: as for sim.search.explore_schedules. stop_at_first: end with the first broken promise;
    the search is then not complete. on_progress is called after each schedule. An interruption leaves out the schedules
    that are not judged yet. Raises what is wrong with the harness itself.
    """

    def run(policy: Policy) -> tuple[Simulation, RunOutcome]:
        choices, plan = draw(scenario, seed)
        simulation = simulation_of(plan, choices, policy)
        return simulation, execute(run_plan, plan, simulation)

    search = explore_schedules(run, bound, kind, limit, after)
    result = SearchResult(scenario.name, seed)
    with applied_mutant(mutant):
        schedules, interruption = iter(search), interruption or Interruption()
        while (explored := interruption.unless_wanted(partial(next, schedules, None))) is not None:
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
    result.summary = str(search)
    result.schedules_by_cost = search.by_cost
    result.is_complete = search.is_complete
    return result

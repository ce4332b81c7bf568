"""The command: runs seeds of scenarios, and prints the conditions with an outcome that few seeds reach."""

from collections import Counter
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from .counting import CONDITIONS, REACHED, Condition, count_conditions, reached_outcomes

count_conditions("tornlog.store")  # also in worker processes; so the functions below import the package

Outcomes = Counter[tuple[Condition, str]]
"""Number of seeds that reached an outcome of a condition. Outcomes that none reached have a 0."""


def print_conditions(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios to run. Default: all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each scenario.")] = 20,
    first_seed: Annotated[int, typer.Option(min=0)] = 0,
    at_most: Annotated[int, typer.Option(min=0, help="Print outcomes that at most this many seeds reach.")] = 0,
    module: Annotated[str, typer.Option(help="Print conditions of modules whose names contain this text.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
) -> None:
    """Print conditions with an outcome that few seeds reach. Conditions that no seed evaluates are left out."""
    from tornlog.scenarios.campaigns.worker_pool import run_jobs
    from tornlog.scenarios.claims.catalogue import SCENARIOS
    from tornlog.sim.interruption import Interruption

    names, found = scenarios or list(SCENARIOS), Outcomes()
    runs = run_jobs(partial(count_outcomes, range(first_seed, first_seed + seeds)), names, jobs, Interruption())
    for _, reached in track(runs, "runs", len(names), console=Console(stderr=True)):
        found.update(reached)  # `+` would drop outcomes that were not reached
    conditions = sorted({one for one, _ in found if module in one.module})
    for condition in conditions:
        if line := rare_outcomes_line(condition, found, at_most):
            print(line)
    outcomes = [(one, outcome) for one in conditions for outcome in one.outcomes]
    rare = sum(found[one] <= at_most for one in outcomes)
    print(f"{rare} of {len(outcomes)} outcomes reached by at most {at_most} of {seeds * len(names)} seeds")


def count_outcomes(seeds: range, scenario: str) -> Outcomes:
    """Run seeds of a scenario, and count for each outcome the seeds that reached it."""
    from tornlog.scenarios.campaigns.seeds import run_seed
    from tornlog.scenarios.claims.catalogue import SCENARIOS

    found = Outcomes()
    for seed in seeds:
        REACHED.clear()
        result = run_seed(SCENARIOS[scenario], seed)
        assert result.outcome == "held", (scenario, seed, result.error or result.failure)
        found.update(reached_outcomes())
    found.update({(one, outcome): 0 for one in CONDITIONS for outcome in one.outcomes})
    return found


def rare_outcomes_line(condition: Condition, found: Outcomes, at_most: int) -> str:
    """Describe a condition with an outcome that at most `at_most` seeds reached. Empty: no such outcome, or no seed
    evaluated the condition."""
    counts = {outcome: found[condition, outcome] for outcome in condition.outcomes}
    if min(counts.values()) > at_most or (len(counts) > 1 and not any(counts.values())):
        return ""
    texts = ", ".join(f"{outcome} {count}" for outcome, count in counts.items())
    return f"{condition.module}:{condition.line} {condition.function} | {condition.text} | {texts}"

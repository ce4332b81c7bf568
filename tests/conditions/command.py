"""The command: runs seeds of scenarios, and prints the conditions with an outcome that few seeds reach."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from .counted_runs import CountedRun, CountedRuns, merged, write_measured_runs
from .counting import CONDITIONS, REACHED, UNPRINTED, Condition, Outcome, count_conditions, outcome_of

count_conditions("tornlog.store")  # also in worker processes; so the functions below import the package


def print_conditions(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios to run. Default: all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each scenario.")] = 20,
    at_most: Annotated[int, typer.Option(min=0, help="Print outcomes that at most this many seeds reach.")] = 0,
    module: Annotated[str, typer.Option(help="Print conditions of modules whose names contain this text.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the runs to FILE, for `tornlog mutants --measured`.")] = None,
) -> None:
    """Print conditions with an outcome that few seeds reach. Conditions that no seed evaluates are left out."""
    from tornlog.scenarios.campaigns.worker_pool import run_jobs
    from tornlog.scenarios.claims.catalogue import SCENARIOS
    from tornlog.sim.interruption import Interruption

    names = scenarios or list(SCENARIOS)
    runs = run_jobs(partial(count_outcomes, seeds), names, jobs, Interruption())
    counted = merged([part for _, part in track(runs, "runs", len(names), console=Console(stderr=True))])
    if out is not None:
        write_measured_runs(counted, out)
    found = Counter(counted.outcomes[number] for run in counted.runs for number in run.reached)
    conditions = sorted({one for one, _ in counted.outcomes if module in one.module})
    for condition in conditions:
        if line := rare_outcomes_line(condition, found, at_most):
            print(line)
    outcomes = [(one, outcome) for one in conditions for outcome in one.outcomes if outcome not in UNPRINTED]
    rare = sum(found[one] <= at_most for one in outcomes)
    print(f"{rare} of {len(outcomes)} outcomes reached by at most {at_most} of {len(counted.runs)} seeds")


def count_outcomes(seeds: int, scenario: str) -> CountedRuns:
    """Run seeds of a scenario, and note the outcomes that each reaches."""
    from tornlog.scenarios.campaigns.seeds import run_seed
    from tornlog.scenarios.claims.catalogue import SCENARIOS

    runs = list[tuple[int, float, list[Outcome]]]()
    for seed in range(seeds):
        REACHED.clear()
        began = process_time()
        result = run_seed(SCENARIOS[scenario], seed)
        assert result.outcome == "held", (scenario, seed, result.error or result.failure)
        runs.append((seed, process_time() - began, [outcome_of(number) for number in REACHED]))
    outcomes = [(one, outcome) for one in CONDITIONS for outcome in one.outcomes]
    numbers = {outcome: number for number, outcome in enumerate(outcomes)}
    return CountedRuns(
        outcomes,
        [CountedRun(scenario, seed, cost, frozenset(map(numbers.__getitem__, found))) for seed, cost, found in runs],
    )


def rare_outcomes_line(condition: Condition, found: Mapping[Outcome, int], at_most: int) -> str:
    """Describe a condition with an outcome that at most `at_most` seeds reached. Empty: no such outcome, or no seed
    evaluated the condition."""
    printed = [outcome for outcome in condition.outcomes if outcome not in UNPRINTED]
    counts = {outcome: found.get((condition, outcome), 0) for outcome in printed}
    if min(counts.values(), default=at_most + 1) > at_most or (len(counts) > 1 and not any(counts.values())):
        return ""
    texts = ", ".join(f"{outcome} {count}" for outcome, count in counts.items())
    return f"{condition.module}:{condition.line} {condition.function} | {condition.text} | {texts}"

"""Tests of a tornlog scenario: run its seeds, then call the test with the results."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...faults.plan import enabled_kinds
from ...faults.simulation.failure_text import plain_text
from ...sim.guard import leak_guard
from ...sim.process import STALL_SECONDS
from ..campaigns.failures.failure import Failure
from ..campaigns.failures.failure_text import failure_text
from ..campaigns.failures.shrink import shrink_failure
from ..campaigns.runner import Tally
from ..campaigns.seeds import run_seed
from ..claims.catalogue import SCENARIOS
from ..claims.scenario import Scenario
from ..mutants.files import MutantFileError
from ..mutants.known import find_mutant
from .facts import SeedFacts
from .mark_arguments import MarkArguments, SeedBudget, WrongMark

SHRINK_TRIES = 300
"""The maximum number of runs while shrinking. A time limit would make the report depend on the machine's speed."""


def run_scenario(
    scenario: Scenario,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    wanted: MarkArguments,
    campaign: SeedBudget,
    facts: SeedFacts,
) -> str | None:
    """Run the scenario's seeds, then the test; return the text of the first failure."""
    tally = Tally(scenario)
    with leak_guard():  # saves the cost of one guard per run
        for seed in facts.seeds_of(campaign):
            result = run_seed(scenario, seed, mutant=wanted.mutant, in_detail=True)
            tally.add(result)
            facts.add(result.injected, result.crash_points)
            if result.plan is not None:
                facts.enable(enabled_kinds(result.plan.faults))
                facts.enable(enabled_kinds(result.plan.network))
            if tally.errors:
                return f"the harness failed: {tally.errors[0]}"
            if result.failure is not None:
                return _failure_text(result.failure, wanted, campaign, facts)
    function(**({**arguments, "tornlog_tally": tally} if "tornlog_tally" in arguments else arguments))
    return None


def scenario_of_mark(wanted: MarkArguments) -> Scenario:
    """Return the mark's scenario, restricted to the mark's ranges. Raises WrongMark."""
    if wanted.scenario not in SCENARIOS:
        raise WrongMark(f"no scenario {wanted.scenario}; `tornlog list` names them")
    try:
        is_known = wanted.mutant is None or find_mutant(wanted.mutant) is not None
    except MutantFileError as error:
        raise WrongMark(f"mutant: {error}") from error
    if not is_known:
        raise WrongMark(f"no mutant {wanted.mutant}; `tornlog list` names them")
    scenario = SCENARIOS[wanted.scenario]
    scenario = replace(scenario, ranges=scenario.ranges.replace(**wanted.ranges))
    try:
        return scenario.narrowed(disk=wanted.disk, policy=wanted.policy)
    except ValueError as error:
        raise WrongMark(str(error)) from error


def _failure_text(failure: Failure, wanted: MarkArguments, campaign: SeedBudget, facts: SeedFacts) -> str:
    if wanted.shrink:
        shrunk = shrink_failure(failure, tries_max=SHRINK_TRIES, stall_seconds=STALL_SECONDS)
        failure = shrunk.failure
    path = facts.write_failure(campaign.out, failure.to_json())
    facts.signature = failure.signature
    if path is None:
        facts.again = facts.replay_command("--tornlog-seed", str(failure.seed))
    else:
        facts.again = f"tornlog replay {path}"
    return plain_text(failure_text(failure, facts.again))

"""Tests of a user's own storage code: a function is a scenario of the engine, tried seed by seed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from ...faults.simulation.finding import Finding
from ...faults.simulation.shrink import shrink
from ...faults.simulation.simulation import Scenario, Simulation
from ...faults.simulation.trials import TrialOutcome, first_failure, replay
from ...sim.errors import LeakError, ReplayDivergedError
from .facts import Facts
from .mark_arguments import CRASH, MarkArguments, SeedBudget

_STORY_TOLD = 10
_UNREPEATABLE = (
    "the run cannot be repeated, so that nothing is known about it: the test keeps something from one run to the next "
    "(in a fixture, a module or a class), or depends on what is not its world's (`hash`, `id`, the order of a set)"
)


def run_simulated(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    wanted: MarkArguments,
    campaign: SeedBudget,
    facts: Facts,
) -> str | None:
    """Run a test for its seeds, or for the failure that is to be replayed; return what to say of one, None if none."""
    scenario = scenario_of(function, arguments, facts)
    try:
        if campaign.replay is not None:
            return _replayed(scenario, campaign.replay, facts)
        finding = _find(scenario, campaign, facts)
        if finding is None:
            return None
        smallest = shrink(scenario, finding) if wanted.shrink else finding
    except LeakError as error:
        return f"seed {facts.last_seed}: {error}"
    except ReplayDivergedError as error:
        return f"seed {facts.last_seed}: {_UNREPEATABLE}: {error}"
    path = facts.leave_failure(campaign.out, smallest.to_json(test=facts.node))
    option = ("--tornlog-seed", str(finding.seed)) if path is None else ("--tornlog-replay", str(path))
    facts.again, facts.signature = facts.replay_command(*option), smallest.signature
    return finding_text(smallest, facts.again)


def scenario_of(function: Callable[..., Any], arguments: dict[str, Any], facts: Facts) -> Scenario:
    """Return a test function as a scenario, which notes what faults it switches on."""

    def scenario(run: Simulation) -> None:
        try:
            function(**{**arguments, "simulation": run})
        except pytest.fail.Exception as failed:  # would else pass by whoever looks for failures
            raise AssertionError(failed.msg) from failed
        finally:
            facts.enable(run.enabled)
            facts.enable([CRASH] if run.operations else [])

    return scenario


def _find(scenario: Scenario, campaign: SeedBudget, facts: Facts) -> Finding | None:
    def on_run(seed: int, outcome: TrialOutcome) -> None:
        facts.add(outcome.injected, len(outcome.crashes))

    return first_failure(scenario, within_time(campaign, facts), on_run)


def within_time(campaign: SeedBudget, facts: Facts) -> Iterator[int]:
    """Yield seeds for as long as there is time, the first one in any case."""
    began = perf_counter()
    for seed in campaign.seeds:
        if campaign.seconds is not None and facts.seeds and perf_counter() - began >= campaign.seconds:
            facts.time_up = True
            return
        facts.last_seed = seed
        yield seed


def _replayed(scenario: Scenario, file: Path, facts: Facts) -> str | None:
    """Run the failure in a file again; None if nothing breaks any more."""
    try:
        finding = Finding.from_json(file.read_text())
    except (OSError, ValueError) as error:
        return f"{file}: {error}"
    replayed = replay(scenario, finding.record)
    outcome = replayed.result
    facts.add(outcome.injected, len(outcome.crashes))
    if outcome.failure is None:
        return None
    facts.signature = outcome.signature
    if replayed.is_same(finding):
        return finding_text(replace(finding, raised=outcome.raised), "")
    gone = "".join(f"\n  gone      {what}" for what in replayed.gone)
    return f"seed {finding.seed}, but not the run that was kept: {outcome.error}{gone}"


def finding_text(finding: Finding, again: str) -> str:
    """Return a finding as a test fails with it: where it was raised, the end of its story, how to see it again."""
    text = replace(finding, story=finding.story[-_STORY_TOLD:]).text(_place(finding.raised))
    return text if not again else f"{text}\n  again     {again}"


def _place(raised: str) -> str:
    """Return a place with its file as seen from the working directory, if it is below that."""
    return raised.removeprefix(f"{Path.cwd()}/")

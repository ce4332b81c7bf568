"""Marked tests: run a test function once per seed, and describe failures.

The tests are for a user's own storage code. `catalogued` runs tests of a tornlog scenario.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ...faults.simulation.finding import Finding
from ...faults.simulation.promises import declared_promises
from ...faults.simulation.shrink import shrink
from ...faults.simulation.simulation import Scenario, Simulation
from ...faults.simulation.trials import TrialOutcome, first_failure, replay
from ...sim.errors import LeakError, ReplayDivergedError
from .facts import SeedFacts, facts_of, test_of
from .mark_arguments import CRASH, MarkArguments, SeedBudget, WrongMark, arguments_of_mark, seed_budget_of

_UNREPEATABLE = (
    "the run cannot be repeated, so its result proves little: the test keeps state between runs (in a fixture, a "
    "module or a class), or depends on values from outside of the simulation (`hash`, `id`, the order of a set)"
)
Function = Callable[..., Any]


class FaultNeverInjected(UserWarning):
    """A fault that a test enables never happened, so it is untested."""


def for_each_seed(
    item: pytest.Function, mark: pytest.Mark | None, function: Function, *, is_simulated: bool
) -> Function:
    """Return a function that runs a test's seeds, or `function` if the test uses neither a mark nor a simulation."""
    try:
        wanted = arguments_of_mark(mark)
        if wanted.scenario is not None and is_simulated:
            raise WrongMark("scenario: expected either scenario=... or the fixture `simulation`, found both")
        if wanted.scenario is None and not is_simulated:
            if mark not in item.own_markers:
                return function
            raise WrongMark("expected the fixture `simulation` or scenario=..., found neither")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise WrongMark("expected a plain function, found an async one, whose calls run no code")
        campaign = seed_budget_of(item.config, wanted)
        run_seeds = _run_seeds(wanted)
    except WrongMark as error:
        return _failing_function(f"tornlog: {error}")

    def run(**arguments: Any) -> None:
        facts = facts_of(item, wanted)
        if campaign.replay is not None:
            owner = test_of(campaign.replay)
            if wanted.scenario is not None or owner not in (None, facts.node):
                pytest.skip(f"{campaign.replay} is a failure of {owner or 'own code'}")
        try:
            broken = run_seeds(function, arguments, wanted, campaign, facts)
            if broken is not None:
                pytest.fail(broken, pytrace=False)
            if campaign.is_whole and campaign.replay is None and not facts.time_up:
                _warn_of_missing_faults(item, facts, wanted)
        finally:
            item.tornlog_facts = facts.to_json()  # type: ignore[attr-defined]

    return run


def _run_seeds(wanted: MarkArguments) -> Callable[..., str | None]:
    """Return a function that runs a mark's seeds and returns the first failure. Raises WrongMark."""
    if wanted.scenario is None:
        return run_simulated
    from .catalogued import run_scenario, scenario_of_mark  # imports the store and its oracle

    return partial(run_scenario, scenario_of_mark(wanted))


def _failing_function(reason: str) -> Function:
    def fail(**arguments: Any) -> None:
        pytest.fail(reason, pytrace=False)

    return fail


def _warn_of_missing_faults(item: pytest.Function, facts: SeedFacts, wanted: MarkArguments) -> None:
    happened = facts.injected | {CRASH: facts.crash_points}
    missing = [name for name in wanted.must_inject if not happened.get(name)]
    if missing:
        never_there = ", ".join(missing)
        pytest.fail(f"no violation in {facts.seeds} seeds, but these never happened: {never_there}", pytrace=False)
    never = facts.never_injected()
    if not never or wanted.never_injected == "ignore":
        return
    text = f"enabled, but never injected in {facts.seeds} seeds: {', '.join(never)}"
    if wanted.never_injected == "fail":
        pytest.fail(text, pytrace=False)
    try:
        item.warn(FaultNeverInjected(text))
    except FaultNeverInjected:  # if pytest turns warnings into errors
        raise pytest.fail.Exception(text, pytrace=False) from None


def run_simulated(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    wanted: MarkArguments,
    campaign: SeedBudget,
    facts: SeedFacts,
) -> str | None:
    """Run a test's seeds, or replay a failure; return the text of the first failure."""
    scenario = scenario_of(function, arguments, facts)
    try:
        if campaign.replay is not None:
            return _replay_failure(scenario, campaign.replay, facts)
        finding = _find_failure(scenario, campaign, facts)
        if finding is None:
            return None
        smallest = shrink(scenario, finding) if wanted.shrink else finding
    except LeakError as error:
        return f"seed {facts.last_seed}: {error}"
    except ReplayDivergedError as error:
        return f"seed {facts.last_seed}: {_UNREPEATABLE}: {error}"
    path = facts.write_failure(campaign.out, smallest.to_json(test=facts.node))
    text = _finding_text(smallest)
    if campaign.out is None or path is None:
        option = ("--tornlog-seed", str(finding.seed))
    else:
        option = ("--tornlog-replay", str(path))
        page = campaign.draw(scenario=scenario, finding=smallest, out=campaign.out, name=path.stem)
        text += f"\n  timeline  {page}" if page is not None else ""
    facts.again, facts.signature = facts.replay_command(*option), smallest.signature
    return f"{text}\n  reproduce {facts.again}"


def scenario_of(function: Callable[..., Any], arguments: dict[str, Any], facts: SeedFacts) -> Scenario:
    """Convert a test function to a scenario that also records the enabled faults."""

    def scenario(run: Simulation) -> None:
        try:
            function(**{**arguments, "simulation": run})
        except (
            pytest.fail.Exception
        ) as failed:  # derives from BaseException, which the engine does not treat as a failed check
            raise AssertionError(failed.msg) from failed
        finally:
            facts.enable((*run.enabled, *declared_promises(function)))
            facts.enable([CRASH] if run.operations else [])

    scenario.__name__ = facts.node  # the title of a timeline
    return scenario


def _find_failure(scenario: Scenario, campaign: SeedBudget, facts: SeedFacts) -> Finding | None:
    def on_run(seed: int, outcome: TrialOutcome) -> None:
        facts.add(outcome.injected, len(outcome.crashes))

    return first_failure(scenario, facts.seeds_of(campaign), on_run)


def _replay_failure(scenario: Scenario, file: Path, facts: SeedFacts) -> str | None:
    finding = Finding.from_json(file.read_text())
    replayed = replay(scenario, finding.record)
    outcome = replayed.result
    facts.add(outcome.injected, len(outcome.crashes))
    if outcome.failure is None:
        return None
    facts.signature = outcome.signature
    if replayed.is_same(finding):
        return _finding_text(replace(finding, raised=outcome.raised))
    gone = "".join(f"\n  gone      {what}" for what in replayed.gone)
    return f"seed {finding.seed} differs from the stored run: {outcome.error}{gone}"


def _finding_text(finding: Finding) -> str:
    return finding.text(finding.raised.removeprefix(f"{Path.cwd()}/"))

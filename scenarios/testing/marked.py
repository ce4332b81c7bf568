"""Marked tests: run through their seeds in place of their function, and failing with a story."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from .facts import Facts, facts_of, test_of
from .mark_arguments import CRASH, MarkArguments, WrongMark, campaign_of, wanted_by
from .simulated import run_simulated

Function = Callable[..., Any]


class FaultNeverInjected(UserWarning):
    """A fault that a test switches on never happened in any of its seeds: that it held proves nothing about that."""


def through_seeds(
    item: pytest.Function, mark: pytest.Mark | None, function: Function, *, is_simulated: bool
) -> Function:
    """Return what runs a test as its mark wants it: the function itself if the mark is of others, as a module's is."""
    try:
        wanted = wanted_by(mark)
        if wanted.scenario is not None and is_simulated:
            raise WrongMark("scenario: the test has a simulation of its own, and can have one of the two")
        if wanted.scenario is None and not is_simulated:
            if mark not in item.own_markers:
                return function
            raise WrongMark("expected the fixture `simulation` or scenario=..., found neither")
        campaign = campaign_of(item.config, wanted)
        run_seeds = _run_seeds(wanted)
    except WrongMark as error:
        return _failing(f"tornlog: {error}")

    def run(**arguments: Any) -> None:
        facts = facts_of(item, wanted)
        whose = None if campaign.replay is None else test_of(campaign.replay)
        if whose is not None and whose != facts.node:
            pytest.skip(f"{campaign.replay} is a failure of {whose}")
        try:
            broken = run_seeds(function, arguments, wanted, campaign, facts)
            if broken is not None:
                pytest.fail(broken, pytrace=False)
            if campaign.is_whole and campaign.replay is None and not facts.time_up:
                _judge_silence(item, facts, wanted)
        finally:
            item.tornlog_facts = facts.to_json()  # type: ignore[attr-defined]

    return run


def _run_seeds(wanted: MarkArguments) -> Callable[..., str | None]:
    """Return what runs the seeds of a mark, which says what to tell of the one that broke. Raises WrongMark."""
    if wanted.scenario is None:
        return run_simulated
    from .catalogued import run_scenario, scenario_wanted  # the store and all that judges it: for this alone

    return partial(run_scenario, scenario_wanted(wanted))


def _failing(reason: str) -> Function:
    def fail(**arguments: Any) -> None:
        pytest.fail(reason, pytrace=False)

    return fail


def _judge_silence(item: pytest.Function, facts: Facts, wanted: MarkArguments) -> None:
    """Fail or warn for what never happened: that nothing broke proves nothing about it."""
    happened = facts.injected | {CRASH: facts.crash_points}
    missing = [name for name in wanted.must_inject if not happened.get(name)]
    if missing:
        never_there = ", ".join(missing)
        pytest.fail(f"held in {facts.seeds} seeds, in none of which there was: {never_there}", pytrace=False)
    never = facts.never_injected()
    if not never or wanted.never_injected == "ignore":
        return
    text = f"could have happened, and never did in {facts.seeds} seeds: {', '.join(never)}"
    if wanted.never_injected == "fail":
        pytest.fail(text, pytrace=False)
    try:
        item.warn(FaultNeverInjected(text))
    except FaultNeverInjected:  # where warnings are errors
        raise pytest.fail.Exception(text, pytrace=False) from None

"""Runs in which tasks switch at the store's plain attributes, too."""

from dataclasses import replace

import pytest

from tornlog.faults.simulation.record import replay
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.replay import is_same_run, run_plan
from tornlog.scenarios.campaigns.failures.shrink import shrink_failure
from tornlog.scenarios.campaigns.search import search_schedules
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.runs.execution import shared_modules
from tornlog.sim.shared_attributes import shared_attributes

KINDS = ("combined-faults", "producer-retry-duplicates", "sync-replication-master-lost")
RACE = "group-commit-copies-then-clears"


def with_points(name: str, *options: bool) -> Scenario:
    scenario = SCENARIOS[name]
    return replace(scenario, ranges=scenario.ranges.replace(attribute_points=options or (True,)))


def found_race(seeds: int = 120) -> Failure:
    """Return a failure caused by a race on a plain attribute."""
    scenario = Scenario("race", "no put is forgotten", MUTANTS[RACE].needs)
    results = (run_seed(scenario, seed, mutant=RACE) for seed in range(seeds))
    return next(result.failure for result in results if result.failure is not None)


@pytest.mark.parametrize("name", KINDS)
def test_with_attribute_points_the_correct_store_passes_and_every_run_repeats_exactly(name: str) -> None:
    for seed in range(6):
        result = run_seed(with_points(name), seed, check_determinism=True)
        assert (result.outcome, result.error) == ("held", "")


@pytest.mark.ci
@pytest.mark.parametrize("name", KINDS)
def test_attribute_points_multiply_the_scheduling_points_of_a_run(name: str) -> None:
    def steps(scenario: Scenario) -> int:
        return sum(run_seed(scenario, seed).steps for seed in range(8))

    assert 1.5 < steps(with_points(name)) / steps(with_points(name, False)) < 5.0


def test_attribute_points_are_drawn_in_a_share_of_the_busiest_scenarios() -> None:
    sharing = [name for name, scenario in SCENARIOS.items() if any(scenario.ranges["attribute_points"])]
    assert {*KINDS, "retention-oldest-first"} <= set(sharing)
    drawn = [draw_plan_of_seed(SCENARIOS["combined-faults"], seed)[1].attribute_points for seed in range(200)]
    assert 0.1 < sum(drawn) / len(drawn) < 0.4


@pytest.mark.ci
def test_a_failure_with_attribute_points_can_be_replayed_and_shrunk() -> None:
    failure = Failure.from_json(found_race().to_json())
    record = failure.original.record
    assert record.setup.attribute_points
    with MUTANTS[RACE].applied():
        assert is_same_run(replay(run_plan, record), failure.original)
    small = shrink_failure(failure, tries_max=150).failure.smallest
    assert small.record.setup.attribute_points, "without them the promise holds"
    assert len(small.record.schedule) < len(record.schedule)
    assert any(switch.label.startswith("attribute ") for switch in small.record.schedule)


def test_schedule_search_includes_attribute_points() -> None:
    small = MUTANTS[RACE].needs.replace(lives=(1,), endings=("stop",), messages_each=(3,), heals=(False,))
    found = search_schedules(Scenario("small", "no put is forgotten", small), 0, 1, "preemptions", limit=30)
    assert (found.schedules, found.violated) == (30, 0)


def test_modules_of_the_broker_are_shared_only_in_broker_runs() -> None:
    lone, all_of_them = shared_modules(broker=False), shared_modules(broker=True)
    assert set(lone) < set(all_of_them)
    assert not any(".broker" in module.__name__ for module in lone)
    owners = {each.owner.__name__ for each in shared_attributes(*lone)}
    assert {"SegmentQueue", "CommitLog", "ConsumeQueueTable", "StoreCheckpoint", "AllocateMappedFileService"} <= owners


def test_cached_functions_pass_no_attribute_points() -> None:
    """A cached function runs its code once in a process, so points in it would make the first run differ."""
    modules = shared_modules(broker=True)
    with_cache = {value.__module__ for one in modules for value in vars(one).values() if hasattr(value, "cache_info")}
    assert with_cache, "the store has cached functions"
    assert not with_cache & {point.owner.__module__ for point in shared_attributes(*modules)}

import pytest

from tests.fixtures import QUIET
from tornlog.scenarios.campaigns.failures.replay import replay
from tornlog.scenarios.campaigns.search import SearchResult, search_schedules
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import applied_mutant

pytestmark = pytest.mark.ci

RACE = "group-commit-swap-race"


@pytest.fixture(scope="module")
def tiny_scenario() -> Scenario:
    """Two producers put one message each under group commit, and the store stops."""
    ranges = QUIET.replace(
        messages_each=(1,),
        messages={"body_bytes_max": (0,), "equal_sizes": (False,)},
        commit_log_bytes=(4096,),
        topics=(1,),
        queues_per_topic=(1,),
        index={"slots": (0,)},
        memory={"warm_files": (False,)},
        disk=("nothing-lost",),
        sync_ms_max=(1,),
    )
    return Scenario("tiny", "two puts that meet are both answered", ranges)


@pytest.fixture(scope="module")
def searched(tiny_scenario: Scenario) -> SearchResult:
    """Search for a race under every schedule with one delay."""
    return search_schedules(tiny_scenario, 0, 1, mutant=RACE)


def test_a_race_is_found_by_searching_all_schedules_with_one_delay(searched: SearchResult) -> None:
    assert searched.is_complete
    assert searched.summary == f"all {searched.schedules} schedules with ≤ 1 delays"
    assert searched.schedules_by_cost == [1, searched.schedules - 1]
    assert searched.violated >= 1
    assert searched.failure is not None
    assert searched.failure.violations[0].invariant == "LIVE"


def test_the_store_without_the_race_keeps_its_promises_under_every_schedule(tiny_scenario: Scenario) -> None:
    result = search_schedules(tiny_scenario, 0, 1)

    assert result.is_complete
    assert result.schedules > 200
    assert (result.violated, result.failure, result.first_violated) == (0, None, None)


def test_a_failure_found_by_a_schedule_search_can_be_replayed(searched: SearchResult) -> None:
    failure = searched.failure
    assert failure is not None
    assert (failure.scenario, failure.seed, failure.mutant) == ("tiny", 0, RACE)
    with applied_mutant(RACE):
        assert replay(failure.original.record).is_same(failure.original)
    assert failure.original.story


def test_a_schedule_search_ends_with_the_first_broken_promise_on_request(
    tiny_scenario: Scenario, searched: SearchResult
) -> None:
    seen: list[int] = []
    result = search_schedules(
        tiny_scenario, 0, 1, mutant=RACE, stop_at_first=True, on_progress=lambda result: seen.append(result.schedules)
    )

    assert not result.is_complete
    assert result.violated == 1
    assert result.schedules == result.first_violated == searched.first_violated
    assert result.last_schedule == result.first_schedule == searched.first_schedule
    assert result.failure == searched.failure
    assert seen == list(range(1, result.schedules + 1))

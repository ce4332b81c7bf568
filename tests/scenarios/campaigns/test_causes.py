"""Causes: among several applied bugs, the one that broke a promise is found."""

from typing import Any

import pytest

from tests.fixtures import QUIET_SCENARIO
from tornlog.scenarios.campaigns import causes as causes_module
from tornlog.scenarios.campaigns.causes import (
    FAILURES_TRIED,
    Cause,
    ViolationKind,
    broken_promises,
    violation_kinds_with_causes,
    with_causes,
)
from tornlog.scenarios.campaigns.failures import parts
from tornlog.scenarios.campaigns.failures.failure import Failure, RunRecord
from tornlog.scenarios.campaigns.mutation_run import narrowed_scenario
from tornlog.scenarios.campaigns.runner import Batch, Tally, run_batches
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.mutant import Mutant, compose_mutants
from tornlog.scenarios.mutants.versions import VERSIONS
from tornlog.sim.process import CpuLimitReached

pytestmark = pytest.mark.slow

EARLY, UNSYNCED = MUTANTS["ack-before-flush"], MUTANTS["config-rename-without-sync"]
TWO = (EARLY, UNSYNCED)
"""Two bugs of unrelated components."""
VERSION = "rocketmq-4.9.8"


def tallies_of(scenarios: list[Scenario], seeds: int) -> list[Tally]:
    """Run seeds with both bugs applied."""
    tallies = [Tally(scenario) for scenario in scenarios]
    with compose_mutants("two", "", TWO).applied():
        for tally in tallies:
            for seed in range(seeds):
                tally.add(run_seed(tally.scenario, seed))
    return tallies


@pytest.fixture(scope="module")
def rows() -> dict[str, ViolationKind]:
    """Return the promises that two planted bugs break, by the field in which the violation occurs."""
    tallies = tallies_of([QUIET_SCENARIO, narrowed_scenario(UNSYNCED)], 12)
    found = [with_causes(row, TWO) for row in broken_promises(tallies)]
    return {row.promise: row for row in found}


def test_each_of_two_planted_bugs_is_the_cause_of_its_violations(rows: dict[str, ViolationKind]) -> None:
    assert {"STATUS", "META"} <= set(rows)
    for promise, bug in (("STATUS", EARLY), ("META", UNSYNCED)):
        tries = min(len(rows[promise].failures), FAILURES_TRIED)
        assert rows[promise].causes == (Cause(bug.id, tries, tries, tries),)
        assert [cause.id for cause in rows[promise].likeliest_causes] == [bug.id]
        assert rows[promise].clean == 0


def test_rows_count_violations_per_scenario_most_frequent_first() -> None:
    tallies = tallies_of([QUIET_SCENARIO, narrowed_scenario(UNSYNCED)], 12)
    found = broken_promises(tallies)

    assert [row.times for row in found] == sorted((row.times for row in found), reverse=True)
    assert sum(row.times for row in found) == sum(tally.violations for tally in tallies)
    for row in found:
        assert sum(row.scenarios.values()) == row.times
        assert row.first.seed == min(failure.seed for failure in row.failures)
        assert all(failure.violations[0].invariant == row.promise for failure in row.failures)
    assert sum(row.scenarios.get("quiet", 0) for row in found) == tallies[0].violations == 12


def test_failures_alternate_between_scenarios(failure: Failure) -> None:
    def of(scenario: str, seed: int) -> Failure:
        return Failure(scenario, "", seed, None, failure.original)

    order = causes_module._alternating_by_scenario([of("b", 3), of("a", 9), of("b", 1), of("a", 2), of("b", 8)])
    assert [(one.scenario, one.seed) for one in order] == [("b", 1), ("a", 2), ("b", 3), ("a", 9), ("b", 8)]


def test_a_tally_keeps_the_first_failure_of_each_signature() -> None:
    tally = run_batches([Batch(QUIET_SCENARIO, 0, 30, mutant="ack-before-flush")])["quiet"]
    assert sum(tally.signatures.values()) == tally.violations == 30
    assert set(tally.signatures) == {failure.violations[0].signature for failure in tally.failures}


# violations without a single cause


MEMBERS = tuple(Mutant(name, "", (), ()) for name in "abc")


@pytest.fixture
def row(failure: Failure) -> ViolationKind:
    return ViolationKind("STATUS", "answer", 1, {"quiet": 1}, (failure,))


@pytest.mark.parametrize(
    ("broken_by", "causes", "likeliest"),
    [
        ({"all but c"}, (Cause("a", 1, 1, 0), Cause("b", 1, 1, 0)), 2),
        ({"a", "c", "all but a", "all but c"}, (Cause("a", 1, 0, 1), Cause("c", 1, 0, 1)), 2),
        ({"a", "c", "all but a"}, (Cause("c", 1, 1, 1), Cause("a", 1, 0, 1)), 1),
        ({"all but a", "all but b", "all but c"}, (), 0),
    ],
    ids=["both needed", "either is enough", "one is likelier", "more than one left out"],
)
def test_causes_are_found_by_runs_with_only_one_bug_and_runs_without_that_bug(
    row: ViolationKind, monkeypatch: pytest.MonkeyPatch, broken_by: set[str], causes: tuple[Cause, ...], likeliest: int
) -> None:
    monkeypatch.setattr(causes_module, "_has_violation", lambda record, mutant, signature: mutant.id in broken_by)
    found = with_causes(row, MEMBERS)
    assert found.causes == causes
    assert found.likeliest_causes == causes[:likeliest]


def test_a_promise_that_breaks_without_any_bug_has_no_cause(
    row: ViolationKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes_module, "_has_violation", lambda record, mutant, signature: mutant.id == "none")
    found = with_causes(row, MEMBERS)
    assert (found.clean, found.causes, found.likeliest_causes) == (1, (), ())
    assert found.to_json("again")["clean"] == 1


def test_an_endless_run_does_not_make_a_bug_the_cause(row: ViolationKind, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_end(record: RunRecord) -> Any:
        raise CpuLimitReached

    monkeypatch.setattr(parts, "replay", no_end)
    assert causes_module._has_violation(row.first.original.record, MEMBERS[0], "status-answer")


def test_causes_do_not_depend_on_the_number_of_processes() -> None:
    scenario = narrowed_scenario(MUTANTS["zero-length-trailing-file"])
    tallies = run_batches([Batch(scenario, 0, 12, mutant=VERSION)]).values()
    found = broken_promises(tallies)[:2]
    here = list(violation_kinds_with_causes(found, VERSION))
    assert here
    assert list(violation_kinds_with_causes(found, VERSION, jobs=2)) == here
    assert {cause.id for row in here for cause in row.causes} <= set(VERSIONS[VERSION].members)

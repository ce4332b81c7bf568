"""Coverage of a campaign: faults and marks that no scenario reached."""

from collections import Counter

from tests.fixtures import QUIET_SCENARIO
from tornlog.faults.kinds import FAULTS
from tornlog.scenarios.campaigns.coverage import faults_in, marks_never_hit, never_injected
from tornlog.scenarios.campaigns.runner import Tally
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.runs.marks import MARKS


def tallies_of(scenario: Scenario, names: list[str]) -> list[Tally]:
    """Return one tally for each name, in which one fault and one mark of that name occurred."""
    return [
        Tally(scenario, injected=Counter({name: number}), marks=Counter({name: number}))
        for number, name in enumerate(names, start=1)
    ]


def test_without_runs_all_faults_and_marks_are_listed_as_missing() -> None:
    assert never_injected([]) == []
    assert never_injected([Tally(QUIET_SCENARIO)]) == list(faults_in([QUIET_SCENARIO]))
    assert never_injected(Tally(scenario) for scenario in SCENARIOS.values()) == list(FAULTS)
    for tallies in ([], [Tally(QUIET_SCENARIO)]):
        assert marks_never_hit(tallies) == list(MARKS)


def test_a_fault_or_mark_reached_in_one_scenario_is_not_listed_as_missing() -> None:
    first_fault, *faults = faults_in([QUIET_SCENARIO])
    first_mark, *marks = MARKS

    assert never_injected(tallies_of(QUIET_SCENARIO, faults)) == [first_fault]
    assert never_injected(tallies_of(QUIET_SCENARIO, [first_fault])) == faults
    assert marks_never_hit(tallies_of(QUIET_SCENARIO, marks)) == [first_mark]
    assert marks_never_hit(tallies_of(QUIET_SCENARIO, [first_mark])) == marks
    assert never_injected(tallies_of(QUIET_SCENARIO, [first_fault, *faults])) == []
    assert marks_never_hit(tallies_of(QUIET_SCENARIO, list(MARKS))) == []


def test_a_fault_or_mark_with_count_0_is_listed_as_missing() -> None:
    name, mark = list(faults_in([QUIET_SCENARIO]))[-1], list(MARKS)[-1]
    tally = Tally(QUIET_SCENARIO, injected=Counter({name: 0}), marks=Counter({mark: 0}))

    assert name in never_injected([tally])
    assert mark in marks_never_hit([tally])


def test_life_endings_are_counted_separately_from_faults() -> None:
    tallies = tallies_of(QUIET_SCENARIO, ["crash", "crash strict-posix", "crash before sync"])

    assert never_injected(tallies) == list(faults_in([QUIET_SCENARIO]))
    assert marks_never_hit(tallies) == list(MARKS)

"""The catalogue: valid names, no violations of the store, and enough faults."""

import re
from collections import Counter

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.fault_injector import MOMENTS
from tornlog.faults.kinds import FAULTS
from tornlog.scenarios.campaigns.runner import Tally, batches_of, run_batches
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.plan import LifeEnding
from tornlog.scenarios.claims.scenario import POLICIES

NOT_DRAWN = ("torn-sectors", "ext4")
"""Crash profiles of probes only. Scenarios have a separate knob for torn sectors and the profile `ext4-ordered`."""
SEEDS = 5


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    return run_batches(batches_of(list(SCENARIOS.values()), range(SEEDS)))


@pytest.fixture(scope="module")
def injected(tallies: dict[str, Tally]) -> Counter[str]:
    return sum((tally.injected for tally in tallies.values()), Counter())


def test_a_scenario_name_is_words_joined_by_hyphens() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", name) for name in SCENARIOS)


def test_a_scenario_claim_is_a_unique_sentence_without_a_full_stop() -> None:
    claims = [scenario.claim for scenario in SCENARIOS.values()]
    assert len(set(claims)) == len(claims)
    for claim in claims:
        assert claim == claim.strip()
        assert claim[0].islower() or claim.split()[0].isupper(), claim
        assert claim[-1].isalnum(), claim
        assert len(claim.split()) >= 6, claim


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_scenario_finds_a_violation_in_the_unmodified_store(name: str, tallies: dict[str, Tally]) -> None:
    tally = tallies[name]
    assert tally.seeds == SEEDS
    assert [str(failure.violations[0]) for failure in tally.failures] == []
    assert (tally.violations, tally.errors, tally.nondeterministic) == (0, [], [])
    assert tally.messages > SEEDS


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_plan_of_a_scenario_is_within_its_ranges(name: str) -> None:
    ranges = SCENARIOS[name].ranges
    endings = {"crash in traffic", *ranges["endings"]}
    endings.update(*(optional.get("endings", ()) for optional in ranges.optional.values()))
    disks = {*ranges["disk"], *(disk for optional in ranges.optional.values() for disk in optional.get("disk", ()))}
    for seed in range(SEEDS):
        _, plan = draw_plan_of_seed(SCENARIOS[name], seed)
        assert plan.sync_flush in ranges["sync_flush"]
        assert plan.disk in disks
        drawn = plan.lives[1:] if plan.directories.killed_in_creation else plan.lives
        assert all(life.profile in DISK_MODELS[plan.disk].crashes for life in drawn)
        assert all(life.ending in endings for life in drawn)


@pytest.mark.slow
def test_every_scenario_that_allows_crashes_has_crashes(tallies: dict[str, Tally]) -> None:
    for name, scenario in SCENARIOS.items():
        only_stops = all(LifeEnding(ending).is_stop for ending in scenario.ranges["endings"])
        can_crash = (
            not only_stops or max(scenario.ranges["cluster.slaves"]) > 0
        )  # a slave that goes off loses its power
        assert (tallies[name].crash_points > 0) == can_crash, name


@pytest.mark.slow
@pytest.mark.parametrize("profile", [name for name in PROFILES if name not in NOT_DRAWN])
def test_every_crash_profile_is_drawn_except_those_of_probes(profile: str, injected: Counter[str]) -> None:
    assert injected[f"crash {profile}"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_crashes_happen_before_during_and_after_operations(moment: str, injected: Counter[str]) -> None:
    hit = {kind.removeprefix(f"crash {moment} ") for kind in injected if kind.startswith(f"crash {moment} ")}
    assert {"store", "msync", "create", "sync directory"} <= hit


@pytest.mark.slow
def test_injected_faults_are_listed_and_crashes_are_counted_by_profile(
    tallies: dict[str, Tally], injected: Counter[str]
) -> None:
    assert {kind for kind in injected if kind.partition(" ")[0] != "crash"} <= set(FAULTS)
    crashes = sum(tally.crash_points for tally in tallies.values())
    assert sum(injected[f"crash {profile}"] for profile in PROFILES) == crashes


def test_every_scheduling_policy_is_drawn() -> None:
    drawn = {draw_plan_of_seed(scenario, seed)[1].policy for scenario in SCENARIOS.values() for seed in range(5)}
    assert drawn == set(POLICIES)

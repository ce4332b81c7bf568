"""A power cut after a clean stop loses unsynced data, but the stop promised all data."""

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario

SEEDS = 20
KIND = "power cut after a stop"


def power_cuts(scenario: Scenario) -> list[int]:
    """Return the number of power cuts in each of some seeds, which all pass."""
    results = [run_seed(scenario, seed) for seed in range(SEEDS)]
    assert {result.outcome for result in results} == {"held"}
    return [result.injected[KIND] for result in results]


def test_the_power_fails_after_some_clean_stops_only() -> None:
    found = power_cuts(SCENARIOS["clean-shutdown"].narrowed(disk="strict-posix"))
    assert 0 < sum(times > 0 for times in found) < SEEDS


def test_a_profile_that_keeps_the_page_cache_has_no_power_cut_after_a_stop() -> None:
    assert PROFILES["process-kill"].page_cache_survives
    assert sum(power_cuts(SCENARIOS["clean-shutdown"].narrowed(disk="process-kill"))) == 0


def test_a_clean_stop_on_a_lying_disk_has_no_power_cut_after_it() -> None:
    scenario = SCENARIOS["recovery-on-lying-disk"]
    lies = [draw_plan_of_seed(scenario, seed)[1].faults.lying_sync_chance > 0 for seed in range(SEEDS)]
    cut = [times > 0 for times in power_cuts(scenario)]
    assert any(cut)
    assert not any(was_cut and lied for was_cut, lied in zip(cut, lies, strict=True))

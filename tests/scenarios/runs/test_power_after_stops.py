"""A power cut after a clean stop: what the stop has not synced may be lost, and it has promised everything."""

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.scenarios.campaigns.seeds import draw, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.scenario import Scenario

SEEDS = 20
KIND = "power cut after a stop"


def power_cuts(scenario: Scenario) -> list[int]:
    """Return how many there were in each of some seeds, all of which hold."""
    results = [run_seed(scenario, seed) for seed in range(SEEDS)]
    assert {result.outcome for result in results} == {"held"}
    return [result.injected[KIND] for result in results]


def test_the_power_goes_after_some_stops_and_stays_on_after_others() -> None:
    found = power_cuts(SCENARIOS["clean-shutdown"].narrowed(disk="strict-posix"))
    assert 0 < sum(times > 0 for times in found) < SEEDS


def test_what_keeps_its_page_cache_loses_nothing_at_a_stop() -> None:
    assert PROFILES["process-kill"].page_cache_survives
    assert sum(power_cuts(SCENARIOS["clean-shutdown"].narrowed(disk="process-kill"))) == 0


def test_a_stop_on_a_disk_that_lies_is_followed_by_none() -> None:
    scenario = SCENARIOS["recovery-on-lying-disk"]
    lies = [draw(scenario, seed)[1].faults.lying_sync_chance > 0 for seed in range(SEEDS)]
    cut = [times > 0 for times in power_cuts(scenario)]
    assert any(cut)
    assert not any(was_cut and lied for was_cut, lied in zip(cut, lies, strict=True))

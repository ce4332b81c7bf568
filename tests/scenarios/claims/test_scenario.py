"""Scenarios narrowed from the command line."""

from dataclasses import replace

import pytest

from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.scenario import POLICIES, Scenario


def test_a_scenario_can_be_narrowed_to_one_disk_and_one_policy(quiet_scenario: Scenario) -> None:
    narrowed = quiet_scenario.narrowed(disk="ext4-ordered", policy="pct")
    assert narrowed.ranges["disk"] == ("ext4-ordered",)
    assert narrowed.ranges["policy"] == ("pct",)
    assert (narrowed.name, narrowed.claim) == (quiet_scenario.name, quiet_scenario.claim)
    assert quiet_scenario.narrowed() == quiet_scenario
    assert quiet_scenario.narrowed(attribute_points=True).ranges["attribute_points"] == (True,)


def test_only_known_disks_and_policies_can_be_selected(quiet_scenario: Scenario) -> None:
    for disk in DISK_MODELS:
        assert quiet_scenario.narrowed(disk=disk).ranges["disk"] == (disk,)
    for policy in POLICIES:
        assert quiet_scenario.narrowed(policy=policy).ranges["policy"] == (policy,)
    with pytest.raises(ValueError, match=r"disk: expected one of nothing-lost, .*, found floppy"):
        quiet_scenario.narrowed(disk="floppy")
    with pytest.raises(ValueError, match=r"policy: expected one of random-walk, .*, found fair"):
        quiet_scenario.narrowed(policy="fair")


@pytest.mark.parametrize("disk", ["full-disk", "lying-disk", "dying-disk"])
def test_scenarios_of_several_machines_refuse_an_unsound_disk(disk: str) -> None:
    scenario = SCENARIOS["replica-prefix-of-master"]

    assert not scenario.can_run_on(disk)
    assert scenario.can_run_on("xfs")
    assert SCENARIOS["combined-faults"].can_run_on(disk)
    with pytest.raises(ValueError, match=f"a {disk} does not support"):
        scenario.narrowed(disk=disk)


def test_a_renamed_scenario_that_keeps_its_stream_name_draws_the_same_plans(quiet_scenario: Scenario) -> None:
    renamed = replace(quiet_scenario, name="renamed", stream=quiet_scenario.name)

    assert [draw_plan_of_seed(renamed, seed)[1] for seed in range(5)] == [
        draw_plan_of_seed(quiet_scenario, seed)[1] for seed in range(5)
    ]
    assert draw_plan_of_seed(replace(renamed, stream=""), 0)[1] != draw_plan_of_seed(quiet_scenario, 0)[1]

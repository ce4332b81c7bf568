"""Scenarios narrowed from the command line."""

from dataclasses import replace

import pytest

from tests.fixtures import QUIET_SCENARIO
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.scenario import POLICIES


def test_a_scenario_can_be_narrowed_to_one_disk_and_one_policy() -> None:
    narrowed = QUIET_SCENARIO.narrowed(disk="ext4-ordered", policy="pct")
    assert narrowed.ranges["disk"] == ("ext4-ordered",)
    assert narrowed.ranges["policy"] == ("pct",)
    assert (narrowed.name, narrowed.claim) == (QUIET_SCENARIO.name, QUIET_SCENARIO.claim)
    assert QUIET_SCENARIO.narrowed() == QUIET_SCENARIO
    assert QUIET_SCENARIO.narrowed(attribute_points=True).ranges["attribute_points"] == (True,)


def test_only_known_disks_and_policies_can_be_selected() -> None:
    for disk in DISK_MODELS:
        assert QUIET_SCENARIO.narrowed(disk=disk).ranges["disk"] == (disk,)
    for policy in POLICIES:
        assert QUIET_SCENARIO.narrowed(policy=policy).ranges["policy"] == (policy,)
    with pytest.raises(ValueError, match=r"disk: expected one of nothing-lost, .*, found floppy"):
        QUIET_SCENARIO.narrowed(disk="floppy")
    with pytest.raises(ValueError, match=r"policy: expected one of random-walk, .*, found fair"):
        QUIET_SCENARIO.narrowed(policy="fair")


@pytest.mark.parametrize("disk", ["full-disk", "lying-disk", "dying-disk"])
def test_scenarios_of_several_machines_refuse_an_unsound_disk(disk: str) -> None:
    scenario = SCENARIOS["replica-prefix-of-master"]

    assert not scenario.can_run_on(disk)
    assert scenario.can_run_on("xfs")
    assert SCENARIOS["combined-faults"].can_run_on(disk)
    with pytest.raises(ValueError, match=f"a {disk} does not support"):
        scenario.narrowed(disk=disk)


def test_a_renamed_scenario_that_keeps_its_stream_name_draws_the_same_plans() -> None:
    renamed = replace(QUIET_SCENARIO, name="renamed", stream=QUIET_SCENARIO.name)

    assert [draw_plan_of_seed(renamed, seed)[1] for seed in range(5)] == [
        draw_plan_of_seed(QUIET_SCENARIO, seed)[1] for seed in range(5)
    ]
    assert draw_plan_of_seed(replace(renamed, stream=""), 0)[1] != draw_plan_of_seed(QUIET_SCENARIO, 0)[1]

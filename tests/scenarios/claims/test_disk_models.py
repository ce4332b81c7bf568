from dataclasses import fields

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.sim.choices import Choices


@pytest.mark.parametrize("name", DISK_MODELS)
def test_a_disk_model_names_existing_crashes_and_faults(name: str) -> None:
    disk_model = DISK_MODELS[name]
    assert disk_model.name == name
    assert set(disk_model.crashes) <= set(PROFILES)
    assert set(disk_model.faults) <= {field.name for field in fields(FaultPlan)}


@pytest.mark.parametrize("name", DISK_MODELS)
def test_a_plan_has_the_faults_crash_profiles_and_capacity_of_its_disk_model(name: str) -> None:
    disk_model = DISK_MODELS[name]
    plans = [draw_plan(Choices(str(seed)).stream("plan"), Ranges(disk=(name,))) for seed in range(300)]
    assert {life.profile for plan in plans for life in plan.lives} == set(disk_model.crashes)
    for fault, options in disk_model.faults.items():
        assert {getattr(plan.faults, fault) for plan in plans} == set(options)
    assert {plan.capacity_bytes for plan in plans} == set(disk_model.capacity_bytes or (0,))


def test_a_range_overrides_the_disk_model() -> None:
    ranges = Ranges(disk=("lying-disk",)).replace(faults={"lying_sync_chance": (0.25,)})
    plan = draw_plan(Choices("1").stream("plan"), ranges)
    assert plan.faults.lying_sync_chance == 0.25

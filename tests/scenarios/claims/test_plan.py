"""Plans: drawn from ranges, stored as JSON."""

import json
from typing import Any

import pytest

from tornlog.faults.disk.fault_injector import MOMENTS
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.claims.plan import KNOBS, Plan
from tornlog.scenarios.claims.ranges import POLICY_PARAMETERS, Ranges, draw_plan
from tornlog.sim.choices import Choices

SEEDS = range(200)
OF_DISKS = {
    f"{part}.{name}"
    for disk in DISK_MODELS.values()
    for part, names in (("faults", disk.faults), ("rot", disk.rot))
    for name in names
}
"""Knobs whose options a disk model can set."""


def drawn(seed: int, ranges: Ranges | None = None) -> Plan:
    return draw_plan(Choices(str(seed)).stream("plan"), ranges or Ranges())


def test_a_plan_survives_a_round_trip_through_json() -> None:
    for seed in SEEDS:
        plan = drawn(seed)
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_every_drawn_plan_value_is_in_its_range() -> None:
    ranges = Ranges()
    for seed in SEEDS:
        plan = drawn(seed)
        for path in KNOBS.keys() - OF_DISKS:
            assert plan.value(path) in ranges[path], path
        assert len(plan.lives) in ranges["lives"]
        assert plan.policy_parameter in POLICY_PARAMETERS[plan.policy][0]
        for life in plan.lives:
            assert life.ending in ranges["endings"]
            assert life.profile in DISK_MODELS[plan.disk].crashes
            assert life.moment in MOMENTS
            assert life.messages_each in ranges["messages_each"]


def test_every_option_of_every_range_is_drawn_by_some_seed() -> None:
    ranges = Ranges()
    plans = [drawn(seed) for seed in SEEDS]
    for path in KNOBS.keys() - OF_DISKS:
        assert {plan.value(path) for plan in plans} == set(ranges[path]), path
    lives = [life for plan in plans for life in plan.lives]
    assert {life.ending for life in lives} == set(ranges["endings"])
    assert {(plan.disk, life.profile) for plan in plans for life in plan.lives} == {
        (disk, profile) for disk in ranges["disk"] for profile in DISK_MODELS[disk].crashes
    }
    assert {life.moment for life in lives} == set(MOMENTS)


def test_faults_are_off_unless_a_range_or_the_disk_enables_them() -> None:
    quiet = Ranges(disk=("ext4-ordered",))
    assert {draw_plan(Choices(str(seed)).stream("plan"), quiet).faults for seed in SEEDS} == {FaultPlan()}
    ranges = quiet.replace(faults={"failed_sync_chance": (0.0, 0.1)}).replace(faults={"slow_sync_ms_max": (7, 8)})
    faults = {draw_plan(Choices(str(seed)).stream("plan"), ranges).faults for seed in SEEDS}
    assert faults == {
        FaultPlan(failed_sync_chance=chance, slow_sync_ms_max=ms) for chance in (0.0, 0.1) for ms in (7, 8)
    }


def test_a_first_life_never_crashes_in_load_and_crashes_in_traffic_instead() -> None:
    assert all(drawn(seed).lives[0].ending != "crash in load" for seed in SEEDS)
    assert any(life.ending == "crash in load" for seed in SEEDS for life in drawn(seed).lives[1:])
    plan = drawn(1, Ranges().replace(endings=("crash in load",), lives=(2,)))
    assert [life.ending for life in plan.lives] == ["crash in traffic", "crash in load"]


def test_only_lives_with_a_crash_at_an_operation_have_an_operation_number() -> None:
    for seed in SEEDS:
        for life in drawn(seed).lives:
            assert (life.operation >= 0) == (life.ending in ("crash in load", "crash in traffic"))
    persists = Ranges(endings=("crash in persist",))
    assert {life.operation for seed in SEEDS for life in drawn(seed, persists).lives} == set(range(12))


def test_a_kill_during_the_creation_of_the_root_adds_a_first_life() -> None:
    ranges = Ranges(directories={"killed_in_creation": (True,)}, lives=(2,))
    for seed in SEEDS:
        first, *others = drawn(seed, ranges).lives
        assert (first.ending, first.profile, first.messages_each) == ("crash in load", "process-kill", 0)
        assert len(others) == 2


def test_plans_of_several_machines_use_the_default_directories() -> None:
    with pytest.raises(AssertionError, match="only a single store has these"):
        drawn(1, Ranges(directories={"root": ("mq",)}, cluster={"slaves": (1,)}))


GONE = object()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["lives"], GONE, "plan: Object missing required field `lives`"),
        (["prodcuers"], 3, "plan.prodcuers: unknown"),
        (["producers"], "3", "plan.producers: Expected `int`, got `str`"),
        (["sync_flush"], 1, "plan.sync_flush: Expected `bool`, got `int`"),
        (["lives"], None, "plan.lives: Expected `array`, got `null`"),
        (["lives"], ["stop"], r"plan.lives\[0\]: Expected `object`, got `str`"),
        (["lives", 0, "speed"], 3, r"plan.lives\[0\].speed: unknown"),
        (["left_out"], ["m0.0.0", 3], r"plan.left_out\[1\]: Expected `str`, got `int`"),
    ],
)
def test_the_error_of_a_plan_with_an_invalid_field_names_it(place: list[Any], value: Any, message: str) -> None:
    values = json.loads(json.dumps(drawn(1).to_json()))
    *above, last = place
    holder = values
    for step in above:
        holder = holder[step]
    holder[last] = value
    if value is GONE:
        del holder[last]
    with pytest.raises(ValueError, match=f"^{message}$"):
        Plan.from_json(values)


def test_a_setting_missing_from_a_stored_plan_has_its_default() -> None:
    plan = drawn(1)
    values = json.loads(json.dumps(plan.to_json()))
    del values["left_out"], values["delay"], values["index"]["seekers"], values["faults"]["lying_sync_chance"]
    for life in values["lives"]:
        del life["node"]
    assert Plan.from_json(values) == plan

    values["messages"]["batch_chance"] = 0  # JSON may store 0.0 as 0
    assert Plan.from_json(values).messages.batch_chance == 0.0


def test_with_delayed_messages_the_crash_operation_is_drawn_from_twice_the_range() -> None:
    endings, each = ("crash in traffic",), (16,)
    ranges = Ranges().replace(endings=endings, messages_each=each, producers=(1,), sync_flush=(True,))
    plain = max(drawn(seed, ranges).lives[0].operation for seed in SEEDS)
    delayed = max(drawn(seed, ranges.replace(delay={"chance": (0.5,)})).lives[0].operation for seed in SEEDS)
    assert plain < 30 + 16 * 4 <= delayed < 30 + 16 * 8

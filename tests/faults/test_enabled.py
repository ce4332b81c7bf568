"""Which kinds of fault a plan switches on."""

from dataclasses import fields, replace

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.enabled import crash_kinds, enabled_kinds
from tornlog.faults.kinds import FAULTS
from tornlog.faults.plan import FaultPlan

SWITCHES = [
    field.name for field in fields(FaultPlan) if field.name.endswith("_chance") or field.name == "sparse"
]


def test_a_plan_in_which_nothing_goes_wrong_switches_on_nothing() -> None:
    assert list(enabled_kinds(FaultPlan())) == []
    assert list(enabled_kinds(FaultPlan(failing_sync="xfs", slow_sync_ms_max=9))) == []


@pytest.mark.parametrize("name", SWITCHES)
def test_each_chance_switches_on_a_kind_of_its_own(name: str) -> None:
    (kind,) = enabled_kinds(replace(FaultPlan(), **{name: True if name == "sparse" else 0.5}))

    assert kind in FAULTS


def test_no_two_chances_switch_on_the_same_kind() -> None:
    everything = FaultPlan(**{name: True if name == "sparse" else 0.5 for name in SWITCHES})

    found = list(enabled_kinds(everything))

    assert len(found) == len(set(found)) == len(SWITCHES)


@pytest.mark.parametrize(
    ("operations", "profiles", "expected"),
    [
        ({"create", "write"}, ["process-kill"], []),
        ({"create", "write"}, ["process-kill", "os-crash"], ["name lost", "page lost"]),
        ({"rename", "store"}, ["xfs"], ["rename undone", "page lost", "torn page"]),
        ({"pwrite"}, ["torn-sectors"], ["page lost", "torn page", "torn sector"]),
        ({"extend", "make directory", "sync"}, ["btrfs"], ["size lost", "directory lost"]),
        (set(), list(PROFILES), []),
    ],
)
def test_what_crashes_may_do_follows_from_what_was_done_and_from_their_kinds(
    operations: set[str], profiles: list[str], expected: list[str]
) -> None:
    found = list(crash_kinds(operations, [PROFILES[name] for name in profiles]))

    assert found == expected
    assert set(found) <= FAULTS.keys()

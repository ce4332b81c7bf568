"""Kinds of fault that a plan enables."""

from dataclasses import fields, replace

import pytest

from tornlog.faults.kinds import FAULTS
from tornlog.faults.plan import FaultPlan, enabled_kinds

SWITCHES = [field.name for field in fields(FaultPlan) if field.name.endswith("_chance") or field.name == "sparse"]


def test_an_empty_plan_enables_no_kind() -> None:
    assert list(enabled_kinds(FaultPlan())) == []
    assert list(enabled_kinds(FaultPlan(failing_sync="xfs", slow_sync_ms_max=9))) == []


@pytest.mark.parametrize("name", SWITCHES)
def test_each_disk_chance_enables_its_own_kind(name: str) -> None:
    (kind,) = enabled_kinds(replace(FaultPlan(), **{name: True if name == "sparse" else 0.5}))

    assert kind in FAULTS


def test_no_two_disk_chances_enable_the_same_kind() -> None:
    everything = FaultPlan(**{name: True if name == "sparse" else 0.5 for name in SWITCHES})

    found = list(enabled_kinds(everything))

    assert len(found) == len(set(found)) == len(SWITCHES)


@pytest.mark.parametrize(
    ("name", "known"), [("failing_sync", "ext4-ordered"), ("sync_error", "EIO"), ("space_error", "ENOSPC")]
)
def test_an_unknown_file_system_or_error_is_refused(name: str, known: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: expected one of {known}.*found EPERM"):
        replace(FaultPlan(), **{name: "EPERM"})

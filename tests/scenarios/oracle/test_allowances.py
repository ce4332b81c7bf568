"""Allowances: each fault excuses only its own effects."""

from dataclasses import fields, replace

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange
from tornlog.faults.plan import FaultPlan, enabled_kinds, without_transient_faults
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.oracle import allowances
from tornlog.sim.choices import Choices
from tornlog.sim.disturbances import DisturbancePlan
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

KINDS = {
    "sync errors": allowances.SYNC_ERRORS,
    "other errors": allowances.OTHER_ERRORS,
    "wants of space": allowances.OUT_OF_SPACE,
    "delays": allowances.DELAYS,
}


@pytest.fixture
def disk() -> Disk:
    choices = Choices("excuses")
    return Disk(Kernel(RandomWalk(choices.stream("schedule"), 4)), choices.stream("disk"))


def excuse_counts(disk: Disk, plan: Plan) -> tuple[int, int, int, int]:
    """Return the counts of a disk's failed syncs, errors, out-of-space errors and delays."""
    return (
        allowances.count_sync_errors(disk),
        allowances.count_errors(disk),
        allowances.count_out_of_space(disk),
        allowances.count_delays(disk, plan),
    )


def test_a_fault_kind_belongs_to_at_most_one_excuse() -> None:
    names = [name for kinds in KINDS.values() for name in kinds]

    assert len(names) == len(set(names))


def test_a_disk_without_faults_excuses_no_violation(disk: Disk) -> None:
    assert excuse_counts(disk, QUIET_PLAN) == (0, 0, 0, 0)
    assert not allowances.has_reverted_data(disk)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, (2, 2, 0, 0)) for kind in allowances.SYNC_ERRORS),
        *((kind, (0, 2, 0, 0)) for kind in allowances.OTHER_ERRORS),
        *((kind, (0, 0, 2, 0)) for kind in allowances.OUT_OF_SPACE),
        *((kind, (0, 0, 0, 2)) for kind in allowances.DELAYS),
        *((kind, (0, 0, 0, 0)) for kind in ("lying sync", "short write", "crash", "second start")),
    ],
)
def test_an_injected_fault_is_counted_for_its_excuse(
    disk: Disk, kind: str, expected: tuple[int, int, int, int]
) -> None:
    disk.injected[kind] = 2

    assert excuse_counts(disk, QUIET_PLAN) == expected


def test_counts_of_different_faults_add_up(disk: Disk) -> None:
    disk.injected.update({name: 1 for kinds in KINDS.values() for name in kinds})
    syncs, others, space, delays = (len(kinds) for kinds in KINDS.values())

    assert excuse_counts(disk, QUIET_PLAN) == (syncs, syncs + others, space, delays)


@pytest.mark.parametrize(
    "disturbances",
    [
        DisturbancePlan(paused_task_chance=0.1),
        DisturbancePlan(paused_machine_chance=0.1),
        DisturbancePlan(clock_step_chance=0.1),
    ],
)
def test_pauses_allowed_by_the_plan_excuse_delays(disk: Disk, disturbances: DisturbancePlan) -> None:
    disturbed = replace(QUIET_PLAN, disturbances=disturbances)

    assert excuse_counts(disk, disturbed) == (0, 0, 0, 1)
    assert excuse_counts(disk, replace(QUIET_PLAN, starved_steps_max=1)) == (0, 0, 0, 1)


@pytest.mark.parametrize(("kind", "expected"), [("failed sync", True), ("lost write", False)])
def test_only_a_failed_sync_reverts_the_page_cache(disk: Disk, kind: str, *, expected: bool) -> None:
    disk.damage.append(DamagedRange("/store/commitlog/0", 0, 512, kind))

    assert allowances.has_reverted_data(disk) is expected


def test_a_store_must_recover_in_the_life_in_which_disk_errors_stop(disk: Disk) -> None:
    disk.injected.update({"failed map": 3, "failed sync": 1})
    healing = replace(QUIET_PLAN, heals=True, errors_stop=True)

    assert allowances.must_recover_without_restart(healing, disk)
    assert not allowances.must_recover_without_restart(replace(healing, heals=False), disk)
    assert not allowances.must_recover_without_restart(replace(healing, errors_stop=False), disk)


@pytest.mark.parametrize("kind", ["latent sector error", "out of memory"])
def test_after_a_permanent_error_the_store_need_not_recover_in_that_life(disk: Disk, kind: str) -> None:
    healing = replace(QUIET_PLAN, heals=True, errors_stop=True)
    disk.injected[kind] = 1

    assert not allowances.must_recover_without_restart(healing, disk)


EVERY_CHANCE = FaultPlan(**{field.name: 0.5 for field in fields(FaultPlan) if field.name.endswith("_chance")})


def test_every_fault_kind_is_an_excuse_unless_the_store_must_not_notice_it() -> None:
    excused = {name for kinds in KINDS.values() for name in kinds}

    assert {*enabled_kinds(EVERY_CHANCE)} - excused == {
        *("lying sync", "short write", "refused mlock", "lost write", "misdirected write", "failed space query"),
        *("torn sector", "garbage sector"),  # only crashes cause these faults
    }


def test_healing_a_disk_keeps_only_faults_that_cause_no_error() -> None:
    left = without_transient_faults(EVERY_CHANCE)

    assert {field.name for field in fields(FaultPlan) if getattr(left, field.name) == 0.5} == {
        *("stopped_file_system_chance", "lying_sync_chance", "refused_lock_chance"),
        *("lost_write_chance", "misdirected_write_chance", "torn_bytes_chance", "garbage_chance"),
    }


def test_a_healed_disk_returns_no_errors_but_still_has_lying_syncs_and_torn_sectors() -> None:
    faults = FaultPlan(failed_map_chance=0.5, slow_io_chance=0.5, lying_sync_chance=0.5, torn_bytes_chance=0.5)

    assert without_transient_faults(faults) == FaultPlan(lying_sync_chance=0.5, torn_bytes_chance=0.5)

"""Smaller plans: how shrinking edits a plan and its record."""

from collections.abc import Callable
from dataclasses import replace

from tests.fixtures import QUIET_PLAN
from tornlog.faults.simulation.record import Record
from tornlog.faults.simulation.simulation import Crash
from tornlog.scenarios.campaigns.failures.failure import RunRecord
from tornlog.scenarios.campaigns.failures.shrink_plan import shrink_lives, shrink_workload, without_life
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.sim.choices import Decision
from tornlog.sim.schedule import TaskSwitch
from tornlog.sim.shrink import ShrinkSearch

LIVES = tuple(Life(LifeEnding.CRASH_AT_REST, "strict-posix", -1, "after", count) for count in (1, 2, 3))


def smallest(
    plan: Plan, still_fails: Callable[[Plan], bool], shrink: Callable[[ShrinkSearch[RunRecord]], None] = shrink_workload
) -> Plan:
    """Shrink a record with only a plan until it gets no smaller. A plan fails if `still_fails` is true."""
    best, before = Record((), (), (), plan), None
    while best != before:
        before = best
        search = ShrinkSearch(best, lambda record: record if still_fails(record.setup) else None, tries_max=1000)
        shrink(search)
        best = search.best
    return best.setup


def test_after_a_life_is_removed_later_lives_get_lower_numbers() -> None:
    decisions = (
        Decision("disk-0", "msync /store/disk-2/a ns", 1, 9, 1),
        Decision("disk-1", "torn", 1, 9, 1),
        Decision("disk-2", "torn", 1, 9, 1),
        Decision("life-2/producer-1", "m2.1.0 topic", 1, 2, 1),
        Decision("life-3/producer-group", "m0.1.0 comes back", 1, 2, 1),
        Decision("life-3/producer-group", "m1.1.0 comes back", 1, 2, 1),
        Decision("healed", "msync /store/commitlog/1 ns", 1, 9, 1),
    )
    schedule = (
        TaskSwitch("life-0/main", "store", 1, "life-0/flush"),
        TaskSwitch("life-1/main", "store", 1, "life-1/flush"),
        TaskSwitch("life-2/main", "~join life-2/producer-0", 1, "life-2/flush#2"),
        TaskSwitch("heal/main", "store", 1, "healed/flush"),
    )
    plan = replace(QUIET_PLAN, lives=LIVES, left_out=("m0.1.0", "m1.0.0", "m2.0.1", "m3.0.0"))
    crashes = tuple(Crash(f"life-{number}", "xfs", "after", "") for number in range(3))
    found = without_life(Record(decisions, schedule, crashes, plan), 1)

    assert [crash.life for crash in found.crashes] == ["life-0", "life-1"]

    assert [life.messages_each for life in found.setup.lives] == [1, 3]
    assert found.setup.left_out == ("m0.1.0", "m1.0.1", "m2.0.0")
    assert [str(one) for one in found.schedule] == [
        "life-0/main @ store #1 -> life-0/flush",
        "life-1/main @ ~join life-1/producer-0 #1 -> life-1/flush#2",
        "heal/main @ store #1 -> healed/flush",
    ]
    assert [(one.stream, one.label) for one in found.decisions][1:] == [
        ("disk-1", "torn"),
        ("life-1/producer-1", "m1.1.0 topic"),
        ("life-2/producer-group", "m0.1.0 comes back"),
        ("healed", "msync /store/commitlog/1 ns"),
    ]


def test_a_plan_that_needs_no_feature_shrinks_to_the_simplest_plan() -> None:
    plan = QUIET_PLAN.replace(
        lives=LIVES, consumers=2, producers=3, index={"slots": 5}, delay={"chance": 0.5}, consuming={"filtered": True}
    )
    plan = replace(plan, faults=replace(plan.faults, failed_sync_chance=0.5, slow_sync_chance=0.1))
    found = smallest(plan, lambda plan: True)

    assert len(found.lives) == 1
    assert found.lives[0].messages_each == 0
    assert (found.producers, found.consumers, found.index.slots, found.delay.chance) == (1, 0, 0, 0.0)
    assert not found.consuming.filtered
    assert (found.faults.failed_sync_chance, found.faults.slow_sync_chance) == (0.0, 0.0)


def test_shrinking_keeps_the_features_that_the_failure_needs() -> None:
    plan = QUIET_PLAN.replace(
        lives=LIVES, consumers=2, index={"slots": 5}, producers=3, messages={"body_bytes_max": 900}
    )
    plan = replace(plan, faults=replace(plan.faults, failed_sync_chance=0.5, slow_sync_chance=0.1))

    def still_fails(plan: Plan) -> bool:
        names = [life.messages_each for life in plan.lives]
        return (
            plan.faults.slow_sync_chance > 0
            and plan.index.slots > 0
            and plan.producers >= 2
            and plan.messages.body_bytes_max >= 137
            and names[-1] >= 2
            and not any(name.startswith(f"m{len(names) - 1}.1.1") for name in plan.left_out)
        )

    found = smallest(plan, still_fails)
    assert (found.producers, found.consumers, found.index.slots) == (2, 0, 5)
    assert (found.faults.failed_sync_chance, found.faults.slow_sync_chance) == (0.0, 0.1)
    assert found.messages.body_bytes_max == 137
    assert [life.messages_each for life in found.lives] == [2]
    assert found.left_out == ("m0.0.0", "m0.0.1", "m0.1.0")
    assert not found.heals


def test_shrinking_fills_files_with_fewer_larger_messages() -> None:
    """The run fails if all bodies together have at least 1500 bytes."""

    def still_fails(plan: Plan) -> bool:
        puts = plan.producers * plan.lives[0].messages_each - sum(name.startswith("m0.") for name in plan.left_out)
        return (
            plan.messages.equal_sizes >= (plan.messages.body_bytes_max > 100)
            and puts * plan.messages.body_bytes_max >= 1500
        )

    plan = QUIET_PLAN.replace(lives=LIVES[:1], producers=2, messages={"equal_sizes": False, "body_bytes_max": 100})
    plan = replace(plan, lives=(replace(plan.lives[0], messages_each=16),))
    found = smallest(plan, still_fails)
    puts = found.producers * found.lives[0].messages_each - sum(name.startswith("m0.") for name in found.left_out)
    assert puts <= 2
    assert found.messages.equal_sizes


def test_shrinking_replaces_life_endings_by_a_stop_or_a_crash_in_traffic() -> None:
    plan = replace(QUIET_PLAN, lives=(Life(LifeEnding.CRASH_IN_LOAD, "strict-posix", -1, "during", 3),))
    start = Record((), (), (Crash("life-0", "strict-posix", "during", "store /store/a #40"),), plan)

    def smallest_of(still_fails: Callable[[RunRecord], bool]) -> RunRecord:
        search = ShrinkSearch(start, lambda record: record if still_fails(record) else None, tries_max=1000)
        shrink_lives(search)
        return search.best

    stopped = smallest_of(lambda record: True)
    assert stopped.setup.lives[0].ending == "stop"
    assert stopped.crashes == ()

    in_traffic = smallest_of(lambda record: bool(record.crashes))
    assert in_traffic.setup.lives[0].ending == "crash in traffic"
    assert in_traffic.crashes == start.crashes

from collections.abc import Callable

import pytest

from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan
from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.simulation import CRASHES, Crash, Simulation, SimWorld
from tornlog.sim.choices import Choices
from tornlog.sim.errors import NoProgressError, TaskFailedError
from tornlog.sim.policies.random_walk import draw_policy
from tornlog.sim.policies.replay import ReplayPolicy


def simulate(seed: str = "1", crashes: list[Crash] | None = None) -> Simulation:
    return Simulation(Choices(seed), ReplayPolicy(), crashes=crashes)


def writing(path: str, data: bytes) -> Callable[[SimWorld], None]:
    return lambda world: world.files.write(path, data)


def listed_names(world: SimWorld) -> list[str]:
    return world.files.list_directory("/")


def test_a_life_mounts_the_disk_of_the_previous_life() -> None:
    with (run := simulate()).kernel:
        run.live("first", writing("/a", b"1"))

        assert run.live("second", lambda world: world.files.read("/a")) == b"1"
        assert run.crashes == ()


def test_a_crashed_life_returns_none_and_its_crash_operation_is_recorded() -> None:
    crash = Crash("first", "process-kill", "before", "write /a #2")
    with (run := simulate(crashes=[crash])).kernel:

        def body(world: SimWorld) -> str:
            world.files.write("/a", b"1")
            world.files.write("/a", b"2")
            return "done"

        assert run.live("first", body, crash_within=10) is None
        assert run.crashes == (crash,)
        assert run.live("second", lambda world: world.files.read("/a")) == b""


def test_a_crash_whose_operation_does_not_occur_happens_at_the_end() -> None:
    crash = Crash("first", "nothing-lost", "before", "write /b #1")
    with (run := simulate(crashes=[crash])).kernel:
        run.live("first", writing("/a", b"1"), crash_within=10)

        assert run.crashes == (crash._replace(point=""),)
        assert run.live("second", listed_names) == ["a"]


def test_a_life_without_a_planned_crash_has_no_losses() -> None:
    with (run := simulate(crashes=[])).kernel:
        run.live("first", writing("/a", b"1"), crash_within=10)

        assert run.crashes == (Crash("first", "nothing-lost", "after", ""),)
        assert run.live("second", listed_names) == ["a"]


def test_a_power_cut_after_a_kill_loses_the_page_cache() -> None:
    kept = Crash("first", "process-kill", "after", "")
    found = set()
    for seed in range(30):
        with (run := simulate(str(seed), [kept, Crash("second", "strict-posix", "after", "")])).kernel:
            run.live("first", writing("/a", b"1"), crash_within=10)
            assert run.live("second", listed_names, crash_within=10) == ["a"]
            found.add(tuple(run.live("third", listed_names) or ()))
            assert run.injected["crash process-kill"] == 1

    assert found == {(), ("a",)}


def test_crashes_are_drawn_at_any_allowed_operation_and_of_any_given_kind() -> None:
    drawn = set()
    for seed in range(60):
        with (run := simulate(str(seed))).kernel:
            run.live("first", writing("/a", b"1"), crash_within=3, profiles=("os-crash", "xfs"))
            (crash,) = run.crashes
            drawn.add(crash[1:])

    assert {profile for profile, _, _ in drawn} == {"os-crash", "xfs"}
    assert {point for _, _, point in drawn} == {"create /a #1", "write /a #1", ""}
    assert {moment for _, moment, _ in drawn} == {"before", "during", "after"}


def test_by_default_every_kind_of_crash_that_can_lose_data_is_drawn() -> None:
    drawn = set()
    for seed in range(120):
        with (run := simulate(str(seed))).kernel:
            run.live("first", writing("/a", b"1"), crash_within=3)
            drawn.add(run.crashes[0].profile)

    assert drawn == set(CRASHES)
    assert "nothing-lost" not in drawn


def test_operations_are_counted_for_each_life_that_is_to_crash() -> None:
    with (run := simulate(crashes=[])).kernel:
        run.live("first", writing("/a", b"1"), crash_within=10)
        run.live("second", writing("/a", b"2"))

    assert run.operations == {"first": {("create", "/a"): 1, ("write", "/a"): 1}}


def test_workload_steps_draw_from_separate_streams() -> None:
    run = simulate()
    taken = [(number, draw.randbelow(1000, "size")) for number, draw in run.steps("client", 3)]

    assert [number for number, _ in taken] == [1, 2, 3]
    labels = [decision.label for decision in run.choices.decisions()]
    assert [label for label in labels if label.endswith("taken")] == [f"step {number} taken" for number in (1, 2, 3)]
    assert "step 2 size" in labels


def test_omitting_a_workload_step_does_not_change_the_draws_of_others() -> None:
    run = simulate()
    whole = {number: draw.randbelow(1000, "size") for number, draw in run.steps("client", 4)}
    kept = [decision for decision in run.choices.decisions() if decision.label != "step 2 taken"]

    again = Simulation(Choices.for_replay(kept), ReplayPolicy())
    assert {number: draw.randbelow(1000, "size") for number, draw in again.steps("client", 4)} == {
        number: size for number, size in whole.items() if number != 2
    }


def test_changed_faults_and_timing_apply_to_later_disks() -> None:
    def sync(world: SimWorld) -> int:
        world.files.write("/a", b"1")
        world.files.sync("/a")
        return world.clock.monotonic_ns()

    with (run := simulate()).kernel:
        run.timing = SyncTiming(5_000_000, 5_000_000)
        assert run.live("first", sync) == 5_000_000
        run.faults = FaultPlan(failed_sync_chance=1.0)
        with pytest.raises(TaskFailedError, match="Input/output error"):
            run.live("second", sync)
        assert run.injected["failed sync"] == 1


def test_a_process_killed_by_a_fault_keeps_the_page_cache() -> None:
    def use(world: SimWorld) -> None:
        file = world.files.map("/a", 8192)
        file.store(0, b"1")
        file.store(4096, b"2")  # a page without space

    with (run := simulate()).kernel:
        run.faults, run.capacity_bytes = FaultPlan(sparse=True), 4096
        assert run.live("first", use) is None
        assert run.crashes == ()
        assert run.live("second", lambda world: world.files.read("/a")[:1]) == b"1"


class Tally:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1


def count_with_two_tasks(world: SimWorld) -> int:
    tally = Tally()
    for task in [world.tasks.spawn(name, tally.add) for name in "ab"]:
        task.join(None)
    return tally.count


def test_attribute_points_apply_to_the_named_classes_in_later_lives() -> None:
    def counts(*sources: type) -> set[tuple[int | None, int | None]]:
        found = set()
        for seed in range(30):
            choices = Choices(str(seed))
            run = Simulation(choices, draw_policy(choices.stream("schedule")))
            with run.kernel:
                before = run.live("before", count_with_two_tasks)
                run.switch_at_attributes(*sources)
                found.add((before, run.live("after", count_with_two_tasks)))
        assert "count" not in vars(Tally)
        return found

    assert counts(Tally) == {(2, 1), (2, 2)}
    assert counts() == {(2, 2)}


def test_attribute_points_raise_the_step_limit() -> None:
    def spin(world: SimWorld) -> None:
        for _ in range(150):
            world.tasks.sleep(0)

    for points in (True, False):
        run = Simulation(Choices("1"), ReplayPolicy(), step_limit=100)
        if points:
            run.switch_at_attributes(Tally)
            run.switch_at_attributes(Tally)
        with run.kernel:
            if points:
                run.live("life", spin)
            else:
                with pytest.raises(NoProgressError):
                    run.live("life", spin)


def test_a_failed_promise_has_its_text_and_the_actual_value() -> None:
    broken = PromiseBroken("puts are kept", "b'a' is gone")

    assert (broken.promise, broken.found) == ("puts are kept", "b'a' is gone")
    assert str(broken) == "puts are kept: b'a' is gone"

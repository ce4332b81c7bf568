from collections.abc import Callable
from functools import partial

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.disturbances import WINDOW_POINTS, DisturbancePlan, Disturbances
from tornlog.sim.errors import MachineDied, NoProgressError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import WaitReason
from tornlog.sim.policies import Policy
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.policies.replay import LabellingPolicy, ReplayPolicy
from tornlog.sim.trace import Trace

POINTS = 10 * WINDOW_POINTS
EVERYTHING = DisturbancePlan(
    paused_task_chance=0.3, paused_machine_chance=0.3, clock_step_chance=0.5, clock_step_ms_max=1000
)


class World:
    """Three tasks that add to a cell, under disturbances."""

    def __init__(
        self,
        plan: DisturbancePlan,
        policy: Policy | None = None,
        choices: Choices | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.choices = choices or Choices("disturbed")
        self.kernel = Kernel(policy or RandomWalk(self.choices.stream("schedule"), 8), trace=trace)
        self.machine = self.kernel.create_machine("m")
        self.disturbances = Disturbances(self.kernel, self.choices.stream("disturbances"), plan)
        self.offsets: list[int] = []
        self.alone_ns = 0

    def run(self, points: int = POINTS) -> int:
        tasks = self.machine.tasks
        cell = tasks.cell("count")

        def work() -> None:
            for _ in range(points // 3):
                cell.add(1)
                self.offsets.append(self.machine.wall_offset_ms)

        def main() -> int:
            workers = [tasks.spawn(f"worker-{number}", work) for number in range(3)]
            for worker in workers:
                worker.join(None)
            return cell.get()

        self.disturbances.start()
        return self.kernel.run(self.machine, main, time_limit_ns=3600 * 10**9)


def test_an_empty_disturbance_plan_causes_no_disturbance_and_no_draw(policy_of: Callable[[int], Policy]) -> None:
    world, plain = World(DisturbancePlan(), policy_of(1)), World(DisturbancePlan(), policy_of(1))
    world.run()
    plain.disturbances.start = lambda: None  # type: ignore[method-assign]
    plain.run()
    assert not world.disturbances.injected
    assert world.choices.stream("disturbances").draw_count == 0
    assert world.kernel.now_ns == 0
    assert world.kernel.digest() == plain.kernel.digest()


def test_a_paused_task_stops_while_other_tasks_continue(policy_of: Callable[[int], Policy]) -> None:
    world = World(DisturbancePlan(paused_task_chance=1.0, paused_task_ms_max=50), policy_of(2))
    assert world.run() == 3 * (POINTS // 3)
    assert world.disturbances.injected["paused task"] >= POINTS // WINDOW_POINTS
    assert set(world.disturbances.injected) == {"paused task"}
    assert world.kernel.now_ns >= 1_000_000  # all tasks except the paused ones had ended


def test_a_single_paused_task_continues_after_its_pause() -> None:
    world = World(DisturbancePlan(paused_task_chance=1.0, paused_task_ms_max=1))
    tasks = world.machine.tasks

    def main() -> None:
        for _ in range(5 * WINDOW_POINTS):
            tasks.sleep(0)

    world.disturbances.start()
    world.kernel.run(world.machine, main, time_limit_ns=10**9)

    assert world.kernel.now_ns == world.disturbances.injected["paused task"] * 1_000_000
    assert world.disturbances.paused_ns() == world.kernel.now_ns
    assert world.disturbances.injected["paused task"] in (4, 5)


def test_pausing_a_machine_advances_virtual_time_at_once(policy_of: Callable[[int], Policy]) -> None:
    world = World(DisturbancePlan(paused_machine_chance=1.0, paused_machine_ms_max=7), policy_of(3))
    world.run()
    paused = world.disturbances.injected["paused machine"]
    assert paused >= POINTS // WINDOW_POINTS
    assert paused * 1_000_000 <= world.kernel.now_ns <= paused * 7_000_000
    assert world.disturbances.paused_ns() == world.kernel.now_ns


def test_paused_time_before_the_given_moment_does_not_count() -> None:
    world = World(DisturbancePlan(paused_machine_chance=1.0, paused_machine_ms_max=7))
    world.run()
    first, second = world.disturbances.pauses[:2]
    all_ns = world.disturbances.paused_ns()
    assert world.disturbances.paused_ns(first.begin_ns + 1) == all_ns - 1
    assert world.disturbances.paused_ns(first.end_ns) == world.disturbances.paused_ns(second.begin_ns)
    assert world.disturbances.paused_ns(first.end_ns) == all_ns - (first.end_ns - first.begin_ns)
    assert world.disturbances.paused_ns(world.disturbances.paused_until_ns) == 0


def sleep_and_read_clocks(world: World, *sleeps_ms: int) -> list[int]:
    """Let one task sleep for each time. Return when each woke."""
    tasks, clock = world.machine.tasks, world.machine.clock
    woke_ns = {}

    def sleeper(ms: int) -> None:
        tasks.sleep(ms)
        woke_ns[ms] = clock.monotonic_ns()

    def main() -> None:
        for task in [tasks.spawn(f"sleeper-{ms}", lambda ms=ms: sleeper(ms)) for ms in sleeps_ms]:
            task.join(None)

    world.disturbances.start()
    world.kernel.run(world.machine, main, time_limit_ns=10**12)
    return [woke_ns[ms] for ms in sleeps_ms]


def test_timers_within_the_slack_fire_together_at_the_time_of_the_last() -> None:
    world = World(DisturbancePlan(timer_slack_us=3_000))
    assert sleep_and_read_clocks(world, 10, 12, 13, 14, 30) == [13_000_000] * 3 + [14_000_000, 30_000_000]
    assert world.disturbances.injected == {"late timers": 1}
    assert world.disturbances.paused_ns() == 3_000_000
    assert world.disturbances.paused_ns(12_999_999) == 3_000_000
    assert world.disturbances.paused_ns(13_000_000) == 0


def test_timers_fire_on_time_without_slack_and_after_a_stop() -> None:
    assert sleep_and_read_clocks(World(DisturbancePlan()), 10, 12) == [10_000_000, 12_000_000]
    world = World(DisturbancePlan(timer_slack_us=3_000))
    world.disturbances.start()
    world.disturbances.stop()
    world.disturbances.start = lambda: None  # type: ignore[method-assign]
    assert sleep_and_read_clocks(world, 10, 12) == [10_000_000, 12_000_000]


@pytest.mark.parametrize(("slack_us", "races"), [(0, False), (1_000, True)])
def test_tasks_that_wake_at_slightly_different_times_race_only_with_late_timers(slack_us: int, races: bool) -> None:
    def loses_an_addition(seed: int) -> bool:
        world = World(DisturbancePlan(timer_slack_us=slack_us), choices=Choices(f"race {seed}"))
        tasks, kernel = world.machine.tasks, world.kernel
        cell = tasks.cell("count")

        def add(delay_us: int) -> None:
            kernel.park(WaitReason("arrival"), delay_us * 1_000)
            cell.set(cell.get() + 1)  # not atomic

        def main() -> None:
            for task in [tasks.spawn(f"adder-{us}", partial(add, us)) for us in (500, 900)]:
                task.join(None)

        world.disturbances.start()
        kernel.run(world.machine, main, time_limit_ns=10**12)
        return cell.get() == 1

    assert any(loses_an_addition(seed) for seed in range(30)) is races


def test_timers_fire_late_after_a_pause_of_all_tasks() -> None:
    world = World(DisturbancePlan(paused_machine_chance=1.0, paused_machine_ms_max=10_000))
    tasks, clock = world.machine.tasks, world.machine.clock
    late = []

    def sleeper() -> None:
        for _ in range(20):
            due_ns = clock.monotonic_ns() + 1_000_000
            tasks.sleep(1)
            late.append(clock.monotonic_ns() - due_ns)

    def main() -> None:
        task = tasks.spawn("sleeper", sleeper)
        while not task.ended:
            for _ in range(50):
                tasks.sleep(0)
            tasks.sleep(1)

    world.disturbances.start()
    world.kernel.run(world.machine, main, time_limit_ns=3600 * 10**9)

    assert min(late) == 0
    assert max(late) > 0


def test_clock_steps_change_wall_time_but_not_monotonic_time(policy_of: Callable[[int], Policy]) -> None:
    plan = DisturbancePlan(clock_step_chance=1.0, clock_step_ms_max=500)
    world = World(plan, policy_of(4))
    world.run(8 * POINTS)
    steps = [after - before for before, after in zip(world.offsets, world.offsets[1:], strict=False) if after != before]

    assert world.disturbances.injected["clock step"] >= len(steps) > 50
    assert max(abs(step) for step in steps) <= 2 * 500
    assert any(step > 0 for step in steps)
    assert any(step < 0 for step in steps)
    back = [each.to_ms - each.from_ms for each in world.disturbances.set_back]
    assert set(back) & {step for step in steps if step < 0}
    assert max(back) < 0
    assert world.kernel.now_ns == 0


def test_a_last_clock_step_happens_only_when_it_is_called() -> None:
    world = World(DisturbancePlan(last_clock_step_ms=-500))
    world.run()
    assert set(world.offsets) == {0}

    other = world.kernel.create_machine("other")
    before_ms = other.clock.now_ms()
    world.kernel.run(other, world.disturbances.step_clock_last, time_limit_ns=1)
    assert other.clock.now_ms() == before_ms - 500
    assert world.disturbances.set_back == [(before_ms, before_ms - 500)]


@pytest.mark.parametrize("seed", range(5))
def test_disturbances_do_not_depend_on_how_often_the_policy_is_called(seed: int) -> None:
    """The kernel calls a replay policy at every point, and the run must be the same."""
    world = World(EVERYTHING, choices=Choices(str(seed)))
    world.run()
    labels = [entry[2] for entry in world.kernel.schedule]
    again = World(EVERYTHING, LabellingPolicy(world.kernel.schedule), Choices.for_replay(world.choices.decisions()))
    again.run()

    assert [entry[2] for entry in again.kernel.schedule] == labels
    assert again.offsets == world.offsets
    assert again.disturbances.injected == world.disturbances.injected
    assert again.kernel.digest() == world.kernel.digest()


def test_removing_one_disturbance_does_not_move_the_others() -> None:
    plan = DisturbancePlan(clock_step_chance=0.5)
    world = World(plan)
    world.run()
    decisions = [decision for decision in world.choices.decisions() if decision.stream == "disturbances"]
    first = next(decision for decision in decisions if decision.label.startswith("clock step in window"))
    again = World(plan, ReplayPolicy([]), Choices.for_replay(entry for entry in decisions if entry != first))
    again.run()
    assert again.disturbances.injected["clock step"] == world.disturbances.injected["clock step"] - 1


def test_there_are_no_disturbances_before_start_and_after_stop() -> None:
    world = World(EVERYTHING)
    world.run()
    before = +world.disturbances.injected
    world.disturbances.stop()
    world.disturbances.stop()  # harmless
    other = world.kernel.create_machine("other")

    def main() -> None:
        for _ in range(POINTS):
            other.tasks.sleep(0)

    now_ns = world.kernel.now_ns
    world.kernel.run(other, main, time_limit_ns=10**9)

    assert before
    assert world.disturbances.injected == before
    assert (world.kernel.now_ns, other.wall_offset_ms) == (now_ns, 0)


def test_a_second_source_of_disturbances_for_a_kernel_is_refused() -> None:
    world = World(EVERYTHING)
    world.disturbances.start()
    with pytest.raises(AssertionError, match="already"):
        Disturbances(world.kernel, world.choices.stream("more"), EVERYTHING).start()


def test_a_machine_dies_with_its_paused_tasks() -> None:
    world = World(DisturbancePlan(paused_task_chance=1.0))
    tasks = world.machine.tasks
    ended = []

    def work() -> None:
        try:
            while True:
                tasks.sleep(0)
        finally:
            ended.append(True)

    def main() -> None:
        tasks.spawn("worker", work)
        for _ in range(3 * WINDOW_POINTS):
            tasks.sleep(0)
        world.kernel.kill(world.machine)
        tasks.sleep(0)

    world.disturbances.start()
    with pytest.raises(MachineDied):
        world.kernel.run(world.machine, main, time_limit_ns=3600 * 10**9)

    assert ended == [True]


def test_the_step_limit_also_holds_under_disturbances() -> None:
    choices = Choices("limit")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 64), step_limit=3 * WINDOW_POINTS)
    machine = kernel.create_machine("m")
    Disturbances(kernel, choices.stream("disturbances"), EVERYTHING).start()

    def main() -> None:
        while True:
            machine.tasks.sleep(0)

    with pytest.raises(NoProgressError, match="step limit"):
        kernel.run(machine, main, time_limit_ns=3600 * 10**9)
    assert kernel.steps == 3 * WINDOW_POINTS


def test_a_trace_names_each_disturbance_and_its_task() -> None:
    trace = Trace()
    world = World(EVERYTHING, trace=trace)
    world.run()
    told = [event for event in trace if event.kind in world.disturbances.injected]
    assert len(told) == world.disturbances.injected.total() > 0
    assert {event.text for event in told} <= {f"m/{name}" for name in ("main", "worker-0", "worker-1", "worker-2")}


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_a_service_that_wakes_up_pauses_soon(chance: float) -> None:
    plan = DisturbancePlan(paused_task_chance=1e-9, paused_task_ms_max=50, paused_woken_chance=chance)
    world = World(plan, trace=Trace())
    tasks = world.machine.tasks
    cell, signal = tasks.cell("steps"), tasks.signal("service")

    def work() -> None:
        for _ in range(100):
            cell.add(1)

    def serve() -> None:
        for _ in range(5):
            signal.wait(1_000)
            world.disturbances.pause_woken()
            work()

    def main() -> None:
        service, others = tasks.spawn("service", serve), [tasks.spawn(f"other-{number}", work) for number in range(3)]
        for task in (service, *others):
            task.join(None)

    world.disturbances.start()
    world.kernel.run(world.machine, main, time_limit_ns=3600 * 10**9)
    assert world.disturbances.injected["paused task"] == 5 * chance
    assert all(pause.begin_ns >= 10**9 for pause in world.disturbances.pauses), "the other tasks end at once"

import gc
from collections.abc import Callable

import pytest

from tests.sim.rigs import make, walk
from tornlog.sim.errors import TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine, SimTask, WaitReason
from tornlog.sim.policies import Policy

SECOND_NS = 1_000_000_000


def count_together(machine: Machine, tasks: int, rounds: int) -> list[str]:
    """Let tasks add to one cell; return their order."""
    order: list[str] = []
    cell = machine.tasks.cell("count")

    def body(name: str) -> None:
        for _ in range(rounds):
            cell.add(1)
            order.append(name)

    running = [machine.tasks.spawn(name, lambda name=name: body(name)) for name in "abcdef"[:tasks]]
    for task in running:
        assert task.join(None)
    return order


def test_the_schedule_depends_on_the_seed_and_on_nothing_else() -> None:
    def order_of(seed: int) -> tuple[str, str]:
        kernel, machine = make(walk(seed))
        order = kernel.run(machine, lambda: count_together(machine, 3, 5), time_limit_ns=0)
        return "".join(order), kernel.digest()

    assert order_of(3) == order_of(3)
    assert len({order_of(seed) for seed in range(30)}) == 30


def test_steps_count_scheduling_points_for_any_quanta(policy_of: Callable[[int], Policy]) -> None:
    def steps_at_mean(seed: int) -> int:
        kernel, machine = make(policy_of(seed))
        kernel.run(machine, lambda: count_together(machine, 3, 50), time_limit_ns=0)
        return kernel.steps

    # 3 spawns, 150 adds, 3 joins are the only points.
    assert [steps_at_mean(seed) for seed in range(5)] == [156] * 5


def test_time_advances_to_the_next_timer_only_when_no_task_can_run(policy_of: Callable[[int], Policy]) -> None:
    kernel, machine = make(policy_of(1))

    def main() -> list[int]:
        seen = [machine.clock.monotonic_ns()]
        count_together(machine, 3, 20)
        seen.append(machine.clock.monotonic_ns())
        machine.tasks.sleep(250)
        seen.append(machine.clock.monotonic_ns())
        return seen

    assert kernel.run(machine, main, time_limit_ns=SECOND_NS) == [0, 0, 250_000_000]


class FirstCome:
    """Runs the first task in runnable until it blocks."""

    name = "first-come"
    interrupts_on_wake = False

    def choose_task(self, runnable: object, current: object, label: str, step: int) -> int:
        return 0

    def quantum(self, chosen: object, step: int) -> int:
        return 1000


def test_timers_fire_by_time_and_equal_times_in_the_order_they_were_set() -> None:
    kernel, machine = make(FirstCome())
    woken: list[str] = []

    def sleeper(name: str, ms: int) -> None:
        machine.tasks.sleep(ms)
        woken.append(name)

    def main() -> None:
        plan = [("late", 9), ("a", 5), ("early", 1), ("b", 5), ("c", 5)]
        tasks = [machine.tasks.spawn(name, lambda n=name, t=ms: sleeper(n, t)) for name, ms in plan]
        for task in tasks:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=SECOND_NS)

    assert woken == ["early", "a", "b", "c", "late"]


def test_a_timer_of_an_earlier_wait_has_no_effect() -> None:
    kernel, machine = make()
    signal, why = machine.tasks.signal("s"), WaitReason("something")

    def main() -> tuple[bool, int]:
        machine.tasks.spawn("notifier", signal.notify)
        assert signal.wait(10)
        woken = kernel.park(why, kernel.now_ns + 50_000_000)
        return woken, kernel.now_ns

    assert kernel.run(machine, main, time_limit_ns=SECOND_NS) == (False, 50_000_000)


@pytest.mark.parametrize(("due_ms", "hastened_to_ms", "ends_ms"), [(50, 20, 20), (20, 50, 20), (None, 20, 20)])
def test_hastening_a_parked_task_moves_its_wake_up_to_an_earlier_time(
    due_ms: int | None, hastened_to_ms: int, ends_ms: int
) -> None:
    kernel, machine = make()
    main_task = []

    def hasten() -> None:
        kernel.limit_wait_to(main_task[0], hastened_to_ms * 1_000_000)

    def main() -> tuple[bool, int, bool, int]:
        main_task.append(kernel.current)
        machine.tasks.spawn("other", hasten)
        first = kernel.park(WaitReason("something"), None if due_ms is None else due_ms * 1_000_000)
        first_ns = kernel.now_ns
        return first, first_ns, kernel.park(WaitReason("something else"), 90_000_000), kernel.now_ns

    ends_ns = ends_ms * 1_000_000
    assert kernel.run(machine, main, time_limit_ns=SECOND_NS) == (False, ends_ns, False, 90_000_000)


@pytest.mark.parametrize(
    "call", [lambda task: task.machine.kernel.wake(task), lambda task: task.machine.kernel.limit_wait_to(task, 5)]
)
def test_waking_or_hastening_a_task_that_is_not_parked_has_no_effect(call: Callable[[SimTask], None]) -> None:
    kernel, machine = make()

    def main() -> bool:
        call(kernel.current)
        return kernel.park(WaitReason("nothing"), 1_000)

    assert kernel.run(machine, main, time_limit_ns=SECOND_NS) is False
    assert kernel.now_ns == 1_000


def test_a_task_that_fails_ends_the_run_with_its_name_and_cause() -> None:
    kernel, machine = make(name="broker")
    cleaned: list[str] = []

    def service() -> None:
        raise ValueError("no such queue")

    def main() -> None:
        machine.tasks.spawn("dispatch", service)
        try:
            machine.tasks.sleep(1000)
        finally:
            cleaned.append("main")

    with pytest.raises(TaskFailedError, match="broker/dispatch failed: ValueError: no such queue") as caught:
        kernel.run(machine, main, time_limit_ns=SECOND_NS * 10)

    assert isinstance(caught.value.__cause__, ValueError)
    assert cleaned == ["main"]
    assert not machine.alive


def test_a_keyboard_interrupt_inside_a_task_ends_the_run_and_stops_all_machines() -> None:
    kernel, machine = make()
    cleaned: list[str] = []

    def sleeper() -> None:
        try:
            machine.tasks.sleep(1000)
        finally:
            cleaned.append("sleeper")

    def main() -> None:
        machine.tasks.spawn("sleeper", sleeper)
        machine.tasks.sleep(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel.run(machine, main, time_limit_ns=SECOND_NS)

    assert cleaned == ["sleeper"]
    assert not machine.live_tasks


def test_the_kernel_can_run_another_machine_after_a_death() -> None:
    kernel = Kernel(walk())
    first, second = kernel.create_machine("life-1"), kernel.create_machine("life-2")
    kernel.run(first, lambda: first.tasks.sleep(5), time_limit_ns=SECOND_NS)
    digest, steps = kernel.digest(), kernel.steps
    kernel.run(second, lambda: count_together(second, 2, 5), time_limit_ns=0)
    assert kernel.now_ns == 5_000_000
    assert kernel.steps == steps + 14
    assert kernel.digest() != digest


def test_tasks_of_another_machine_continue_in_the_next_run() -> None:
    seen: list[int] = []
    with Kernel(walk()) as kernel:
        server, one, two = kernel.create_machine("server"), kernel.create_machine("one"), kernel.create_machine("two")

        def serve() -> None:
            while True:
                server.tasks.sleep(10)
                seen.append(kernel.now_ns // 1_000_000)

        server.tasks.spawn("serve", serve)
        kernel.run(one, lambda: one.tasks.sleep(25), time_limit_ns=SECOND_NS)
        assert seen == [10, 20]
        kernel.run(two, lambda: two.tasks.sleep(20), time_limit_ns=SECOND_NS)
        assert seen == [10, 20, 30, 40]
        assert server.alive
    assert not server.alive
    assert not server.live_tasks


def test_a_machine_name_cannot_be_used_twice() -> None:
    kernel = Kernel(walk())
    kernel.create_machine("broker")
    with pytest.raises(ValueError, match="machine broker"):
        kernel.create_machine("broker")


def test_running_a_kernel_inside_itself_is_refused() -> None:
    kernel = Kernel(walk())
    inner = kernel.create_machine("inner")
    with pytest.raises(TaskFailedError, match="running already"):
        kernel.run(
            kernel.create_machine("outer"), lambda: kernel.run(inner, lambda: None, time_limit_ns=0), time_limit_ns=0
        )


def test_outside_of_tasks_scheduling_points_do_nothing_and_blocking_is_an_error() -> None:
    kernel = Kernel(walk())
    tasks = kernel.create_machine("m").tasks
    cell, lock = tasks.cell("c"), tasks.lock("l")

    for _ in range(3):
        cell.add(2)
    with lock:
        pass
    assert cell.get() == 6
    assert kernel.steps == 0
    with pytest.raises(RuntimeError, match="sleep: would block, outside of any task"):
        tasks.sleep(1)


def test_each_schedule_entry_has_points_label_and_task() -> None:
    kernel, machine = make(FirstCome())
    lock = machine.tasks.lock("l")

    def holder() -> None:
        with lock:
            machine.tasks.sleep(1)

    def main() -> None:
        tasks = [machine.tasks.spawn(name, holder) for name in "ab"]
        for task in tasks:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=SECOND_NS)

    # spawn, spawn, join | a: lock | b: lock, no other task while a sleeps | a: unlock wakes b
    assert kernel.schedule == [[3, "~join m/a", "m/a"], [3, "~end", "m/b"]]


def test_a_closed_kernel_is_collected_even_after_collections_during_its_run() -> None:
    def run_and_forget() -> None:
        with Kernel(walk(mean=1)) as kernel:
            machine = kernel.create_machine("to be forgotten")

            def body() -> None:
                signal = machine.tasks.signal("never")
                for number in range(3):
                    machine.tasks.spawn(f"waiter-{number}", lambda: waited.append(signal.wait(10_000)))
                machine.tasks.sleep(1)
                gc.collect()  # a collection does not look into suspended greenlets, and untracks their holders

            kernel.run(machine, body, time_limit_ns=SECOND_NS)

    waited: list[bool] = []
    run_and_forget()
    gc.collect()

    machines = [found for found in gc.get_objects() if type(found) is Machine]  # a dead proxy has no class
    assert not any(machine.name == "to be forgotten" for machine in machines)


def remaining_recursion_depth(made: int = 0) -> int:
    try:
        return remaining_recursion_depth(made + 1)
    except RecursionError:
        return made


def test_a_long_chain_of_spawns_does_not_exceed_the_recursion_limit() -> None:
    kernel, machine = make(walk(mean=1))
    left = []

    def start_another(number: int) -> None:
        left.append(remaining_recursion_depth())
        if number:
            machine.tasks.spawn("next", lambda: start_another(number - 1)).join(None)

    kernel.run(machine, lambda: start_another(400), time_limit_ns=0)
    assert set(left[1:]) == {left[1]}
    assert len(left) == 401


def test_runs_do_not_reduce_the_available_recursion_depth() -> None:
    before = remaining_recursion_depth()
    for seed in range(100):
        with Kernel(walk(seed)) as kernel:
            machine, other = kernel.create_machine("m"), kernel.create_machine("other")
            for _ in range(3):
                kernel.spawn(other, "sleeper", lambda tasks=other.tasks: tasks.sleep(1_000))
            kernel.run(machine, lambda tasks=machine.tasks: tasks.sleep(1), time_limit_ns=SECOND_NS)
            kernel.kill(other)
    assert remaining_recursion_depth() == before

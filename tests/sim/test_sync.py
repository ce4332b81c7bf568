from collections.abc import Callable

import pytest

from tornlog.sim.errors import TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine
from tornlog.sim.policies import Policy

LIMIT_NS = 10_000_000_000
MakePolicy = Callable[[int], Policy]


def run_each_seed(
    policy_of: MakePolicy, seeds: int, main_of: Callable[[Machine], Callable[[], object]]
) -> list[object]:
    results = []
    for seed in range(seeds):
        kernel = Kernel(policy_of(seed))
        machine = kernel.machine("m")
        results.append(kernel.run(machine, main_of(machine), time_limit_ns=LIMIT_NS))
        assert machine.leftover_tasks == []
    return results


def test_a_lock_lets_one_in_at_a_time(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], int]:
        tasks = machine.tasks
        lock, total, inside = tasks.lock("l"), tasks.cell("total"), tasks.cell("inside")

        def add_up() -> None:
            for _ in range(10):
                with lock:
                    assert inside.add(1) == 1
                    before = total.get()
                    total.set(before + 1)
                    inside.add(-1)

        def main() -> int:
            for task in [tasks.spawn(name, add_up) for name in "abcd"]:
                task.join(None)
            return total.get()

        return main

    assert run_each_seed(policy_of, 60, main_of) == [40] * 60


def test_without_the_lock_the_same_sum_loses_updates(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], int]:
        total = machine.tasks.cell("total")

        def add_up() -> None:
            for _ in range(10):
                total.set(total.get() + 1)

        def main() -> int:
            for task in [machine.tasks.spawn(name, add_up) for name in "ab"]:
                task.join(None)
            return total.get()

        return main

    totals = run_each_seed(policy_of, 60, main_of)
    if getattr(policy_of(0), "_changes", None) == []:
        assert totals == [20] * 60  # PCT of depth 1 never preempts
    else:
        assert min(totals) < 20


def test_waiters_may_be_overtaken_so_the_order_of_entry_varies(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], str]:
        lock = machine.tasks.lock("l")
        order: list[str] = []

        def enter(name: str) -> None:
            for _ in range(3):
                with lock:
                    order.append(name)

        def main() -> str:
            for task in [machine.tasks.spawn(name, lambda name=name: enter(name)) for name in "ab"]:
                task.join(None)
            return "".join(order)

        return main

    orders = run_each_seed(policy_of, 60, main_of)
    assert all(sorted(order) == list("aaabbb") for order in orders)
    assert len(set(orders)) > 1


def test_a_lock_is_released_when_its_block_fails(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], bool]:
        lock = machine.tasks.lock("l")

        def main() -> bool:
            with pytest.raises(ValueError, match="inside"), lock:
                raise ValueError("inside")
            with lock:
                return True

        return main

    assert run_each_seed(policy_of, 5, main_of) == [True] * 5


def test_taking_a_lock_twice_is_an_error_naming_lock_and_holder(policy_of: MakePolicy) -> None:
    kernel = Kernel(policy_of(1))
    machine = kernel.machine("broker")
    lock = machine.tasks.lock("put")

    def main() -> None:
        with lock, lock:
            pass

    with pytest.raises(TaskFailedError, match="lock put: broker/main holds it already"):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)


def test_a_notice_before_the_wait_is_remembered_once(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], list[bool]]:
        signal = machine.tasks.signal("s")

        def main() -> list[bool]:
            signal.notify()
            signal.notify()
            return [signal.wait(None), signal.wait(5), signal.wait(0)]

        return main

    assert run_each_seed(policy_of, 10, main_of) == [[True, False, False]] * 10


def test_a_wait_that_times_out_lets_its_time_pass(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], tuple[bool, int]]:
        signal = machine.tasks.signal("s")
        return lambda: (signal.wait(12), machine.clock.monotonic_ns())

    assert run_each_seed(policy_of, 3, main_of) == [(False, 12_000_000)] * 3


def test_a_notice_that_meets_the_time_out_is_not_lost(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], int]:
        tasks = machine.tasks
        signal = tasks.signal("s")

        def notify_at_the_same_moment() -> None:
            tasks.sleep(5)
            signal.notify()

        def main() -> int:
            notifier = tasks.spawn("notifier", notify_at_the_same_moment)
            notices = int(signal.wait(5))
            notifier.join(None)
            return notices + int(signal.wait(0))

        return main

    assert run_each_seed(policy_of, 40, main_of) == [1] * 40


def test_every_wake_up_call_reaches_a_service_that_looks_after_each_wait(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], int]:
        tasks = machine.tasks
        signal, asked, served = tasks.signal("s"), tasks.cell("asked"), tasks.cell("served")

        def serve() -> None:
            while served.get() < 30:
                signal.wait(None)
                served.set(asked.get())

        def ask() -> None:
            for _ in range(10):
                asked.add(1)
                signal.notify()

        def main() -> int:
            service = tasks.spawn("service", serve)
            for task in [tasks.spawn(name, ask) for name in "abc"]:
                task.join(None)
            service.join(None)
            return served.get()

        return main

    assert run_each_seed(policy_of, 40, main_of) == [30] * 40


def test_each_notice_frees_one_of_several_waiters(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], tuple[int, int]]:
        tasks = machine.tasks
        signal, freed = tasks.signal("s"), tasks.cell("freed")

        def wait() -> None:
            if signal.wait(100):
                freed.add(1)

        def main() -> tuple[int, int]:
            waiting = [tasks.spawn(name, wait) for name in "abc"]
            tasks.sleep(10)
            signal.notify()
            tasks.sleep(10)
            after_one = freed.get()
            signal.notify()
            for task in waiting:
                task.join(None)
            return after_one, freed.get()

        return main

    assert run_each_seed(policy_of, 20, main_of) == [(1, 2)] * 20


def test_a_cell_gets_sets_adds_and_compares(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], list[object]]:
        cell = machine.tasks.cell("c", 3)

        def main() -> list[object]:
            results: list[object] = [cell.get(), cell.add(-5), cell.compare_and_set(7, 8), cell.get()]
            results += [cell.compare_and_set(-2, 8), cell.get()]
            cell.set(1)
            return [*results, cell.get()]

        return main

    assert run_each_seed(policy_of, 2, main_of) == [[3, -2, False, -2, True, 8, 1]] * 2


def test_compare_and_set_counts_right_without_a_lock(policy_of: MakePolicy) -> None:
    def main_of(machine: Machine) -> Callable[[], int]:
        total = machine.tasks.cell("total")

        def add_up() -> None:
            for _ in range(10):
                seen = total.get()
                while not total.compare_and_set(seen, seen + 1):
                    seen = total.get()

        def main() -> int:
            for task in [machine.tasks.spawn(name, add_up) for name in "abc"]:
                task.join(None)
            return total.get()

        return main

    assert run_each_seed(policy_of, 30, main_of) == [30] * 30


def test_every_operation_is_one_scheduling_point_before_it_takes_effect(policy_of: MakePolicy) -> None:
    kernel = Kernel(policy_of(1))
    machine = kernel.machine("m")
    lock, signal, cell = machine.tasks.lock("l"), machine.tasks.signal("s"), machine.tasks.cell("c")
    steps: list[int] = []

    def main() -> None:
        calls: list[Callable[[], object]] = [
            lock.__enter__,
            lock.__exit__,
            signal.notify,
            lambda: signal.wait(None),
            cell.get,
            lambda: cell.set(1),
            lambda: cell.add(1),
            lambda: cell.compare_and_set(2, 3),
            lambda: machine.tasks.sleep(0),
        ]
        for call in calls:
            before = kernel.steps
            call()
            steps.append(kernel.steps - before)

    kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    assert steps == [1] * 9

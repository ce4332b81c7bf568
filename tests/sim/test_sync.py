from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from tests.sim.rigs import LIMIT_NS, MakePolicy, make, under_each_policy
from tornlog.sim.machine import Machine

T = TypeVar("T")


def run_together(machine: Machine, names: str, body: Callable[[], None]) -> None:
    for task in [machine.tasks.spawn(name, body) for name in names]:
        task.join(None)


@under_each_policy(seeds=60)
def test_a_lock_admits_one_task_at_a_time(machine: Machine) -> None:
    tasks = machine.tasks
    lock, total, inside = tasks.lock("l"), tasks.cell("total"), tasks.cell("inside")

    def add_up() -> None:
        for _ in range(10):
            with lock:
                assert inside.add(1) == 1
                before = total.get()
                total.set(before + 1)
                inside.add(-1)

    run_together(machine, "abcd", add_up)
    assert total.get() == 40


def results_of(policy_of: MakePolicy, main: Callable[[Machine], T]) -> list[T]:
    results = []
    for seed in range(60):
        kernel, machine = make(policy_of(seed))
        results.append(kernel.run(machine, partial(main, machine), time_limit_ns=LIMIT_NS))
    return results


def test_without_the_lock_concurrent_additions_lose_updates(policy_of: MakePolicy) -> None:
    def main(machine: Machine) -> int:
        total = machine.tasks.cell("total")

        def add_up() -> None:
            for _ in range(10):
                total.set(total.get() + 1)

        run_together(machine, "ab", add_up)
        return total.get()

    totals = results_of(policy_of, main)
    if getattr(policy_of(0), "_change_steps", None) == []:
        assert totals == [20] * 60  # PCT of depth 1 never preempts
    else:
        assert min(totals) < 20


def test_waiters_for_a_lock_may_overtake_each_other(policy_of: MakePolicy) -> None:
    def main(machine: Machine) -> str:
        lock = machine.tasks.lock("l")
        order: list[str] = []

        def enter(name: str) -> None:
            for _ in range(3):
                with lock:
                    order.append(name)

        for task in [machine.tasks.spawn(name, lambda name=name: enter(name)) for name in "ab"]:
            task.join(None)
        return "".join(order)

    orders = results_of(policy_of, main)
    assert all(sorted(order) == list("aaabbb") for order in orders)
    assert len(set(orders)) > 1


@under_each_policy(seeds=1)
def test_acquiring_a_held_lock_again_is_an_error_that_names_lock_and_holder(machine: Machine) -> None:
    lock = machine.tasks.lock("put")
    with pytest.raises(RuntimeError, match="lock put: m/main holds it already"), lock, lock:
        pass


@under_each_policy(seeds=3)
def test_a_wait_that_times_out_advances_time_by_its_timeout(machine: Machine) -> None:
    assert not machine.tasks.signal("s").wait(12)
    assert machine.clock.monotonic_ns() == 12_000_000


@under_each_policy(seeds=40)
def test_a_notify_at_the_moment_of_the_timeout_is_not_lost(machine: Machine) -> None:
    tasks = machine.tasks
    signal = tasks.signal("s")

    def notify_at_the_same_moment() -> None:
        tasks.sleep(5)
        signal.notify()

    notifier = tasks.spawn("notifier", notify_at_the_same_moment)
    notices = int(signal.wait(5))
    notifier.join(None)
    assert notices + int(signal.wait(0)) == 1


@under_each_policy(seeds=40)
def test_a_service_that_checks_after_each_wait_misses_no_notify(machine: Machine) -> None:
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

    service = tasks.spawn("service", serve)
    run_together(machine, "abc", ask)
    service.join(None)
    assert served.get() == 30


@under_each_policy(seeds=20)
def test_each_notify_wakes_one_of_several_waiters(machine: Machine) -> None:
    tasks = machine.tasks
    signal, freed = tasks.signal("s"), tasks.cell("freed")

    def wait() -> None:
        if signal.wait(100):
            freed.add(1)

    waiting = [tasks.spawn(name, wait) for name in "abc"]
    tasks.sleep(10)
    signal.notify()
    tasks.sleep(10)
    assert freed.get() == 1
    signal.notify()
    for task in waiting:
        task.join(None)
    assert freed.get() == 2


@under_each_policy(seeds=30)
def test_compare_and_set_without_a_lock_loses_no_update(machine: Machine) -> None:
    total = machine.tasks.cell("total")

    def add_up() -> None:
        for _ in range(10):
            seen = total.get()
            while not total.compare_and_set(seen, seen + 1):
                seen = total.get()

    run_together(machine, "abc", add_up)
    assert total.get() == 30


@under_each_policy(seeds=1)
def test_every_operation_is_one_scheduling_point_before_it_takes_effect(machine: Machine) -> None:
    lock, signal, cell = machine.tasks.lock("l"), machine.tasks.signal("s"), machine.tasks.cell("c")
    calls: list[Callable[[], object]] = [
        *(lock.__enter__, lambda: lock.__exit__(), signal.notify, lambda: signal.wait(None), cell.get),
        *(lambda: cell.set(1), lambda: cell.add(1), lambda: cell.compare_and_set(2, 3)),
        lambda: machine.tasks.sleep(0),
    ]
    for call in calls:
        before = machine.kernel.steps
        call()
        assert machine.kernel.steps == before + 1

import re

import pytest

from tests.sim.rigs import make, walk
from tornlog.sim.choices import Choices
from tornlog.sim.errors import DeadlockError, NoProgressError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

LIMIT_NS = 1_000_000_000


def make_kernel(step_limit: int = 10_000) -> Kernel:
    return Kernel(RandomWalk(Choices("1").stream("policy"), 4), step_limit=step_limit)


def test_a_deadlock_error_names_every_task_with_its_wait_and_the_lock_holder() -> None:
    kernel = make_kernel()
    machine = kernel.create_machine("broker")
    lock, signal = machine.tasks.lock("put"), machine.tasks.signal("group-commit")
    cleaned: list[str] = []

    def producer() -> None:
        try:
            with lock:
                signal.wait(None)
        finally:
            cleaned.append("producer")

    def main() -> None:
        task = machine.tasks.spawn("producer-1", producer)
        machine.tasks.sleep(10)
        machine.tasks.spawn("producer-2", producer)
        task.join(None)

    with pytest.raises(DeadlockError) as caught:
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    assert str(caught.value).splitlines() == [
        "deadlock at 10 ms, step 6: no task can run and no timer is set",
        "  broker/main: join broker/producer-1",
        "  broker/producer-1: signal group-commit",
        "  broker/producer-2: lock put held by broker/producer-1",
    ]
    assert cleaned == ["producer", "producer"]
    assert not machine.alive


def test_two_locks_taken_in_opposite_order_deadlock_under_some_seed() -> None:
    def waits_of(seed: int) -> list[str]:
        kernel, machine = make(walk(seed, 2))
        one, two = machine.tasks.lock("one"), machine.tasks.lock("two")

        def forth() -> None:
            with one, two:
                pass

        def back() -> None:
            with two, one:
                pass

        def main() -> None:
            for task in [machine.tasks.spawn("forth", forth), machine.tasks.spawn("back", back)]:
                task.join(None)

        try:
            kernel.run(machine, main, time_limit_ns=LIMIT_NS)
        except DeadlockError as error:
            return error.waits
        return []

    outcomes = [waits_of(seed) for seed in range(50)]
    deadlocks = [waits for waits in outcomes if waits]
    assert 0 < len(deadlocks) < 50
    assert all("m/forth: lock two held by m/back" in waits for waits in deadlocks)


def test_exceeding_the_virtual_time_limit_is_reported_as_no_progress_with_wake_up_times() -> None:
    kernel = make_kernel()
    machine = kernel.create_machine("broker")
    signal = machine.tasks.signal("flush")

    def main() -> None:
        machine.tasks.sleep(900)
        machine.tasks.spawn("flush", lambda: signal.wait(200))
        machine.tasks.sleep(150)

    with pytest.raises(NoProgressError) as caught:
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    assert str(caught.value).splitlines() == [
        "not finished at 900 ms, step 2: the next timer is past the time limit of 1000 ms",
        "  broker/main: sleep until +150 ms",
        "  broker/flush: signal flush until +200 ms",
    ]


def test_the_error_at_the_step_limit_names_the_busiest_tasks_and_lists_runnable_tasks_first() -> None:
    kernel = make_kernel(step_limit=1000)
    machine = kernel.create_machine("m")
    cell = machine.tasks.cell("never")

    def spin() -> None:
        while cell.get() == 0:
            pass

    def main() -> None:
        machine.tasks.spawn("sleeper", lambda: machine.tasks.sleep(10))
        for _ in range(2):
            machine.tasks.spawn("spinner", spin)
        machine.tasks.sleep(5)

    with pytest.raises(NoProgressError) as caught:
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    busy, waits = caught.value.waits[:2], caught.value.waits[2:]
    assert all(
        re.fullmatch(r"m/spinner(#2)?: took \d\d % of the last 9\d\d steps, often at cell never.get", line)
        for line in busy
    )
    assert sorted(waits[:2]) == ["m/spinner#2: runnable", "m/spinner: runnable"]
    assert waits[2:] == ["m/main: sleep until +5 ms", "m/sleeper: sleep until +10 ms"]


def test_the_time_limit_counts_from_the_start_of_each_run() -> None:
    kernel = make_kernel()
    for name in ("first", "second", "third"):
        machine = kernel.create_machine(name)
        kernel.run(machine, lambda machine=machine: machine.tasks.sleep(900), time_limit_ns=LIMIT_NS)
    assert kernel.now_ns == 2_700_000_000


def test_a_task_that_loops_forever_reaches_the_step_limit() -> None:
    kernel = make_kernel(step_limit=1000)
    machine = kernel.create_machine("m")
    cell = machine.tasks.cell("never")

    def main() -> None:
        machine.tasks.spawn("sleeper", lambda: machine.tasks.sleep(10))
        while cell.get() == 0:
            pass

    with pytest.raises(NoProgressError, match="step 1000: the step limit is reached") as caught:
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    assert caught.value.waits == ["m/main: runnable", "m/sleeper: sleep until +10 ms"]
    assert kernel.steps == 1000

from functools import partial

from tests.sim.rigs import in_machine, walk
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine, SimProcessor


@in_machine
def test_the_wall_clock_is_virtual_time_plus_an_offset_that_may_step_back(machine: Machine) -> None:
    clock = machine.clock
    seen = [clock.now_ms()]
    machine.tasks.sleep(250)
    seen.append(clock.now_ms())
    machine.wall_offset_ms -= 600
    assert [*seen, clock.now_ms(), clock.monotonic_ns()] == [1_000_000, 1_000_250, 999_650, 250_000_000]


def test_task_names_include_the_machine_and_are_unique() -> None:
    kernel = Kernel(walk())
    one, two = kernel.create_machine("one"), kernel.create_machine("two")
    made = [machine.tasks.spawn("flush", int) for machine in (one, one, two, one)]
    assert [task.name for task in made] == ["one/flush", "one/flush#2", "two/flush", "one/flush#3"]
    kernel.close()


@in_machine
def test_join_waits_for_the_end_or_for_its_timeout(machine: Machine) -> None:
    now_ns = machine.clock.monotonic_ns
    task = machine.tasks.spawn("slow", lambda: machine.tasks.sleep(20))
    assert (task.join(5), now_ns(), task.join(0)) == (False, 5_000_000, False)
    assert (task.join(100), now_ns(), task.join(None), now_ns()) == (True, 20_000_000, True, 20_000_000)


@in_machine
def test_a_join_that_timed_out_does_not_wake_its_next_sleep(machine: Machine) -> None:
    task = machine.tasks.spawn("slow", lambda: machine.tasks.sleep(20))
    assert not task.join(5)
    machine.tasks.sleep(100)
    assert machine.clock.monotonic_ns() == 105_000_000


@in_machine
def test_a_sleep_of_0_lets_other_tasks_run_without_advancing_time(machine: Machine) -> None:
    ran: list[str] = []
    machine.tasks.spawn("other", lambda: ran.append("other"))
    while not ran:
        machine.tasks.sleep(0)
    machine.tasks.sleep(-5)
    assert machine.clock.monotonic_ns() == 0


@in_machine
def test_one_processor_executes_one_task_at_a_time(machine: Machine) -> None:
    now_ns, processor, ends = machine.clock.monotonic_ns, SimProcessor(machine.kernel), {}

    def work(name: str, cost_ns: int) -> None:
        processor.compute(cost_ns)
        ends[name] = now_ns()

    tasks = [machine.tasks.spawn(name, partial(work, name, cost)) for name, cost in (("a", 30), ("b", 5), ("free", 0))]
    for task in tasks:
        task.join(None)
    assert (ends["free"], max(ends.values()), processor.busy_ns) == (0, 35, 35)
    assert sorted((ends["a"], ends["b"])) in ([30, 35], [5, 35])
    machine.tasks.sleep(1)
    processor.compute(10)
    assert now_ns() == 35 + 1_000_000 + 10


@in_machine
def test_waits_that_end_before_their_timeout_leave_no_timers(machine: Machine) -> None:
    ask, answer = machine.tasks.signal("ask"), machine.tasks.signal("answer")

    def serve() -> None:
        for _ in range(2000):
            assert ask.wait(60_000)
            answer.notify()

    service = machine.tasks.spawn("service", serve)
    for _ in range(2000):
        ask.notify()
        assert answer.wait(60_000)
    service.join(60_000)
    assert len(machine.kernel._timers._heap) <= 65  # type: ignore[attr-defined]
    assert machine.clock.monotonic_ns() == 0

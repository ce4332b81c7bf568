from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Processor
from tornlog.sim.policies.random_walk import RandomWalk, RoundRobin

LIMIT_NS = 10_000_000_000


def make_kernel() -> Kernel:
    return Kernel(RandomWalk(Choices("1").stream("policy"), 4), wall_start_ms=1_000_000)


def test_the_wall_clock_is_virtual_time_plus_an_offset_that_may_step_back() -> None:
    kernel = make_kernel()
    machine, other = kernel.machine("m"), kernel.machine("other")

    def main() -> list[int]:
        seen = [machine.clock.now_ms()]
        machine.tasks.sleep(250)
        seen.append(machine.clock.now_ms())
        machine.wall_offset_ms -= 600
        seen.append(machine.clock.now_ms())
        return [*seen, machine.clock.monotonic_ns(), other.clock.now_ms()]

    assert kernel.run(machine, main, time_limit_ns=LIMIT_NS) == [
        1_000_000,
        1_000_250,
        999_650,
        250_000_000,
        1_000_250,
    ]


def test_task_names_carry_the_machine_and_are_unique() -> None:
    kernel = make_kernel()
    one, two = kernel.machine("one"), kernel.machine("two")

    def main() -> list[str]:
        made = [machine.tasks.spawn("flush", lambda: None) for machine in (one, one, two, one)]
        return [task.name for task in made]

    assert kernel.run(one, main, time_limit_ns=LIMIT_NS) == [
        "one/flush",
        "one/flush#2",
        "two/flush",
        "one/flush#3",
    ]


def test_join_waits_for_the_end_or_for_its_time_out() -> None:
    kernel = make_kernel()
    machine = kernel.machine("m")

    def main() -> list[object]:
        task = machine.tasks.spawn("slow", lambda: machine.tasks.sleep(20))
        results: list[object] = [task.join(5), kernel.now_ns, task.join(0), task.join(100), kernel.now_ns]
        return [*results, task.join(None), kernel.now_ns]

    assert kernel.run(machine, main, time_limit_ns=LIMIT_NS) == [
        False,
        5_000_000,
        False,
        True,
        20_000_000,
        True,
        20_000_000,
    ]


def test_a_join_that_timed_out_is_not_woken_from_its_next_sleep() -> None:
    kernel = make_kernel()
    machine = kernel.machine("m")

    def main() -> int:
        task = machine.tasks.spawn("slow", lambda: machine.tasks.sleep(20))
        assert not task.join(5)
        machine.tasks.sleep(100)
        return kernel.now_ns

    assert kernel.run(machine, main, time_limit_ns=LIMIT_NS) == 105_000_000


def test_a_sleep_of_no_time_lets_others_run_but_not_time() -> None:
    kernel = make_kernel()
    machine = kernel.machine("m")
    ran: list[str] = []

    def main() -> int:
        machine.tasks.spawn("other", lambda: ran.append("other"))
        while not ran:
            machine.tasks.sleep(0)
        machine.tasks.sleep(-5)
        return kernel.now_ns

    assert kernel.run(machine, main, time_limit_ns=LIMIT_NS) == 0


def test_who_computes_at_the_same_time_computes_one_after_the_other() -> None:
    with Kernel(RoundRobin(1 << 30)) as kernel:
        machine, processor, ends = kernel.machine("host"), Processor(kernel), {}

        def work(name: str, cost_ns: int) -> None:
            processor.work(cost_ns)
            ends[name] = kernel.now_ns

        def body() -> None:
            tasks = [
                machine.tasks.spawn(name, lambda name=name, cost=cost: work(name, cost))
                for name, cost in (("a", 30), ("b", 5), ("free", 0))
            ]
            for task in tasks:
                task.join(None)

        kernel.run(machine, body, time_limit_ns=10**9)

    assert ends == {"free": 0, "a": 30, "b": 35}
    assert processor.busy_ns == 35


def test_a_processor_that_stood_idle_is_free_at_once() -> None:
    with Kernel(RoundRobin(1 << 30)) as kernel:
        machine, processor = kernel.machine("host"), Processor(kernel)

        def body() -> int:
            processor.work(10)
            machine.tasks.sleep(1)
            processor.work(10)
            return kernel.now_ns

        assert kernel.run(machine, body, time_limit_ns=10**9) == 10 + 1_000_000 + 10

from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RoundRobin
from tornlog.sim.processor import Processor


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

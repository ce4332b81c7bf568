"""Kernels and machines for tests, and decorators that run a test in one."""

from collections.abc import Callable
from functools import partial

from tornlog.sim.choices import Choices
from tornlog.sim.errors import TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine
from tornlog.sim.policies import Policy
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.trace import Trace

LIMIT_NS = 10_000_000_000
Body = Callable[[Machine], None]
MakePolicy = Callable[[int], Policy]


def walk(seed: int = 1, mean: int = 4) -> RandomWalk:
    return RandomWalk(Choices(str(seed)).stream("policy"), mean)


def make(policy: Policy | None = None, *, trace: Trace | None = None, name: str = "m") -> tuple[Kernel, Machine]:
    kernel = Kernel(policy or walk(), trace=trace)
    return kernel, kernel.create_machine(name)


def order_of(policy: Policy, names: str = "abc", points: int = 3, *, sleeping: str = "") -> str:
    """Let tasks pass points on one cell; return the order.

    Tasks in sleeping sleep for 1 ms before their second point.
    """
    kernel, machine = make(policy)
    cell = machine.tasks.cell("c")
    passed: list[str] = []

    def body(name: str) -> None:
        for number in range(points):
            if number == 1 and name in sleeping:
                machine.tasks.sleep(1)
            cell.get()
            passed.append(name)

    tasks = [kernel.spawn(machine, name, partial(body, name)) for name in names]
    kernel.run(machine, lambda: [task.join(None) for task in tasks], time_limit_ns=LIMIT_NS)
    return "".join(passed)


def _run_main(policy: Policy, body: Body, **settings: int) -> None:
    kernel = Kernel(policy, **settings)
    machine = kernel.create_machine("m")
    try:
        kernel.run(machine, partial(body, machine), time_limit_ns=LIMIT_NS)
    except TaskFailedError as failed:
        raise failed.__cause__ or failed from None
    assert machine.leftover_tasks == []


def in_machine(body: Body) -> Callable[[], None]:
    """Run a test in a machine under a random walk."""

    def run() -> None:
        _run_main(walk(), body, wall_start_ms=1_000_000)

    run.__name__ = body.__name__
    return run


def under_each_policy(seeds: int) -> Callable[[Body], Callable[[MakePolicy], None]]:
    """Run a test in a new machine for each seed, under each kind of policy."""

    def decorate(body: Body) -> Callable[[MakePolicy], None]:
        def run(policy_of: MakePolicy) -> None:
            for seed in range(seeds):
                _run_main(policy_of(seed), body)

        run.__name__ = body.__name__
        return run

    return decorate

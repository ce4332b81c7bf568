"""A task that runs alone: the kernel asks the policy for its quanta afterwards."""

from collections.abc import Callable, Sequence
from random import Random

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.disturbances import DisturbancePlan, Disturbances
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine, SimTask
from tornlog.sim.policies import Policy

SECOND_NS = 1_000_000_000


class Afterwards:
    """Records the calls of a policy."""

    def __init__(self, policy: Policy) -> None:
        self.name, self.interrupts_on_wake = policy.name, policy.interrupts_on_wake
        self.calls: list[tuple[str, int]] = []
        self._policy = policy

    def choose_task(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        self.calls.append((label, step))
        return self._policy.choose_task(runnable, current, label, step)

    def quantum(self, chosen: SimTask, step: int) -> int:
        self.calls.append((chosen.name, step))
        return self._policy.quantum(chosen, step)


class AtEachPoint(Afterwards):
    """The kernel calls this policy at each point, also while one task runs alone."""

    def on_uncontested_point(self, current: SimTask, label: str) -> None:
        pass


def work(machine: Machine, seed: int) -> None:
    """Let tasks wait, wake and start one another at random."""
    draw, tasks = Random(seed), machine.tasks
    cell, lock, signal = tasks.cell("c"), tasks.lock("l"), tasks.signal("s")

    def act() -> None:
        for _ in range(draw.randrange(12)):
            for _ in range(draw.randrange(60)):
                cell.add(1)
            with lock:
                tasks.sleep(draw.randrange(3))
            signal.notify()
            signal.wait(draw.randrange(1, 5))
            with machine.kernel.without_scheduling_points():
                cell.get()

    started = [tasks.spawn(f"t{number}", act) for number in range(draw.randrange(1, 4))]
    act()
    for task in started[:2]:
        task.join(None)


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_the_policy_gets_the_same_calls_as_at_each_point(
    policy_of: Callable[[int], Policy], is_disturbed: bool
) -> None:
    def run_with(kind: type[Afterwards], seed: int) -> tuple[str, list[tuple[str, int]]]:
        policy = kind(policy_of(seed))
        with Kernel(policy) as kernel:
            machine, plan = kernel.create_machine("m"), DisturbancePlan(paused_task_chance=0.5, clock_step_chance=0.5)
            disturbances = Disturbances(kernel, Choices(str(seed)).stream("disturbances"), plan)
            if is_disturbed:
                disturbances.start()
            kernel.run(machine, lambda: work(machine, seed), time_limit_ns=1000 * SECOND_NS)
            disturbances.stop()
            return kernel.digest(), policy.calls

    for seed in range(40):
        assert run_with(Afterwards, seed) == run_with(AtEachPoint, seed)


def test_an_error_of_the_policy_ends_the_run_of_a_lone_task() -> None:
    class Failing:
        name = "failing"
        interrupts_on_wake = False

        def choose_task(self, runnable: object, current: object, label: str, step: int) -> int:
            return 0

        def quantum(self, chosen: object, step: int) -> int:
            if step > 3:
                raise ValueError("no further quantum")
            return 0

    kernel = Kernel(Failing())
    machine = kernel.create_machine("m")

    def main() -> None:
        cell = machine.tasks.cell("c")
        for _ in range(10):
            cell.add(1)
        machine.tasks.sleep(1)

    with pytest.raises(ValueError, match="no further quantum"):
        kernel.run(machine, main, time_limit_ns=SECOND_NS)

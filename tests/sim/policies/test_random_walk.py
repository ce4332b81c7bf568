from typing import cast

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.task import SimTask


@pytest.mark.parametrize("mean", [1, 2, 8, 100])
def test_stretches_have_the_mean_they_were_made_for(mean: int) -> None:
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), mean))
    machine = kernel.machine("m")
    cell = machine.tasks.cell("c")
    points = 20_000 if mean < 100 else 200_000

    def body() -> None:
        for _ in range(points):
            cell.get()

    def main() -> None:
        for task in [machine.tasks.spawn(name, body) for name in "ab"]:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=0)
    stretches = [entry[0] for entry in kernel.schedule]

    # Of two tasks, the one that runs goes on after every other stretch, which is no switch.
    assert 2 * mean * 0.93 < sum(stretches) / len(stretches) < 2 * mean * 1.07


def test_each_runnable_task_is_about_as_likely_as_any_other() -> None:
    walk = RandomWalk(Choices("1").stream("policy"), 8)
    runnable = cast(list[SimTask], [None, None, None])  # only counted
    counts = [0, 0, 0]
    for _ in range(3000):
        counts[walk.choose(runnable, None, "x", 0)] += 1

    assert min(counts) > 900


def test_a_mean_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="mean_stretch"):
        RandomWalk(Choices("1").stream("policy"), 0)

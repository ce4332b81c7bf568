from collections.abc import Callable

import pytest

from tests.sim.rigs import make
from tornlog.sim.choices import Choices
from tornlog.sim.policies import Policy
from tornlog.sim.policies.pct import PCTPolicy
from tornlog.sim.policies.random_walk import RandomWalk

HORIZON_STEPS = 100


def hits_window(policy: Policy) -> bool:
    """Run a bug of depth 2: the reader must fit completely into a window of one point of the writer."""
    kernel, machine = make(policy)
    cell = machine.tasks.cell("c")
    window = [False]

    def read() -> bool:
        in_window = True
        for _ in range(50):
            cell.get()
            in_window = in_window and window[0]
        return in_window

    def main() -> bool:
        reader = kernel.spawn(machine, "reader", read)
        for _ in range(40):
            cell.get()
        window[0] = True
        cell.get()
        window[0] = False
        reader.join(None)
        return bool(reader.value)

    return kernel.run(machine, main, time_limit_ns=0)


def count_hits(policy_of: Callable[[str], Policy], seeds: int) -> int:
    return sum(hits_window(policy_of(str(seed))) for seed in range(seeds))


@pytest.mark.ci
def test_pct_finds_a_bug_of_depth_2_with_the_guaranteed_probability_and_more_often_than_a_random_walk() -> None:
    seeds = 2000
    found = count_hits(lambda seed: PCTPolicy(Choices(seed).stream("policy"), 2, HORIZON_STEPS), seeds)
    by_chance = count_hits(lambda seed: RandomWalk(Choices(seed).stream("policy"), 8), seeds)
    assert found >= 0.7 * seeds / (2 * HORIZON_STEPS)
    assert found > 3 * by_chance


def test_pct_of_depth_1_never_preempts_so_it_cannot_find_a_bug_of_depth_2() -> None:
    assert count_hits(lambda seed: PCTPolicy(Choices(seed).stream("policy"), 1, HORIZON_STEPS), 300) == 0


def test_a_task_of_higher_priority_runs_as_soon_as_it_is_woken() -> None:
    def order_of(seed: int) -> str:
        kernel, machine = make(PCTPolicy(Choices(str(seed)).stream("policy"), 1, HORIZON_STEPS))
        signal, cell = machine.tasks.signal("s"), machine.tasks.cell("c")
        order: list[str] = []

        def high() -> None:
            signal.wait(None)
            order.append("woken")

        def main() -> str:
            task = machine.tasks.spawn("high", high)
            machine.tasks.sleep(1)
            signal.notify()
            for _ in range(3):
                cell.get()
                order.append("main")
            task.join(None)
            return " ".join(order)

        return kernel.run(machine, main, time_limit_ns=10_000_000)

    assert {order_of(seed) for seed in range(20)} == {"woken main main main", "main main main woken"}


def test_each_change_point_lowers_the_running_task_below_all_others() -> None:
    kernel, machine = make(PCTPolicy(Choices("3").stream("policy"), 4, 60))
    cell = machine.tasks.cell("c")

    def body() -> None:
        for _ in range(20):
            cell.get()

    def main() -> None:
        for task in [machine.tasks.spawn(name, body) for name in "abc"]:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=0)
    changed = [entry for entry in kernel.schedule if entry[1] == "cell c.get"]

    assert 1 <= len(changed) <= 3 + 3  # the changes, and the points after spawns
    assert kernel.steps == 66


@pytest.mark.parametrize(("depth", "horizon"), [(0, 10), (2, 0)])
def test_a_depth_or_horizon_below_one_is_refused(depth: int, horizon: int) -> None:
    with pytest.raises(ValueError, match="depth and horizon_steps"):
        PCTPolicy(Choices("1").stream("policy"), depth, horizon)

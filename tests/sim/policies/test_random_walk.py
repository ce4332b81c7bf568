from collections import Counter
from typing import cast

import pytest

from tests.sim.rigs import make, order_of, walk
from tornlog.sim.choices import Choices
from tornlog.sim.machine import SimTask
from tornlog.sim.policies.random_walk import RandomWalk, RoundRobin, draw_policy


@pytest.mark.parametrize("mean", [1, 2, 8, 100])
def test_random_walk_quanta_have_the_configured_mean(mean: int) -> None:
    kernel, machine = make(walk(mean=mean))
    cell = machine.tasks.cell("c")
    points = 20_000 if mean < 100 else 200_000

    def body() -> None:
        for _ in range(points):
            cell.get()

    def main() -> None:
        for task in [machine.tasks.spawn(name, body) for name in "ab"]:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=0)
    quanta = [entry[0] for entry in kernel.schedule]

    # Of two tasks, the running one continues after every other quantum, without a switch.
    assert 2 * mean * 0.93 < sum(quanta) / len(quanta) < 2 * mean * 1.07


def test_a_random_walk_picks_each_runnable_task_equally_often() -> None:
    walk = RandomWalk(Choices("1").stream("policy"), 8)
    runnable = cast(list[SimTask], [None, None, None])  # only counted
    counts = [0, 0, 0]
    for _ in range(3000):
        counts[walk.choose_task(runnable, None, "x", 0)] += 1
    assert min(counts) > 900


def test_a_mean_quantum_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="mean_quantum"):
        RandomWalk(Choices("1").stream("policy"), 0)


def test_round_robin_tasks_take_turns_of_one_quantum() -> None:
    assert order_of(RoundRobin(1), points=3) == "abcabcabc"
    assert order_of(RoundRobin(2), points=5) == "abcaabbccaabbcc"  # a new task begins in the middle of a turn
    assert order_of(RoundRobin(3), points=8) == "aabbccaaabbbcccaaabbbccc"


def test_a_round_robin_task_that_blocks_loses_its_turn_and_rejoins_in_order() -> None:
    assert order_of(RoundRobin(1), points=4, sleeping="b") == "abcacacacbbb"


def test_under_round_robin_no_runnable_task_waits_for_more_than_one_turn_of_each_other() -> None:
    passed = order_of(RoundRobin(1), points=40)
    for at in range(len(passed) - 2):
        assert set(passed[at : at + 3]) == {"a", "b", "c"}


def test_a_round_robin_quantum_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="quantum: expected at least 1, found 0"):
        RoundRobin(0)


def test_every_kind_of_policy_is_drawn_and_leaves_no_record() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(200):
        choices = Choices(str(seed))
        kinds[draw_policy(choices.stream("schedule")).name] += 1
        assert choices.decisions() == []
    assert set(kinds) == {"random-walk", "pct", "pos"}
    assert min(kinds.values()) > 20

import pytest

from tests.sim.rigs import make
from tornlog.sim.choices import Choices
from tornlog.sim.policies import Policy
from tornlog.sim.policies.pct import PCTPolicy
from tornlog.sim.policies.pos import POSPolicy
from tornlog.sim.policies.random_walk import RandomWalk, RoundRobin
from tornlog.sim.policies.starving import StarvingPolicy


def inner_policy(name: str, choices: Choices) -> Policy:
    stream = choices.stream("schedule")
    return {
        "walk": lambda: RandomWalk(stream, 4),
        "pct": lambda: PCTPolicy(stream, 3, 500),
        "pos": lambda: POSPolicy(stream),
        "round-robin": lambda: RoundRobin(3),
    }[name]()


def longest_wait(policy: Policy, rounds: int = 200) -> int:
    """Let three tasks take points; return the longest wait of one of them, in points."""
    kernel, machine = make(policy)
    seen: dict[int, int] = dict.fromkeys(range(3), 0)
    waits = []

    def work(number: int) -> None:
        for _ in range(rounds):
            machine.tasks.sleep(0)
            waits.append(kernel.steps - seen[number])
            seen[number] = kernel.steps

    def main() -> None:
        for number in range(3):
            machine.tasks.spawn(f"worker-{number}", lambda number=number: work(number))
        machine.tasks.sleep(1)

    with kernel:
        kernel.run(machine, main, time_limit_ns=10**9)
    assert all(seen.values())
    return max(waits)


@pytest.mark.parametrize("name", ["walk", "pct", "pos", "round-robin"])
def test_a_task_starves_for_the_drawn_time_and_all_tasks_end(name: str) -> None:
    choices = Choices("starve")
    policy = StarvingPolicy(choices.stream("starving"), inner_policy(name, choices), 50, 200)
    longest_wait(policy)
    assert policy.injected["starved task"] > 0
    assert policy.name == f"starving {inner_policy(name, choices).name}"


def test_a_starved_task_waits_far_longer_than_under_a_fair_policy() -> None:
    fair = longest_wait(RoundRobin(1))
    starving = longest_wait(StarvingPolicy(Choices("starve").stream("starving"), RoundRobin(1), 50, 200))
    assert fair < 20
    assert starving > 50


def test_no_task_starves_before_the_first_period() -> None:
    policy = StarvingPolicy(Choices("starve").stream("starving"), RoundRobin(1), 10**9, 10)
    assert longest_wait(policy) < 20
    assert not policy.injected


def test_the_only_runnable_task_runs_although_it_starves() -> None:
    policy = StarvingPolicy(Choices("alone").stream("starving"), RoundRobin(1), 1, 10**9)
    kernel, machine = make(policy)

    def main() -> None:
        task = machine.tasks.spawn("other", lambda: machine.tasks.sleep(5))
        for _ in range(100):
            machine.tasks.sleep(0)
        task.join(None)

    with kernel:
        kernel.run(machine, main, time_limit_ns=10**9)
    assert kernel.now_ns == 5_000_000


def test_the_same_seed_starves_the_same_tasks() -> None:
    def schedule() -> list[list[object]]:
        choices = Choices("same")
        kernel, machine = make(
            StarvingPolicy(choices.stream("starving"), RandomWalk(choices.stream("schedule"), 4), 20, 50)
        )

        def main() -> None:
            tasks = [machine.tasks.spawn("w", lambda: [machine.tasks.sleep(0) for _ in range(50)]) for _ in range(3)]
            for task in tasks:
                task.join(None)

        with kernel:
            kernel.run(machine, main, time_limit_ns=10**9)
        return kernel.schedule

    assert schedule() == schedule()


@pytest.mark.parametrize(("gap", "length"), [(0, 5), (5, 0)])
def test_starvation_bounds_below_one_are_refused(gap: int, length: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        StarvingPolicy(Choices("x").stream("starving"), RoundRobin(1), gap, length)

import pytest

from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.round_robin import RoundRobin


def turns(quantum: int, points: int, sleeping: str = "") -> str:
    """Return which of three tasks passed each point; a task in sleeping waits 1 ms before its second one."""
    kernel = Kernel(RoundRobin(quantum))
    machine = kernel.machine("m")
    cell = machine.tasks.cell("c")
    passed: list[str] = []

    def body(name: str) -> None:
        for number in range(points):
            if number == 1 and name in sleeping:
                machine.tasks.sleep(1)
            cell.get()
            passed.append(name)

    tasks = [kernel.spawn(machine, name, lambda name=name: body(name)) for name in "abc"]

    def main() -> None:
        for task in tasks:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=10**9)
    return "".join(passed)


def test_tasks_take_turns_of_a_quantum_of_points() -> None:
    assert turns(1, 3) == "abcabcabc"
    assert turns(2, 5) == "abcaabbccaabbcc"  # whoever begins does so in the middle of a turn
    assert turns(3, 8) == "aabbccaaabbbcccaaabbbccc"


def test_a_task_that_blocks_gives_up_its_turn_and_comes_back_into_it() -> None:
    assert turns(1, 4, sleeping="b") == "abcacacacbbb"


def test_no_runnable_task_waits_for_more_than_one_turn_of_each_other() -> None:
    passed = turns(1, 40)
    for at in range(len(passed) - 2):
        assert set(passed[at : at + 3]) == {"a", "b", "c"}


def test_a_quantum_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="quantum: expected at least 1, found 0"):
        RoundRobin(0)

from itertools import product

import pytest

from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.deviating import Deviating, Deviation


def turns(*deviations: Deviation, points: int = 3) -> str:
    """Return which of three tasks passed each point."""
    kernel = Kernel(Deviating(deviations))
    machine = kernel.machine("m")
    cell = machine.tasks.cell("c")
    passed: list[str] = []

    def body(name: str) -> None:
        for _ in range(points):
            cell.get()
            passed.append(name)

    tasks = [kernel.spawn(machine, name, lambda name=name: body(name)) for name in "abc"]

    def main() -> None:
        for task in tasks:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=10**9)
    return "".join(passed)


def test_without_deviations_each_task_runs_until_it_ends() -> None:
    assert turns() == "aaabbbccc"


def test_a_deviation_lets_another_task_run_after_so_many_points() -> None:
    assert turns((0, 0)) == "bbbaaaccc"  # at the start, in place of the first
    assert turns((0, 1)) == "cccaaabbb"
    assert turns((2, 0)) == "abbbaaccc"


def test_the_next_one_is_counted_from_the_last() -> None:
    assert turns((2, 0), (0, 0)) == "acccaabbb"
    assert turns((2, 0), (1, 0)) == "abcccaabb"
    assert turns((2, 0), (10_000, 0)) == turns((2, 0))


def test_whatever_numbers_it_is_given_it_is_a_schedule_and_orders_of_any_kind_come_about() -> None:
    found = set()
    for points, other, more in product(range(6), range(4), range(4)):
        passed = turns((points, other), (more, other))
        assert sorted(passed) == sorted("aaabbbccc")
        found.add(passed)

    assert len(found) > 20


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"deviations: expected numbers from 0 on, found \[\(-1, 0\)\]"):
        Deviating([(-1, 0)])

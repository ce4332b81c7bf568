import itertools
import random

import pytest

from tornlog.sim.choices import Choices
from tornlog.sim.determinism import check_determinism
from tornlog.sim.errors import LeakError, NondeterminismError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk


def digest_of_a_run(extra_steps: int = 0, *, leak: bool = False) -> str:
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 2))
    machine = kernel.machine("m")
    cell = machine.tasks.cell("c")

    def body() -> None:
        for _ in range(10 + extra_steps):
            cell.add(1)
        if leak:
            try:
                random.random()
            except Exception:
                cell.add(1)

    def main() -> None:
        for task in [machine.tasks.spawn(name, body) for name in "ab"]:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=0)
    return kernel.digest()


def test_a_deterministic_run_returns_its_digest() -> None:
    assert check_determinism(digest_of_a_run) == digest_of_a_run()


def test_a_run_that_differs_names_both_digests() -> None:
    counter = itertools.count()

    with pytest.raises(NondeterminismError) as caught:
        check_determinism(lambda: digest_of_a_run(next(counter)))

    assert str(caught.value).endswith(f"digests {digest_of_a_run(0)} and {digest_of_a_run(1)}")


def test_a_leak_is_reported_even_if_the_code_swallowed_it() -> None:
    with pytest.raises(LeakError, match=r"test_determinism\.py:\d+: simulated code called random\.random"):
        check_determinism(lambda: digest_of_a_run(leak=True))

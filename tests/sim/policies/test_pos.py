from collections import Counter
from collections.abc import Callable
from functools import partial
from math import comb
from types import SimpleNamespace
from typing import cast

import pytest

from tests.sim.rigs import make
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine, SimTask
from tornlog.sim.policies import Policy
from tornlog.sim.policies.pos import POSPolicy, parse_operation
from tornlog.sim.policies.random_walk import RandomWalk


def pos_policy(seed: int) -> Policy:
    return POSPolicy(Choices(str(seed)).stream("policy"))


def walk_policy(seed: int) -> Policy:
    return RandomWalk(Choices(str(seed)).stream("policy"), 1)


def order_of_shared(policy: Policy, private_points: int, shared_points: int) -> str:
    """Run two tasks that first pass their own points, then add to a shared cell."""
    kernel, machine = make(policy)
    shared = machine.tasks.cell("shared")
    order: list[str] = []

    def body(name: str, private: int) -> None:
        own = machine.tasks.cell(f"own of {name}")
        for _ in range(private):
            own.get()
        for _ in range(shared_points):
            shared.add(1)
            order.append(name)

    tasks = [
        kernel.spawn(machine, name, lambda name=name, private=private: body(name, private))
        for name, private in (("a", private_points), ("b", 0))
    ]

    def main() -> None:
        for task in tasks:
            task.join(None)

    kernel.run(machine, main, time_limit_ns=0)
    return "".join(order)


def count_orders(policy_of: Callable[[int], Policy], private_points: int, shared_points: int) -> Counter[str]:
    return Counter(order_of_shared(policy_of(seed), private_points, shared_points) for seed in range(2000))


def test_pos_produces_every_order_of_racing_operations() -> None:
    assert len(count_orders(pos_policy, 0, 3)) == comb(6, 3)


@pytest.mark.ci
def test_local_operations_delay_a_task_less_often_under_pos_than_in_a_random_walk() -> None:
    sampled, walked = count_orders(pos_policy, 12, 1), count_orders(walk_policy, 12, 1)
    assert sampled["ab"] > 2 * walked["ab"]
    assert sampled["ab"] + sampled["ba"] == 2000


def share_of_four_in_a_row(label: str) -> float:
    """One task makes one operation, another makes four. Return how often all four run before the one."""
    one, four = (cast(SimTask, SimpleNamespace(number=number)) for number in (1, 2))
    in_a_row = cases = 0
    for seed in range(8000):
        policy = pos_policy(seed)
        if policy.choose_task([one, four], None, "~start", 0) != 0:
            continue  # one task has not reached its operation
        if policy.choose_task([one, four], one, label, 1) != 1:
            continue  # it has passed its operation
        cases += 1
        in_a_row += all(policy.choose_task([one, four], four, "cell c.add", 2 + nth) == 1 for nth in range(4))
    return in_a_row / cases


def test_pos_redraws_the_priority_of_racing_operations() -> None:
    racing, apart = share_of_four_in_a_row("cell c.get"), share_of_four_in_a_row("cell d.get")
    # the single operation keeps its old priority against the first of the four, and gets a new one for each of the rest
    assert racing < 0.12
    assert apart > 0.35


def test_pos_is_not_called_while_a_single_task_is_runnable() -> None:
    asked = 0

    class Counting(POSPolicy):
        def choose_task(self, *arguments: object) -> int:
            nonlocal asked
            asked += 1
            return super().choose_task(*arguments)  # type: ignore[arg-type]

    kernel, machine = make(Counting(Choices("1").stream("policy")))
    cell, signal = machine.tasks.cell("c"), machine.tasks.signal("s")

    def main() -> int:
        waiter = machine.tasks.spawn("waiter", lambda: signal.wait(None))
        machine.tasks.sleep(1)
        before = asked
        for _ in range(100):
            cell.get()
        alone = asked - before
        signal.notify()
        waiter.join(None)
        assert asked > before + alone
        return alone

    assert kernel.run(machine, main, time_limit_ns=10**9) == 0


def test_under_pos_operations_made_alone_do_not_race_with_later_ones() -> None:
    def live(machine: Machine) -> None:
        tasks = machine.tasks
        lock, signal = tasks.lock("l"), tasks.signal("s")

        def work() -> None:
            for _ in range(5):
                with lock:
                    tasks.sleep(1)
                signal.notify()
                signal.wait(2)

        for task in [tasks.spawn(name, work) for name in "abc"]:
            task.join(None)

    def digest(seed: int) -> str:
        kernel = Kernel(pos_policy(seed))
        for life in "12":
            machine = kernel.create_machine(life)
            kernel.run(machine, partial(live, machine), time_limit_ns=10**9)
        return kernel.digest()

    assert len({digest(seed) for seed in range(20)}) == 20
    assert [digest(seed) for seed in range(5)] == [digest(seed) for seed in range(5)]


RACING = [
    ("one", "other"),
    ("lock put", "unlock put"),
    ("~lock put", "lock put"),
    ("signal s", "notify signal s"),
    ("cell a.b.get", "cell a.b.set"),
    ("cell c.add", "cell c.compare_and_set"),
    ("attribute C.n.get", "attribute C.n.set"),
    ("attribute C.table.use", "attribute C.table.use"),
    ("store", "~msync /a file"),
    ("one", "other"),
]
APART = [
    ("lock put", "lock row"),
    ("lock put", "signal put"),
    ("cell a.get", "cell a.get"),
    ("cell a.set", "cell b.set"),
    ("cell a.set", "store"),
    ("attribute C.n.get", "attribute C.n.get"),
    ("attribute C.n.set", "attribute D.n.set"),
    ("attribute C.n.set", "cell C.n.set"),
    ("sleep", "sleep"),
    ("spawn", "spawn"),
    ("join m/a", "~join m/a"),
    ("~end", "~end"),
]


@pytest.mark.parametrize(
    ("one", "other", "race"), [*((*pair, True) for pair in RACING), *((*pair, False) for pair in APART)]
)
def test_operations_on_one_object_race_if_one_of_them_changes_it(one: str, other: str, race: bool) -> None:
    assert parse_operation(one).races_with(parse_operation(other)) is race
    assert parse_operation(other).races_with(parse_operation(one)) is race

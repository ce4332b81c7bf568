import json
from collections.abc import Callable
from itertools import product

import pytest

from tests.sim.rigs import make, order_of
from tornlog.sim.errors import MachineDied, ReplayDivergedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies import Policy
from tornlog.sim.policies.replay import DeviatingPolicy, Deviation, LabellingPolicy, ReplayPolicy
from tornlog.sim.schedule import TaskSwitch, parse_schedule


def live_and_crash(policy: Policy, rounds: int = 10, cell_name: str = "sum", extra: str = "") -> Kernel:
    """Run a machine that uses locks, signals and timers and kills another machine. Crash it, and run a second life.

    extra: a cell that every task reads once more in each round, to simulate changed code."""
    kernel = Kernel(policy)
    first, victim, second = (kernel.create_machine(name) for name in ("life-1", "victim", "life-2"))
    victim.tasks.spawn("heart", lambda: [victim.tasks.sleep(1) for _ in range(1000)])

    def work(machine_name: str) -> None:
        machine = first if machine_name == "life-1" else second
        tasks = machine.tasks
        lock, signal, cell = tasks.lock("l"), tasks.signal("s"), tasks.cell(cell_name)
        other = tasks.cell(extra)

        def add_up() -> None:
            for number in range(rounds):
                if extra:
                    other.get()
                with lock:
                    cell.set(cell.get() + 1)
                    if number % 3 == 0:
                        tasks.sleep(1)
                signal.notify()

        def watch() -> None:
            while cell.get() < 2 * rounds:
                signal.wait(2)

        running = [tasks.spawn("a", add_up), tasks.spawn("b", add_up), tasks.spawn("watch", watch)]
        if machine is first:
            tasks.sleep(6)
            kernel.kill(victim)
            tasks.sleep(1)
            kernel.kill(first)
        for task in running:
            task.join(None)

    with pytest.raises(MachineDied):
        kernel.run(first, lambda: work("life-1"), time_limit_ns=10**9)
    kernel.run(second, lambda: work("life-2"), time_limit_ns=10**9)
    return kernel


def labelled(policy: Policy) -> tuple[Kernel, list[TaskSwitch]]:
    """Run under a policy; return that run, and its schedule in labels."""
    recorded = live_and_crash(policy)
    labelling = LabellingPolicy(json.loads(json.dumps(recorded.schedule)))
    again = live_and_crash(labelling)
    assert again.digest() == recorded.digest()
    assert again.schedule == recorded.schedule
    assert labelling.remaining_switches == 0
    return recorded, labelling.labelled


# The kernel's own record, converted to labels


def test_replaying_a_labelled_schedule_gives_the_same_run(policy_of: Callable[[int], Policy]) -> None:
    for seed in range(15):
        recorded, schedule = labelled(policy_of(seed))
        assert schedule
        replay = ReplayPolicy(parse_schedule("\n".join(map(str, schedule))))
        replayed = live_and_crash(replay)

        assert replayed.digest() == recorded.digest()
        assert (replayed.steps, replayed.now_ns) == (recorded.steps, recorded.now_ns)
        assert replayed.schedule == recorded.schedule
        assert replay.unused_switches == []
        assert replay.followed == schedule


def test_a_labelled_schedule_without_deviations_is_empty() -> None:
    default = live_and_crash(ReplayPolicy())
    labelling = LabellingPolicy(default.schedule)
    assert live_and_crash(labelling).digest() == default.digest()
    assert labelling.labelled == []


def test_labelling_another_program_raises_an_error_that_names_the_wrong_switch(
    policy_of: Callable[[int], Policy],
) -> None:
    schedule = live_and_crash(policy_of(1)).schedule
    schedule[3][2] = "life-1/nobody"
    with pytest.raises(ReplayDivergedError, match=r"schedule, entry 3: .*'life-1/nobody'"):
        live_and_crash(LabellingPolicy(schedule))

    schedule = live_and_crash(policy_of(1)).schedule
    with pytest.raises(ReplayDivergedError, match="found"):
        live_and_crash(LabellingPolicy(schedule), rounds=11)
    last_forced = max(number for number, entry in enumerate(schedule) if entry[1].startswith("~"))
    with pytest.raises(ReplayDivergedError, match=f"entry {last_forced}: recorded the end"):
        live_and_crash(LabellingPolicy(schedule[:last_forced]))


def test_code_under_test_cannot_swallow_the_divergence_error_of_labelling() -> None:
    kernel, machine = make(LabellingPolicy([[1, "cell c.get", "m/b"]]))
    cell = machine.tasks.cell("c")

    def robust() -> None:
        for _ in range(5):
            try:
                cell.get()
            except Exception:
                continue

    def main() -> None:
        for task in [machine.tasks.spawn(name, robust) for name in "ab"]:
            task.join(None)

    with pytest.raises(ReplayDivergedError, match="entry 0"):
        kernel.run(machine, main, time_limit_ns=0)


# A schedule under changed code


def test_a_labelled_schedule_still_replays_after_an_unrelated_world_call() -> None:
    schedule = [
        TaskSwitch("life-1/a", "lock l", 2, "life-1/b"),
        TaskSwitch("life-1/b", "cell sum.set", 1, "life-1/watch"),
    ]
    before, after = ReplayPolicy(schedule), ReplayPolicy(schedule)
    live_and_crash(before)
    live_and_crash(after, extra="another")
    assert before.followed == after.followed == schedule


def test_unmatched_schedule_entries_are_kept_and_the_default_schedule_runs() -> None:
    gone = [
        TaskSwitch("life-1/nobody", "lock l", 1, "life-1/b"),
        TaskSwitch("life-1/a", "lock of yore", 1, "life-1/b"),
        TaskSwitch("life-1/a", "lock l", 999, "life-1/b"),
        TaskSwitch("life-1/a", "lock l", 1, "life-1/nobody"),
    ]
    met = TaskSwitch("life-1/a", "lock l", 2, "life-1/b")
    replay = ReplayPolicy([*gone, met])
    kernel = live_and_crash(replay)

    assert replay.unused_switches == gone
    assert replay.followed == [met]
    assert kernel.digest() == live_and_crash(ReplayPolicy([met])).digest()
    assert kernel.digest() != live_and_crash(ReplayPolicy()).digest()


def test_occurrence_numbers_of_a_schedule_entry_also_count_points_without_a_choice() -> None:
    def second_get(friends: int) -> list[TaskSwitch]:
        replay = ReplayPolicy([TaskSwitch("m/main", "cell c.get", 3, "m/friend")])
        kernel, machine = make(replay)
        cell = machine.tasks.cell("c")

        def main() -> None:
            cell.get()
            for _ in range(friends):
                machine.tasks.spawn("friend", lambda: None)
            cell.get()
            if not friends:
                machine.tasks.spawn("friend", lambda: None)
            cell.get()

        kernel.run(machine, main, time_limit_ns=0)
        return replay.followed

    assert second_get(0) == second_get(1) == [TaskSwitch("m/main", "cell c.get", 3, "m/friend")]


# Record and digest


def test_record_and_digest_do_not_depend_on_how_often_a_policy_is_called() -> None:
    class AskedOften:
        name = "asked often"
        interrupts_on_wake = True

        def __init__(self, quantum: int) -> None:
            self._quantum = quantum

        def choose_task(self, runnable: list[object], current: object, label: str, step: int) -> int:
            return runnable.index(current) if current in runnable else 0

        def quantum(self, chosen: object, step: int) -> int:
            return self._quantum

    kernels = [live_and_crash(AskedOften(quantum)) for quantum in (0, 3, 10**9)]  # type: ignore[arg-type]
    assert len({kernel.digest() for kernel in kernels}) == 1
    assert kernels[0].schedule == kernels[1].schedule == kernels[2].schedule
    assert all(label.startswith("~") for _, label, _ in kernels[0].schedule)


def test_a_replayed_switch_is_in_the_record() -> None:
    switches = live_and_crash(ReplayPolicy([TaskSwitch("life-1/a", "lock l", 2, "life-1/b")])).schedule
    assert ["lock l", "life-1/b"] in [entry[1:] for entry in switches]


def order_under(*deviations: Deviation) -> str:
    return order_of(DeviatingPolicy(deviations))


def test_without_deviations_each_task_runs_until_it_ends() -> None:
    assert order_under() == "aaabbbccc"


def test_a_deviation_lets_another_task_run_after_its_number_of_points() -> None:
    assert order_under((0, 0)) == "bbbaaaccc"  # at the start, instead of the first
    assert order_under((0, 1)) == "cccaaabbb"
    assert order_under((2, 0)) == "abbbaaccc"


def test_points_of_a_deviation_count_from_the_previous_deviation() -> None:
    assert order_under((2, 0), (0, 0)) == "acccaabbb"
    assert order_under((2, 0), (1, 0)) == "abcccaabb"
    assert order_under((2, 0), (10_000, 0)) == order_under((2, 0))


def test_any_pairs_of_numbers_are_a_schedule_and_many_orders_occur() -> None:
    found = set()
    for points, other, more in product(range(6), range(4), range(4)):
        passed = order_under((points, other), (more, other))
        assert sorted(passed) == sorted("aaabbbccc")
        found.add(passed)
    assert len(found) > 20


def test_negative_schedule_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"deviations: expected numbers from 0 on, found \[\(-1, 0\)\]"):
        DeviatingPolicy([(-1, 0)])

import json
from collections.abc import Callable

import pytest

from tornlog.sim.errors import MachineDied, ReplayDivergedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies import Policy
from tornlog.sim.policies.replay import Replay


def live_and_crash(policy: Policy, rounds: int = 10, cell_name: str = "sum") -> Kernel:
    """Run a machine with locks, signals, timers and a kill of another, crash it, and run a second life."""
    kernel = Kernel(policy)
    first, victim, second = (kernel.machine(name) for name in ("life-1", "victim", "life-2"))
    victim.tasks.spawn("heart", lambda: [victim.tasks.sleep(1) for _ in range(1000)])

    def work(machine_name: str) -> None:
        machine = first if machine_name == "life-1" else second
        tasks = machine.tasks
        lock, signal, cell = tasks.lock("l"), tasks.signal("s"), tasks.cell(cell_name)

        def add_up() -> None:
            for number in range(rounds):
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


def test_a_replayed_schedule_gives_the_same_digest_steps_time_and_schedule(
    policy_of: Callable[[int], Policy],
) -> None:
    for seed in range(15):
        recorded = live_and_crash(policy_of(seed))
        schedule = json.loads(json.dumps(recorded.schedule))
        assert schedule
        replay = Replay(schedule)
        replayed = live_and_crash(replay)

        assert replayed.digest() == recorded.digest()
        assert (replayed.steps, replayed.now_ns) == (recorded.steps, recorded.now_ns)
        assert replayed.schedule == schedule
        assert replay.left == 0


def test_a_divergence_names_the_switch_what_was_recorded_and_what_is_there(
    policy_of: Callable[[int], Policy],
) -> None:
    schedule = live_and_crash(policy_of(1)).schedule
    at = next(number for number, entry in enumerate(schedule) if str(entry[1]).endswith("l"))
    points, label, task = schedule[at]
    changed = [*schedule[:at], [points, f"{label} renamed", task], *schedule[at + 1 :]]

    with pytest.raises(ReplayDivergedError) as caught:
        live_and_crash(Replay(changed))

    assert caught.value.index == at
    assert str(caught.value).startswith(
        f"schedule, entry {at}: recorded ({points}, '{label} renamed', '{task}'), found ({points}, '{label}', ["
    )


def test_a_recorded_task_that_is_not_there_is_a_divergence(policy_of: Callable[[int], Policy]) -> None:
    schedule = live_and_crash(policy_of(1)).schedule
    schedule[3][2] = "life-1/nobody"

    with pytest.raises(ReplayDivergedError, match=r"entry 3: .*'life-1/nobody'"):
        live_and_crash(Replay(schedule))


def test_a_longer_program_runs_past_the_end_of_the_record(policy_of: Callable[[int], Policy]) -> None:
    schedule = live_and_crash(policy_of(1)).schedule

    with pytest.raises(ReplayDivergedError, match="found"):
        live_and_crash(Replay(schedule), rounds=11)
    last_forced = max(number for number, entry in enumerate(schedule) if entry[1].startswith("~"))
    with pytest.raises(ReplayDivergedError, match=f"entry {last_forced}: recorded the end"):
        live_and_crash(Replay(schedule[:last_forced]))


def test_a_divergence_is_not_swallowed_by_the_code_that_runs_into_it() -> None:
    def main_of(kernel: Kernel) -> None:
        machine = kernel.machine("m")
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

        kernel.run(machine, main, time_limit_ns=0)

    with pytest.raises(ReplayDivergedError, match="entry 0"):
        main_of(Kernel(Replay([[2, "cell c.get", "m/b"]])))

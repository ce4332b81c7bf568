from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.sim.rigs import make, walk
from tornlog.sim.errors import MachineDied, TaskFailedError, UnstoppableTaskError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine, WaitReason
from tornlog.sim.policies import Policy

LIMIT_NS = 10_000_000_000


def make_broker(seed: int = 1, mean: int = 4) -> tuple[Kernel, Machine]:
    return make(walk(seed, mean), name="broker")


def kill_and_raise(kernel: Kernel, machine: Machine) -> None:
    kernel.kill(machine)
    raise MachineDied(machine.name)


def crash_with_services(policy: Policy) -> list[str]:
    """Kill a machine that runs services c, a and b; return the order of unwinding."""
    kernel, machine = make(policy, name="broker")
    unwound: list[str] = []

    def service(name: str) -> None:
        try:
            while True:
                machine.tasks.sleep(2)
        finally:
            unwound.append(name)

    def main() -> None:
        for name in "cab":
            machine.tasks.spawn(name, lambda name=name: service(name))
        machine.tasks.sleep(7)
        kill_and_raise(kernel, machine)

    with pytest.raises(MachineDied, match="broker"):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)
    assert not machine.live_tasks
    return unwound


def test_a_killed_machine_ends_the_run_and_unwinds_its_tasks_in_spawn_order(policy_of: Callable[[int], Policy]) -> None:
    assert [crash_with_services(policy_of(seed)) for seed in range(20)] == [["c", "a", "b"]] * 20


def test_a_kill_without_raising_takes_effect_at_the_next_world_call() -> None:
    kernel, machine = make_broker(mean=1000)
    cell = machine.tasks.cell("c")
    reached: list[str] = []

    def main() -> None:
        cell.set(1)
        kernel.kill(machine)
        kernel.kill(machine)
        reached.append("after kill")
        cell.set(2)
        reached.append("after set")

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=0)

    assert reached == ["after kill"]
    assert cell.get() == 1


def test_a_run_whose_main_task_returns_after_the_kill_raises_machine_died() -> None:
    kernel, machine = make_broker()
    with pytest.raises(MachineDied):
        kernel.run(machine, lambda: kernel.kill(machine), time_limit_ns=0)


def test_every_world_call_of_a_dead_machine_raises_and_has_no_effect() -> None:
    kernel, machine = make_broker()
    tasks = machine.tasks
    free, held = tasks.lock("free"), tasks.lock("held")
    signal, cell = tasks.signal("s"), tasks.cell("c", 5)
    spawned: list[str] = []
    calls: list[Callable[[], object]] = [
        free.__enter__,
        held.__exit__,
        signal.notify,
        lambda: signal.wait(None),
        cell.get,
        lambda: cell.set(9),
        lambda: cell.add(9),
        lambda: cell.compare_and_set(5, 9),
        lambda: tasks.spawn("x", lambda: spawned.append("x")),
        lambda: tasks.sleep(0),
        lambda: tasks.sleep(5),
        machine.clock.now_ms,
        machine.clock.monotonic_ns,
        lambda: kernel.scheduling_point("write"),
        lambda: kernel.park(WaitReason("sync"), None),
        lambda: kernel.current.join(None),
    ]
    refused: list[int] = []

    def main() -> None:
        held.__enter__()
        kernel.kill(machine)
        for number, call in enumerate(calls):
            try:
                call()
            except MachineDied:
                refused.append(number)

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    assert refused == list(range(len(calls)))
    assert (cell.get(), spawned, kernel.now_ns) == (5, [], 0)
    assert held.describe() == "lock held held by broker/main"


def test_refused_calls_of_a_dead_machine_are_not_counted_as_steps() -> None:
    kernel, machine = make_broker()

    def main() -> None:
        kernel.scheduling_point("a")
        kernel.kill(machine)
        for _ in range(10):
            with pytest.raises(MachineDied):
                kernel.scheduling_point("b")

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=0)

    assert kernel.steps == 1


def die_inside_a_lock(seed: int) -> list[str]:
    """Let three producers race for a lock. The holder kills the machine. Return the producers that got the lock."""
    kernel, machine = make_broker(seed, mean=2)
    lock = machine.tasks.lock("put")
    inside: list[str] = []

    def producer(name: str) -> None:
        with lock:
            inside.append(name)
            kernel.scheduling_point("write")
            kill_and_raise(kernel, machine)

    def main() -> None:
        for name in "abc":
            machine.tasks.spawn(name, lambda name=name: producer(name))
        machine.tasks.sleep(1000)

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)
    return inside


def test_a_death_inside_a_lock_admits_no_other_task() -> None:
    outcomes = [die_inside_a_lock(seed) for seed in range(30)]
    assert all(len(inside) == 1 for inside in outcomes)
    assert len({inside[0] for inside in outcomes}) == 3


def test_a_failing_with_block_still_ends_in_machine_died() -> None:
    kernel, machine = make_broker()
    lock = machine.tasks.lock("put")

    def main() -> None:
        with lock:
            kernel.kill(machine)
            raise ValueError("the body's own trouble")

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=0)


def test_a_task_that_catches_machine_died_gets_it_again_at_the_next_call() -> None:
    kernel, machine = make_broker()
    attempts: list[int] = []

    def stubborn() -> None:
        for attempt in range(50):
            try:
                machine.tasks.sleep(1000)
            except BaseException:
                attempts.append(attempt)

    def main() -> None:
        machine.tasks.spawn("stubborn", stubborn)
        machine.tasks.sleep(1)
        kill_and_raise(kernel, machine)

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)

    assert attempts == list(range(50))


@pytest.mark.parametrize("call", ["sleep", "clock"])
def test_a_task_that_always_catches_machine_died_is_an_unstoppable_task_error(call: str) -> None:
    kernel, machine = make_broker()

    def immortal() -> None:
        while True:
            try:
                machine.tasks.sleep(1000) if call == "sleep" else machine.clock.now_ms()
                machine.tasks.sleep(1)
            except BaseException:
                continue

    def main() -> None:
        machine.tasks.spawn("immortal", immortal)
        machine.tasks.sleep(1)
        kill_and_raise(kernel, machine)

    with pytest.raises(UnstoppableTaskError, match="broker/immortal caught MachineDied"):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)


def test_a_task_spawned_but_not_started_at_a_kill_never_runs() -> None:
    kernel, machine = make_broker()
    started: list[str] = []

    def main() -> None:
        kernel.spawn(machine, "late", lambda: started.append("late"))
        kill_and_raise(kernel, machine)

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=0)

    assert started == []


def test_an_exception_of_a_dying_task_does_not_fail_the_run() -> None:
    kernel, machine = make_broker()

    def service() -> None:
        try:
            machine.tasks.sleep(1000)
        finally:
            raise ValueError("cleaning up a dead machine")

    def main() -> None:
        machine.tasks.spawn("service", service)
        machine.tasks.sleep(1)
        kill_and_raise(kernel, machine)

    with pytest.raises(MachineDied):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)


def test_tasks_still_running_after_main_are_named_and_unwound() -> None:
    kernel, machine = make_broker()
    unwound: list[str] = []

    def service(name: str) -> None:
        try:
            machine.tasks.sleep(1000)
        finally:
            unwound.append(name)

    def main() -> str:
        for name in ("reput", "flush"):
            machine.tasks.spawn(name, lambda name=name: service(name))
        machine.tasks.sleep(1)
        return "done"

    assert kernel.run(machine, main, time_limit_ns=LIMIT_NS) == "done"
    assert machine.leftover_tasks == ["broker/reput", "broker/flush"]
    assert unwound == ["reput", "flush"]
    assert not machine.alive


def kill_a_beating_heart(policy: Policy) -> tuple[int, int, list[str]]:
    """Kill a machine from another one. Return its beats at the kill and at the end, and the unwound tasks."""
    kernel = Kernel(policy)
    victim, chaos = kernel.create_machine("victim"), kernel.create_machine("chaos")
    beats = [0]
    unwound: list[str] = []

    def heart() -> None:
        try:
            while True:
                kernel.scheduling_point("beat")
                beats[0] += 1
                victim.tasks.sleep(1)
        finally:
            unwound.append("heart")

    def main() -> int:
        chaos.tasks.sleep(10)
        kernel.kill(victim)
        beats_at_death = beats[0]
        for _ in range(10):
            chaos.tasks.sleep(1)
        return beats_at_death

    victim.tasks.spawn("heart", heart)
    beats_at_death = kernel.run(chaos, main, time_limit_ns=LIMIT_NS)
    assert not victim.alive
    return beats_at_death, beats[0], unwound


def test_killing_another_machine_stops_it_before_it_takes_another_step(policy_of: Callable[[int], Policy]) -> None:
    for seed in range(20):
        beats_at_death, beats_at_the_end, unwound = kill_a_beating_heart(policy_of(seed))
        assert beats_at_death == beats_at_the_end > 0
        assert unwound == ["heart"]


def test_a_task_that_calls_a_dead_machine_fails() -> None:
    kernel, machine = make_broker()
    dead = kernel.create_machine("dead")
    kernel.kill(dead)
    with pytest.raises(TaskFailedError, match=r"broker/main failed: .*machine dead is off"):
        kernel.run(machine, dead.clock.now_ms, time_limit_ns=0)


def test_a_joiner_on_another_machine_sees_a_task_die() -> None:
    kernel, machine = make_broker()
    victim = kernel.create_machine("victim")
    sleeper = victim.tasks.spawn("sleeper", lambda: victim.tasks.sleep(10_000))

    def main() -> bool:
        machine.tasks.spawn("killer", lambda: kernel.kill(victim))
        return sleeper.join(None)

    assert kernel.run(machine, main, time_limit_ns=LIMIT_NS) is True


def test_killing_a_machine_between_runs_unwinds_its_tasks_at_once() -> None:
    kernel, machine = make_broker()
    server = kernel.create_machine("server")
    unwound: list[str] = []

    def serve() -> None:
        try:
            server.tasks.sleep(10_000)
        finally:
            unwound.append("serve")

    server.tasks.spawn("serve", serve)
    kernel.run(machine, lambda: machine.tasks.sleep(1), time_limit_ns=LIMIT_NS)
    kernel.kill(server)

    assert unwound == ["serve"]


def test_a_dead_machine_starts_no_task() -> None:
    kernel, machine = make_broker()
    kernel.kill(machine)
    with pytest.raises(MachineDied):
        kernel.run(machine, lambda: None, time_limit_ns=0)
    with pytest.raises(MachineDied):
        machine.tasks.spawn("x", lambda: None)


@pytest.mark.parametrize("is_killed", [True, False])
def test_death_callbacks_run_once_before_the_tasks_end(is_killed: bool) -> None:
    kernel, machine = make_broker()
    told: list[str] = []
    machine.at_death.append(lambda: told.append("off" if not machine.alive else "on"))

    def service() -> None:
        try:
            machine.tasks.sleep(1_000)
        finally:
            told.append("unwound")

    def main() -> None:
        machine.tasks.spawn("service", service)
        machine.tasks.sleep(1)
        if is_killed:
            kernel.kill(machine)
            kill_and_raise(kernel, machine)

    with suppress(MachineDied):
        kernel.run(machine, main, time_limit_ns=LIMIT_NS)
    kernel.close()

    assert told == ["off", "unwound"]

"""A run that loops without a world call is ended and reported as LIVE."""

import gc
import signal
import weakref
from collections.abc import Callable
from time import process_time

import pytest

from tests.fixtures import QUIET_SCENARIO
from tornlog.scenarios.campaigns import seeds
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.sim.choices import Choices
from tornlog.sim.errors import NoProgressError
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import SimTask
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.process import CpuLimitReached, collect_garbage_at_end, cpu_limit, stall_limit


def loop_forever(*_: object) -> None:
    while True:
        pass


def test_an_endless_loop_is_ended_by_the_cpu_limit_and_the_previous_handler_restored() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(CpuLimitReached), cpu_limit(0.05):
        loop_forever()
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def use_cpu(seconds: float) -> None:
    began = process_time()
    while process_time() - began < seconds:
        sum(range(10_000))  # the timer counts user time, not time in the kernel


class Finalized:
    """Uses CPU time in a finalizer, where Python prints exceptions and continues."""

    ended = 0

    def __del__(self) -> None:
        use_cpu(0.1)
        Finalized.ended += 1


def finalize_and_loop() -> None:
    Finalized()
    loop_forever()


class Watched: ...


def release_and_loop(gone: Callable[[], None]) -> None:
    watched = Watched()
    weakref.finalize(watched, gone)
    del watched
    loop_forever()


def collect_and_loop() -> None:
    gc.collect(0)
    loop_forever()


def test_a_finalizer_completes_before_the_cpu_limit_ends_the_block() -> None:
    with pytest.raises(CpuLimitReached), cpu_limit(0.05):
        finalize_and_loop()
    assert Finalized.ended == 1


def test_a_weakref_callback_completes_before_the_cpu_limit_ends_the_block() -> None:
    ended: list[bool] = []

    def gone() -> None:
        use_cpu(0.1)
        ended.append(True)

    with pytest.raises(CpuLimitReached), cpu_limit(0.05):
        release_and_loop(gone)
    assert ended


def test_a_collector_callback_completes_before_the_cpu_limit_ends_the_block() -> None:
    phases: list[str] = []

    def callback(phase: str, info: object) -> None:
        use_cpu(0.1)
        phases.append(phase)

    gc.callbacks.append(callback)
    try:
        with pytest.raises(CpuLimitReached), cpu_limit(0.05):
            collect_and_loop()
    finally:
        gc.callbacks.remove(callback)
    assert phases in (["start"], ["start", "stop"])


def test_a_block_that_ends_before_the_cpu_limit_is_not_interrupted() -> None:
    with cpu_limit(5.0):
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_without_a_cpu_limit_no_timer_is_set() -> None:
    with cpu_limit(None):
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_task_that_catches_the_cpu_limit_error_gets_it_again() -> None:
    ends: list[CpuLimitReached] = []

    def stubborn() -> None:
        try:
            loop_forever()
        except CpuLimitReached as end:
            ends.append(end)
            loop_forever()

    with pytest.raises(CpuLimitReached), cpu_limit(0.05):
        stubborn()
    assert len(ends) == 1


def test_a_task_that_loops_until_the_cpu_limit_ends_the_run_and_stops_all_machines() -> None:
    with Kernel(RandomWalk(Choices("loop").stream("schedule"), 4)) as kernel:
        machine = kernel.create_machine("m")
        unwound: list[str] = []

        def waiter() -> None:
            try:
                machine.tasks.sleep(1000)
            finally:
                unwound.append("waiter")

        def body() -> None:
            machine.tasks.spawn("waiter", waiter)
            machine.tasks.spawn("loop", loop_forever)
            machine.tasks.sleep(2000)

        with pytest.raises(CpuLimitReached), cpu_limit(0.05):
            kernel.run(machine, body, time_limit_ns=10**12)
        assert not machine.alive
        assert machine.live_tasks == {}
    assert unwound in (["waiter"], [])  # it may not have begun


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_a_block_is_collected_at_its_end() -> None:
    with collect_garbage_at_end():
        made = weakref.ref(Cycle())
        assert not gc.isenabled()
        assert made() is not None
    assert gc.isenabled()
    assert made() is None


def test_garbage_made_after_a_block_is_collected_at_the_next_block() -> None:
    with collect_garbage_at_end():
        held = Cycle()
        made = weakref.ref(held)
    del held
    assert made() is not None, "hardly anything is made between two blocks"
    with collect_garbage_at_end():
        assert made() is None


def test_a_run_that_raises_restores_the_garbage_collector_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_nothing(*_: object, **__: object) -> None:
        assert not gc.isenabled()
        raise MemoryError

    monkeypatch.setattr(seeds, "_execute_seed", run_nothing)

    assert run_seed(QUIET_SCENARIO, 0).outcome == "harness-error"
    assert gc.isenabled()


class SlowQuanta(RandomWalk):
    """Grants a quantum of one point, in 1 ms."""

    def quantum(self, chosen: SimTask, step: int) -> int:
        use_cpu(0.001)
        return 1


def test_quanta_of_a_lone_task_are_progress_though_they_are_drawn_after_its_steps() -> None:
    with Kernel(SlowQuanta(Choices("slow").stream("schedule"), 4), step_limit=400) as kernel:

        def body() -> None:
            while True:
                kernel.scheduling_point("loop")

        with pytest.raises(NoProgressError, match="the step limit is reached"), stall_limit(0.03):
            kernel.run(kernel.create_machine("m"), body, time_limit_ns=10**9)

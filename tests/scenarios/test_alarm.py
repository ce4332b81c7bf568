"""A run that loops without a world call is ended, and is told of as LIVE; the process goes on as if nothing were."""

import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from tornlog.scenarios.alarm import NoEndInSight, cpu_limit
from tornlog.scenarios.outcome import Outcome
from tornlog.scenarios.plan import Plan
from tornlog.scenarios.scenario import Scenario
from tornlog.scenarios.seeds import run_seed
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.consume_queue import ConsumeQueue
from tornlog.store.message_store import MessageStore


def loop_for_ever(*_: object) -> None:
    while True:
        pass


def test_a_loop_is_ended_and_the_handler_that_was_there_is_back() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(NoEndInSight), cpu_limit(0.05):
        loop_for_ever()
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_block_that_ends_in_time_is_left_alone() -> None:
    with cpu_limit(5.0):
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_without_a_limit_no_timer_is_set() -> None:
    with cpu_limit(None):
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_task_that_swallows_the_end_is_ended_again() -> None:
    ends: list[NoEndInSight] = []

    def stubborn() -> None:
        try:
            loop_for_ever()
        except NoEndInSight as end:
            ends.append(end)
            loop_for_ever()

    with pytest.raises(NoEndInSight), cpu_limit(0.05):
        stubborn()
    assert len(ends) == 1


def test_a_task_that_loops_ends_its_kernels_run_and_all_machines_are_off() -> None:
    with Kernel(RandomWalk(Choices("loop").stream("schedule"), 4)) as kernel:
        machine = kernel.machine("m")
        unwound: list[str] = []

        def waiter() -> None:
            try:
                machine.tasks.sleep(1000)
            finally:
                unwound.append("waiter")

        def body() -> None:
            machine.tasks.spawn("waiter", waiter)
            machine.tasks.spawn("loop", loop_for_ever)
            machine.tasks.sleep(2000)

        with pytest.raises(NoEndInSight), cpu_limit(0.05):
            kernel.run(machine, body, time_limit_ns=10**12)
        assert not machine.alive
        assert machine.live_tasks == {}
    assert unwound in (["waiter"], [])  # it may not have begun


def test_a_store_that_loops_is_found_and_the_next_seed_runs_as_ever(
    quiet_scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = run_seed(quiet_scenario, 1)
    with monkeypatch.context() as patched:
        patched.setattr(ConsumeQueue, "append_entries", loop_for_ever)
        looped = [run_seed(quiet_scenario, 1, cpu_seconds_max=0.3) for _ in range(2)]
    again = run_seed(quiet_scenario, 1, cpu_seconds_max=20.0)

    assert [result.outcome for result in looped] == ["violated", "violated"]
    assert looped[0].failure is not None
    assert looped[0].digest == looped[1].digest
    assert "LIVE" in str(looped[0].failure.to_json())
    assert again.outcome == "held"
    assert again.digest == clean.digest


def test_a_loop_outside_of_any_task_is_an_error_of_the_harness(
    quiet_scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornlog.scenarios.seeds.draw", loop_for_ever)
    result = run_seed(quiet_scenario, 1, cpu_seconds_max=0.05)
    assert result.outcome == "harness-error"
    assert "NoEndInSight" in result.error


def test_the_violation_says_what_happened(
    crash_plan: Plan, execute: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessageStore, "load", loop_for_ever)
    with cpu_limit(0.2):
        (violation,) = execute(replace(crash_plan)).violations
    assert (violation.invariant, violation.field) == ("LIVE", "progress")
    assert violation.summary == "no end in sight: a task loops without a world call"

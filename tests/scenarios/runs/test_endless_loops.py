"""A run that loops without a world call is ended and reported as LIVE, and the process continues."""

from dataclasses import replace

import pytest

from tests.fixtures import QUIET_SCENARIO, execute
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.plan import Plan
from tornlog.sim.process import stall_limit
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import ConsumeQueue


def loop_forever(*_: object) -> None:
    while True:
        pass


def test_an_endless_loop_is_found_and_does_not_affect_the_next_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = run_seed(QUIET_SCENARIO, 1)
    with monkeypatch.context() as patched:
        patched.setattr(ConsumeQueue, "append_entries", loop_forever)
        looped = [run_seed(QUIET_SCENARIO, 1, stall_seconds=0.2) for _ in range(2)]
    again = run_seed(QUIET_SCENARIO, 1, stall_seconds=20.0)

    assert [result.outcome for result in looped] == ["violated", "violated"]
    assert looped[0].failure is not None
    assert looped[0].digest == looped[1].digest
    assert "LIVE" in str(looped[0].failure.to_json())
    assert again.outcome == "held"
    assert again.digest == clean.digest


def test_a_loop_with_steps_ends_at_the_same_step_however_slow_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def wake_forever(queue: ConsumeQueue, *_: object) -> None:
        while True:
            queue.queue.flushed_where.get()

    run_seed(QUIET_SCENARIO, 1)  # the first run of a process reads the code of the store, which takes no step
    monkeypatch.setattr(ConsumeQueue, "append_entries", wake_forever)
    monkeypatch.setattr("tornlog.faults.simulation.simulation.STEP_LIMIT", 60_000)
    looped = [run_seed(QUIET_SCENARIO, 1, stall_seconds=seconds) for seconds in (0.15, 20.0)]

    assert [result.outcome for result in looped] == ["violated", "violated"], looped[0].error
    assert looped[0].digest == looped[1].digest
    assert looped[0].failure is not None
    assert "LIVE" in str(looped[0].failure.to_json())
    assert "the step limit is reached" in str(looped[0].failure.to_json())


def test_a_loop_outside_of_any_task_is_an_error_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornlog.scenarios.campaigns.seeds.draw_plan_of_seed", loop_forever)
    result = run_seed(QUIET_SCENARIO, 1, stall_seconds=0.05)
    assert result.outcome == "harness-error"
    assert "CpuLimitReached" in result.error


def test_the_violation_names_the_endless_loop(crash_plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageStore, "load", loop_forever)
    with stall_limit(0.2):
        (violation,) = execute(replace(crash_plan)).violations
    assert (violation.invariant, violation.field) == ("LIVE", "progress")
    assert violation.summary == "endless loop: a task computes without a call of clock, tasks, files or network"

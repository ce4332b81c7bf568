from collections.abc import Callable

import pytest

from tests.conformance.maven import JavaProgram, real_store_program
from tornlog.faults.probe.record import STORE

from .plans import FINDINGS, OF_4, PLANS
from .recorded import recorded_store, run_plan

Fetched = Callable[[Callable[[], JavaProgram]], JavaProgram]


@pytest.mark.slow
def test_a_truncated_record_returns_after_a_kill_in_the_second_life(fetched: Fetched) -> None:
    fetched(lambda: real_store_program("rocketmq-4.9.8"))
    (plan,) = (plan for plan in PLANS if plan.name == "second life")

    run = run_plan(recorded_store(plan.version), plan)

    assert FINDINGS[OF_4]["cut-record-returns"] in run.met, sorted(run.met)


@pytest.mark.slow
def test_process_kills_of_the_real_store_reproduce_the_findings_without_a_power_cut(fetched: Fetched) -> None:
    fetched(lambda: real_store_program("rocketmq-4.9.8"))  # skips where there is no Maven
    (plan,) = (plan for plan in PLANS if plan.name == "puts")

    run = run_plan(recorded_store(plan.version), plan)

    assert sum(step.kind == STORE for step in run.record.steps) > 100
    assert {task.name for task in run.record.tasks} >= {"java", "AllocateMappedF"}
    shown = {FINDINGS[OF_4][name] for name in ("start-refused", "torn-properties", "lost-tag", "found-twice")}
    assert shown <= set(run.met), sorted(run.met)

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN, QUIET_SCENARIO, execute
from tornlog.faults.disk.disk import Disk
from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.simulation import Simulation, SimWorld
from tornlog.faults.simulation.trials import find
from tornlog.reports.timeline.page import timeline_page
from tornlog.reports.timeline.recording.record import RunRecording, Subject
from tornlog.reports.timeline.recording.recorder import RunRecorder, record_finding, record_seed, replay_recorded
from tornlog.reports.timeline.recording.watched_world import WatchedLock, WatchedTasks
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.machine import world_of
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RoundRobin


def execute_seed(scenario: Scenario, seed: int, recorder: RunRecorder | None) -> RunOutcome:
    choices, plan = draw_plan_of_seed(scenario, seed)
    on_request = None if recorder is None else recorder.on_request
    return Run(plan, simulation_of(plan, choices, None, recorder), on_request=on_request).execute()


_ONE_IN_FOUR = [
    pytest.param(name, marks=() if number % 4 == 1 else pytest.mark.slow) for number, name in enumerate(SCENARIOS)
]


@pytest.mark.ci
@pytest.mark.parametrize("name", _ONE_IN_FOUR)
def test_recording_a_timeline_does_not_change_the_digest(name: str) -> None:
    for seed in range(2):
        assert execute_seed(SCENARIOS[name], seed, RunRecorder()) == execute_seed(SCENARIOS[name], seed, None)


def test_a_recorder_that_changes_the_run_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    took = RunRecorder.on_lock_acquired

    def took_and_paused(self: RunRecorder, lock: WatchedLock) -> None:
        took(self, lock)
        self._moments.kernel.scheduling_point("a point that the run does not have")

    monkeypatch.setattr(RunRecorder, "on_lock_acquired", took_and_paused)
    assert execute_seed(QUIET_SCENARIO, 1, RunRecorder()) != execute_seed(QUIET_SCENARIO, 1, None)


def test_without_a_recorder_the_world_is_not_wrapped() -> None:
    kernel = Kernel(RoundRobin(1))
    machine = kernel.create_machine("m")
    disk = Disk(kernel, Choices("1").stream("disk"))
    world = world_of(machine, disk)
    assert world.tasks is machine.tasks
    assert not isinstance(world.tasks, WatchedTasks)


def test_recording_does_not_change_a_replay(failure: Failure) -> None:
    subject = Subject(failure.scenario, failure.claim, failure.seed, failure.mutant)
    with applied_mutant(failure.mutant):
        replayed, run_recording = replay_recorded(subject, failure.original.record)
    assert replayed.is_same(failure.original)
    assert run_recording.digest == failure.original.digest
    assert [broken.violation for broken in run_recording.broken] == failure.violations
    assert run_recording.subject == subject


def test_the_same_run_gives_the_same_recording() -> None:
    assert record_seed(QUIET_SCENARIO, 2) == record_seed(QUIET_SCENARIO, 2)


@pytest.mark.ci
def test_every_recorded_event_has_an_existing_moment(broken_by: Callable[[str], RunRecording]) -> None:
    run = broken_by("stale-tail-after-truncate")
    count = len(run.moments)
    assert run.moments == sorted(run.moments)
    lasting: list[Any] = [*run.machines, *run.tasks, *run.spans, *run.holds, *run.operations]
    assert len(lasting) > 100
    assert all(0 <= one.begin <= one.end < count for one in lasting)
    assert all(0 <= one.at < count for one in [*run.positions, *run.cuts, *run.broken, *run.faults])


def test_machines_are_recorded_in_order_with_the_way_they_ended(crash_plan: Plan) -> None:
    assert execute(crash_plan).violations == []
    recorder = RunRecorder()
    simulation = simulation_of(crash_plan, Choices("1"), None, recorder)
    outcome = Run(crash_plan, simulation, on_request=recorder.on_request).execute()
    run = recorder.run_recording(Subject("crash", "", 1, None), outcome.plan, outcome.digest, outcome.injected)
    assert [(machine.name, machine.ending) for machine in run.machines] == [
        ("life-0", "killed"),
        ("heal", "stopped"),
        ("healed", "stopped"),
        ("after", "stopped"),
    ]
    for before, behind in pairwise(run.machines):
        assert before.begin < before.end <= behind.begin


def test_each_counted_fault_is_recorded_once() -> None:
    scenario = SCENARIOS["failed-fsync-not-acknowledged"]
    told = counted = 0
    for seed in range(12):
        run = record_seed(scenario, seed)
        told += sum(fault.kind == "failed sync" for fault in run.faults)
        counted += run.injected.get("failed sync", 0)
        assert all(fault.about for fault in run.faults if fault.kind == "failed sync")
    assert told == counted > 0
    scenario = SCENARIOS["pauses-and-clock-steps"]
    runs = [record_seed(scenario, seed) for seed in range(6)]
    for kind in ("paused task", "clock step"):
        told = sum(fault.kind == kind for run in runs for fault in run.faults)
        assert told == sum(run.injected.get(kind, 0) for run in runs)
    assert any(run.faults for run in runs)


def test_after_a_violation_no_events_are_recorded() -> None:
    plan = replace(QUIET_PLAN, consumers=1)
    recorder = RunRecorder()
    with applied_mutant("ack-before-flush"):
        outcome = Run(plan, simulation_of(plan, Choices("1"), None, recorder), on_request=recorder.on_request).execute()
    run = recorder.run_recording(Subject("broken", "", 1, None), outcome.plan, outcome.digest, outcome.injected)
    assert run.broken[0].at == len(run.moments) - 1
    who = run.tasks[run.broken[0].task].name
    assert who in {f"life-0/producer-{number}" for number in range(plan.producers)}
    assert run.machines[-1].end == run.broken[0].at
    assert run.machines[-1].ending == ""


def write_without_sync(run: Simulation) -> None:
    """Write a file without a sync, and demand that it survives."""

    def write(world: SimWorld) -> None:
        log = world.files.open("/log")
        with world.tasks.lock("log"):
            log.write(0, b"x" * 700)
        log.sync()

    def judge(world: SimWorld) -> None:
        if "log" not in world.files.list_directory("/"):
            raise PromiseBroken("what was written is there", "it is gone")

    run.live("first", write, crash_within=12, profiles=("os-crash", "strict-posix"))
    run.live("second", judge)


def test_the_finding_of_a_users_own_code_is_recorded_with_crash_and_violation() -> None:
    finding = find(write_without_sync, range(200))
    assert finding is not None
    recording = record_finding(write_without_sync, finding)

    assert recording.digest == finding.digest
    assert [machine.name for machine in recording.machines] == ["first", "second"]
    assert {"/log"} <= {operation.path for operation in recording.operations}
    (cut,) = recording.cuts
    assert (cut.machine, cut.following) == ("first", "second")
    assert cut.how in ("os-crash", "strict-posix")
    (broken,) = recording.broken
    assert broken.violation.summary == "what was written is there"
    page = timeline_page(recording)
    assert "what was written is there" in page

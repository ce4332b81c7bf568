"""How far the log has come, in each sense."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tornlog.reports.timeline.recording.record import (
    COMMITTED,
    DISPATCHED,
    FLUSHED,
    WROTE,
    RunRecording,
    Subject,
)
from tornlog.reports.timeline.recording.recorder import RunRecorder
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices


@pytest.fixture(scope="module")
def recorded() -> Callable[[Plan], RunRecording]:
    def recorded(plan: Plan) -> RunRecording:
        recorder = RunRecorder()
        outcome = Run(plan, Choices("1"), None, recorder, ledger=recorder.ledger).execute()
        assert outcome.violations == []
        return recorder.run_recording(Subject("", "", 1, None), outcome)

    return recorded


def steps(run: RunRecording, name: str, machine: str = "life-0") -> list[tuple[int, int]]:
    life = next(one for one in run.machines if one.name == machine)
    return [
        (one.at, one.value) for one in run.positions if one.name == name and life.begin <= one.at <= life.end
    ]


def value_at(changes: list[tuple[int, int]], at: int) -> int:
    return max((value for moment, value in changes if moment <= at), default=0)


def test_positions_move_ahead_each_behind_the_one_before(
    recorded: Callable[[Plan], RunRecording], quiet_plan: Plan
) -> None:
    run = recorded(quiet_plan)
    wrote, flushed, dispatched = (steps(run, name) for name in (WROTE, FLUSHED, DISPATCHED))
    for changes in (wrote, flushed, dispatched):
        values = [value for _, value in changes]
        assert values == sorted(values)
        assert values[-1] > 0
    assert wrote[-1][1] == flushed[-1][1] == dispatched[-1][1]
    for at, value in flushed:
        assert value <= value_at(wrote, at)
    for at, value in dispatched:
        assert value <= value_at(flushed, at), "under sync flush nobody sees what is not durable"


def test_nothing_is_flushed_but_behind_a_sync(
    recorded: Callable[[Plan], RunRecording], quiet_plan: Plan
) -> None:
    run = recorded(quiet_plan)
    syncs = [one for one in run.operations if one.kind == "msync" and "/commitlog/" in one.path]
    moved = [at for at, value in steps(run, FLUSHED) if value]
    assert moved
    for at in moved:
        assert any(one.end < at and not one.ending for one in syncs)


def test_with_the_pool_what_is_committed_is_told(
    recorded: Callable[[Plan], RunRecording], quiet_plan: Plan
) -> None:
    run = recorded(replace(quiet_plan, sync_flush=False, transient_pool=True))
    wrote, committed = steps(run, WROTE), steps(run, COMMITTED)
    assert committed[-1][1] == wrote[-1][1] > 0
    assert [at for at, value in committed if value and value < value_at(wrote, at)] or len(committed) < len(
        wrote
    )
    for at, value in committed:
        assert value <= value_at(wrote, at)
    assert not [one for one in recorded(quiet_plan).positions if one.name == COMMITTED]


def test_each_life_begins_with_what_its_recovery_has_found(
    recorded: Callable[[Plan], RunRecording], crash_plan: Plan
) -> None:
    run = recorded(crash_plan)
    last = steps(run, WROTE, "life-0")[-1][1]
    for machine in ("heal", "healed"):
        assert steps(run, WROTE, machine)[0][1] == last > 0


def test_the_checkpoint_is_told_when_it_is_written(
    recorded: Callable[[Plan], RunRecording], quiet_plan: Plan
) -> None:
    run = recorded(quiet_plan)
    stores = [one for one in run.operations if one.kind == "store" and one.path == "/store/checkpoint"]
    assert len(run.checkpoints) == len(stores) > 0
    assert run.checkpoints[-1].physic_ms > 1_600_000_000_000
    for write, store in zip(run.checkpoints, stores, strict=True):
        assert store.end <= write.at

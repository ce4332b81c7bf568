from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.reports.timeline.recording.record import (
    COMMITTED,
    CUT_OFF,
    DISPATCHED,
    FLUSHED,
    WROTE,
    RunRecording,
    Subject,
)
from tornlog.reports.timeline.recording.recorder import RunRecorder
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices


def record_plan(plan: Plan) -> RunRecording:
    recorder = RunRecorder()
    outcome = Run(plan, simulation_of(plan, Choices("1"), None, recorder), on_request=recorder.on_request).execute()
    assert outcome.violations == []
    return recorder.run_recording(Subject("", "", 1, None), outcome.plan, outcome.digest, outcome.injected)


def position_changes(run: RunRecording, name: str, machine: str = "life-0") -> list[tuple[int, int]]:
    life = next(one for one in run.machines if one.name == machine)
    return [(one.at, one.value) for one in run.positions if one.name == name and life.begin <= one.at <= life.end]


def value_at(changes: list[tuple[int, int]], at: int) -> int:
    return max((value for moment, value in changes if moment <= at), default=0)


def test_recorded_log_positions_increase_and_keep_their_order() -> None:
    run = record_plan(QUIET_PLAN)
    wrote, flushed, dispatched = (position_changes(run, name) for name in (WROTE, FLUSHED, DISPATCHED))
    for changes in (wrote, flushed, dispatched):
        values = [value for _, value in changes]
        assert values == sorted(values)
        assert values[-1] > 0
    assert wrote[-1][1] == flushed[-1][1] == dispatched[-1][1]
    for at, value in flushed:
        assert value <= value_at(wrote, at)
    for at, value in dispatched:
        assert value <= value_at(flushed, at), "under sync flush nobody sees what is not durable"


def test_the_flushed_position_moves_only_after_a_sync() -> None:
    run = record_plan(QUIET_PLAN)
    syncs = [one for one in run.operations if one.kind == "msync" and "/commitlog/" in one.path]
    moved = [at for at, value in position_changes(run, FLUSHED) if value]
    assert moved
    for at in moved:
        assert any(one.end < at and not one.ending for one in syncs)


def test_with_a_transient_pool_the_committed_position_is_recorded() -> None:
    run = record_plan(QUIET_PLAN.replace(sync_flush=False, memory={"transient_pool": True}))
    wrote, committed = position_changes(run, WROTE), position_changes(run, COMMITTED)
    assert committed[-1][1] == wrote[-1][1] > 0
    assert [at for at, value in committed if value and value < value_at(wrote, at)] or len(committed) < len(wrote)
    for at, value in committed:
        assert value <= value_at(wrote, at)
    assert not [one for one in record_plan(QUIET_PLAN).positions if one.name == COMMITTED]


def test_each_life_starts_with_the_positions_that_recovery_found(crash_plan: Plan) -> None:
    run = record_plan(crash_plan)
    last = position_changes(run, WROTE, "life-0")[-1][1]
    for machine in ("heal", "healed"):
        assert position_changes(run, WROTE, machine)[0][1] == last > 0


def test_a_write_of_the_checkpoint_is_recorded() -> None:
    run = record_plan(QUIET_PLAN)
    stores = [one for one in run.operations if one.kind == "store" and one.path == "/store/checkpoint"]
    assert len(run.checkpoints) == len(stores) > 0
    assert run.checkpoints[-1].physic_ms > 1_600_000_000_000
    for write, store in zip(run.checkpoints, stores, strict=True):
        assert store.end <= write.at


def record_run(plan: Plan, seed: str = "1", mutant: str | None = None) -> tuple[RunRecording, list[PutEntry]]:
    recorder, entries = RunRecorder(), list[PutEntry]()

    def record_put(entry: PutEntry) -> None:
        entries.append(entry)
        recorder.on_request(entry)

    with applied_mutant(mutant):
        simulation = simulation_of(plan, Choices(seed), None, recorder)
        outcome = Run(plan, simulation, on_request=record_put).execute()
    recording = recorder.run_recording(Subject("", "", 1, mutant), outcome.plan, outcome.digest, outcome.injected)
    return recording, entries


def test_the_recorded_puts_equal_those_of_the_ledger() -> None:
    run, entries = record_run(QUIET_PLAN.replace(messages={"batch_chance": 0.4, "illegal_chance": 0.2}))
    assert [put.name for put in run.puts] == [entry.name for entry in entries]
    assert len({put.status for put in run.puts}) > 1
    for put, entry in zip(run.puts, entries, strict=True):
        assert entry.status is not None
        assert put.status == entry.status.value
        assert run.moments[put.asked].now_ns == entry.asked_ns
        assert run.moments[put.answered].now_ns == entry.answered_ns
        assert run.tasks[put.task].name.rpartition("/")[2].startswith("producer-")
        assert put.log_offset == (-1 if entry.physical_offset is None else entry.physical_offset)


def test_a_recorded_put_has_the_log_offset_of_its_record() -> None:
    run, _ = record_run(QUIET_PLAN)
    stored = [put for put in run.puts if put.status == "PUT_OK"]
    assert stored
    for put in stored:
        write = next(
            one
            for one in run.operations
            if one.kind == "store" and one.path == put.path and (one.start, one.stop) == (put.start, put.stop)
        )
        assert put.asked < write.begin < put.answered
        assert put.log_offset == int(put.path.rpartition("/")[2]) + put.start


def test_a_put_without_an_answer_is_drawn_as_cut_off_and_may_have_an_offset() -> None:
    cut_off = placed = 0
    for operation in range(20, 60, 3):
        life = Life(LifeEnding.CRASH_IN_TRAFFIC, "strict-posix", operation, "after", 6)
        run, _ = record_run(replace(QUIET_PLAN, lives=(life,)))
        for put in run.puts:
            if put.status == CUT_OFF:
                assert put.answered == -1
                cut_off += 1
                placed += bool(put.path)
    assert cut_off > placed > 0


def test_every_recovery_finds_the_promised_puts(crash_plan: Plan) -> None:
    run, _ = record_run(crash_plan)
    first = [put for put in run.puts if put.name.startswith("m0.") and put.status == "PUT_OK"]
    assert first
    for put in first:
        assert put.outcomes
        assert all(outcome.found and outcome.promised and not outcome.returned for outcome in put.outcomes)
        assert [outcome.machine for outcome in put.outcomes] == ["heal", "after"]


def test_a_lost_put_is_recorded_as_promised_not_found_and_damaged(lost: RunRecording) -> None:
    run = lost
    (broken,) = run.broken[:1]
    assert broken.violation.invariant == "DUR"
    put = run.puts[broken.puts[0]]
    assert put.name in broken.violation.summary
    assert (put.outcomes[-1].found, put.outcomes[-1].promised) == (False, True)
    assert broken.puts[0] in run.cuts[0].damaged
    there = [number for number, put in enumerate(run.puts) if put.outcomes and put.outcomes[-1].found]
    assert there
    assert not set(there) & set(run.cuts[0].damaged)


@pytest.mark.ci
def test_a_put_that_an_earlier_recovery_missed_is_recorded_as_returned(came_back: RunRecording) -> None:
    run = came_back
    returned = [put for put in run.puts if put.outcomes and put.outcomes[-1].returned]
    assert returned
    assert not returned[0].outcomes[-2].found
    assert run.puts[run.broken[0].puts[0]] in returned


def test_a_violation_with_a_log_offset_is_linked_to_the_record_there() -> None:
    run, _ = record_run(QUIET_PLAN, mutant="ack-before-flush")
    broken = run.broken[0]
    assert broken.violation.file == "commitlog"
    put = run.puts[broken.puts[0]]
    assert put.log_offset <= broken.violation.offset < put.log_offset + put.stop - put.start
    assert put.answered < broken.at

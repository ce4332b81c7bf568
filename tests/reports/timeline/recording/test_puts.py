"""The ledger of a chronicle: asked, answered, where the record lies, and what became of it."""

from collections.abc import Callable
from dataclasses import replace

from tornlog.reports.timeline.recording.record import CUT_OFF, RunRecording, Subject
from tornlog.reports.timeline.recording.recorder import RunRecorder
from tornlog.scenarios.claims.plan import Life, Plan
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices


def recorded(plan: Plan, seed: str = "1", mutant: str | None = None) -> tuple[RunRecording, RunRecorder]:
    recorder = RunRecorder()
    with applied_mutant(mutant):
        outcome = Run(plan, Choices(seed), None, recorder, ledger=recorder.ledger).execute()
    return recorder.run_recording(Subject("", "", 1, mutant), outcome), recorder


def test_puts_are_those_of_the_ledger(quiet_plan: Plan) -> None:
    run, recorder = recorded(replace(quiet_plan, batch_chance=0.4, illegal_chance=0.2))
    entries = recorder.ledger.puts
    assert [put.name for put in run.puts] == [entry.name for entry in entries]
    assert len({put.status for put in run.puts}) > 1
    for put, entry in zip(run.puts, entries, strict=True):
        assert entry.status is not None
        assert put.status == entry.status.value
        assert run.moments[put.asked].now_ns == entry.asked_ns
        assert run.moments[put.answered].now_ns == entry.answered_ns
        assert run.tasks[put.task].name.rpartition("/")[2].startswith("producer-")
        assert put.log_offset == (-1 if entry.physical_offset is None else entry.physical_offset)


def test_a_put_lies_where_its_record_was_written(quiet_plan: Plan) -> None:
    run, _ = recorded(quiet_plan)
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


def test_a_put_without_an_answer_is_cut_off_and_may_still_have_a_place(quiet_plan: Plan) -> None:
    cut_off = placed = 0
    for operation in range(20, 60, 3):
        life = Life("crash in traffic", "strict-posix", operation, "after", 6)
        run, _ = recorded(replace(quiet_plan, lives=(life,)))
        for put in run.puts:
            if put.status == CUT_OFF:
                assert put.answered == -1
                cut_off += 1
                placed += bool(put.path)
    assert cut_off > placed > 0


def test_what_was_promised_is_found_in_every_recovery(crash_plan: Plan) -> None:
    run, _ = recorded(crash_plan)
    first = [put for put in run.puts if put.name.startswith("m0.") and put.status == "PUT_OK"]
    assert first
    for put in first:
        assert put.fates
        assert all(fate.found and fate.promised and not fate.returned for fate in put.fates)
        assert [fate.machine for fate in put.fates] == ["heal", "after"]


def test_what_is_lost_is_promised_not_found_and_damaged(broken_by: Callable[[str], RunRecording]) -> None:
    run = broken_by("no-dir-fsync-on-rollover")
    (broken,) = run.broken[:1]
    assert broken.violation.invariant == "DUR"
    lost = run.puts[broken.puts[0]]
    assert lost.name in broken.violation.summary
    assert (lost.fates[-1].found, lost.fates[-1].promised) == (False, True)
    assert broken.puts[0] in run.cuts[0].damaged
    there = [number for number, put in enumerate(run.puts) if put.fates and put.fates[-1].found]
    assert there
    assert not set(there) & set(run.cuts[0].damaged)


def test_what_comes_back_from_the_dead_is_told(broken_by: Callable[[str], RunRecording]) -> None:
    run = broken_by("stale-tail-after-truncate")
    returned = [put for put in run.puts if put.fates and put.fates[-1].returned]
    assert returned
    assert not returned[0].fates[-2].found
    assert run.puts[run.broken[0].puts[0]] in returned


def test_a_violation_with_a_log_offset_is_about_the_record_there(quiet_plan: Plan) -> None:
    run, _ = recorded(quiet_plan, mutant="ack-before-flush")
    broken = run.broken[0]
    assert broken.violation.file == "commitlog"
    put = run.puts[broken.puts[0]]
    assert put.log_offset <= broken.violation.offset < put.log_offset + put.stop - put.start
    assert put.answered < broken.at

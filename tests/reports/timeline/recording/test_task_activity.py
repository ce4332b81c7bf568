from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.fixtures import QUIET_SCENARIO
from tornlog.faults.plan import FaultPlan
from tornlog.reports.timeline.recording.record import (
    CUT_OFF,
    READY,
    RUNNING,
    WAITING,
    OperationRecord,
    RunRecording,
    Span,
)
from tornlog.reports.timeline.recording.recorder import record_seed
from tornlog.sim.errors import MachineDied


def number_of(run: RunRecording, name: str) -> int:
    return next(number for number, task in enumerate(run.tasks) if task.name == name)


def spans_of(run: RunRecording, name: str, state: str) -> list[Span]:
    number = number_of(run, name)
    return [span for span in run.spans if span.task == number and span.state == state]


def test_a_task_waiting_for_a_lock_names_its_holder(workshop: Any) -> None:
    def body(world: Any) -> None:
        lock = world.tasks.lock("put")

        def hold() -> None:
            with lock:
                world.tasks.sleep(5)

        one = world.tasks.spawn("one", hold)
        world.tasks.sleep(1)
        with lock:
            world.tasks.sleep(0)
        one.join(None)

    workshop.live("m", workshop.disk(), body)
    run = workshop.run_recording()
    (wait,) = [span for span in spans_of(run, "m/main", WAITING) if span.why.startswith("lock")]
    assert wait.why == "lock put held by m/one"
    begin, end = run.moments[wait.begin], run.moments[wait.end]
    assert (begin.now_ns, end.now_ns) == (1_000_000, 5_000_000)
    held = [(run.tasks[hold.task].name, hold.lock) for hold in run.holds]
    assert held == [("m/one", "put"), ("m/main", "put")]
    assert run.holds[0].end <= run.holds[1].begin


def test_sleeps_signals_and_joins_are_recorded_as_waiting(workshop: Any) -> None:
    def body(world: Any) -> None:
        signal = world.tasks.signal("done")
        task = world.tasks.spawn("late", lambda: (world.tasks.sleep(2), signal.notify()))
        signal.wait(None)
        task.join(None)
        world.tasks.sleep(3)

    workshop.live("m", workshop.disk(), body)
    run = workshop.run_recording()
    waits = [span.why for span in spans_of(run, "m/main", WAITING)]
    assert waits[0] == "signal done"
    assert waits[-1] == "sleep"
    assert {"sleep"} == {span.why for span in spans_of(run, "m/late", WAITING)}


def test_an_uninterrupted_sleep_is_recorded_with_its_full_length(workshop: Any) -> None:
    workshop.live("m", workshop.disk(), lambda world: [world.tasks.sleep(7) for _ in range(3)])
    run = workshop.run_recording()
    sleeps = spans_of(run, "m/main", WAITING)
    assert len(sleeps) == 3
    for span in sleeps:
        assert run.moments[span.end].now_ns - run.moments[span.begin].now_ns == 7_000_000


def test_one_task_runs_at_a_time_and_no_virtual_time_passes_while_it_runs() -> None:
    run = record_seed(QUIET_SCENARIO, 1)
    running = sorted((span.begin, span.end) for span in run.spans if span.state == RUNNING)
    assert len(running) > 50
    for (_, end), (begin, _) in pairwise(running):
        assert end <= begin
    for begin, end in running:
        assert run.moments[end].now_ns == run.moments[begin].now_ns


def test_the_recorded_states_of_a_task_have_no_gaps() -> None:
    run = record_seed(QUIET_SCENARIO, 1)
    spans: dict[int, list[Span]] = defaultdict(list)
    for span in run.spans:
        spans[span.task].append(span)
    assert len(spans) > 5
    for number, mine in spans.items():
        assert mine[0].begin == run.tasks[number].begin
        assert mine[-1].end == run.tasks[number].end
        for before, behind in pairwise(mine):
            assert before.end == behind.begin
    assert {span.state for span in run.spans} == {RUNNING, READY, WAITING}


def test_tasks_and_operations_end_at_the_death_of_their_machine(workshop: Any) -> None:
    def body(world: Any) -> None:
        lock = world.tasks.lock("put")

        def hold() -> None:
            with lock:
                world.tasks.sleep(1000)

        world.tasks.spawn("holder", hold)
        world.tasks.sleep(2)

    workshop.live("m", workshop.disk(), body, cut="strict-posix")
    run = workshop.run_recording()
    holder = run.tasks[number_of(run, "m/holder")]
    assert holder.ending == CUT_OFF
    assert holder.end == run.holds[0].end == run.machines[0].end == run.cuts[0].at


def test_the_ways_in_which_tasks_ended_are_recorded(broken_by: Callable[[str], RunRecording]) -> None:
    held = record_seed(QUIET_SCENARIO, 1)
    assert all(task.ending == "" for task in held.tasks)
    assert any(task.ending == CUT_OFF for task in broken_by("no-dir-fsync-on-rollover").tasks)


def calls(run: Any, kind: str) -> list[OperationRecord]:
    return [operation for operation in run.operations if operation.kind == kind]


def test_disk_calls_are_recorded_with_file_range_and_duration(workshop: Any) -> None:
    def body(world: Any) -> None:
        file = world.files.map("/log", 8192)
        file.store(100, b"x" * 50)
        assert file.pwrite(4096, b"y" * 10) == 10
        file.msync(0, 4096)
        file.fdatasync()
        world.files.sync_directory("/")
        assert bytes(file.view(100, 102)) == b"xx"
        assert (file.path, file.size_bytes) == ("/log", 8192)

    workshop.live("m", workshop.disk(), body)
    run = workshop.run_recording()
    told = [(one.kind, one.path, one.start, one.stop, one.ending) for one in run.operations]
    assert told == [
        ("map", "/log", 0, 8192, ""),
        ("store", "/log", 100, 150, ""),
        ("pwrite", "/log", 4096, 4106, ""),
        ("msync", "/log", 0, 4096, ""),
        ("fdatasync", "/log", -1, -1, ""),
        ("sync directory", "/", -1, -1, ""),
    ]
    assert run.operations[0].parts == ["create", "extend"]
    took_ns = [run.moments[one.end].now_ns - run.moments[one.begin].now_ns for one in run.operations]
    assert took_ns[:3] == [0, 0, 0]
    assert all(0 < ns <= 1_000_000 for ns in took_ns[3:])
    assert all(one.begin < one.end for one in run.operations)


def test_every_file_system_call_is_recorded_by_name(workshop: Any) -> None:
    def body(world: Any) -> None:
        files = world.files
        files.make_directories("/a/b")
        files.write("/a/one", b"12345")
        assert files.read("/a/one") == b"12345"
        assert files.list_directory("/a") == ["b", "one"]
        files.set_mtime_ms("/a/one", 5)
        files.sync("/a/one")
        files.rename("/a/one", "/a/two")
        assert files.status("/a/one") is None
        files.unlink("/a/two")
        files.remove_directory("/a/b")
        files.lock("/lock").release()
        assert len(files.buffer(16)) == 16
        assert files.space("/").used_bytes >= 0

    workshop.live("m", workshop.disk(), body)
    run = workshop.run_recording()
    assert [one.kind for one in run.operations] == [
        "make directories",
        "write",
        "read",
        "list",
        "set mtime",
        "sync",
        "rename",
        "status",
        "unlink",
        "remove directory",
        "lock",
        "space",
    ]
    assert run.operations[0].parts == ["make directory /a", "make directory"]
    assert (run.operations[1].start, run.operations[1].stop) == (0, 5)


def test_a_failed_sync_is_recorded_with_its_error(workshop: Any) -> None:
    disk = workshop.disk(faults=FaultPlan(failed_sync_chance=1.0))

    def body(world: Any) -> None:
        file = world.files.map("/log", 4096)
        file.store(0, b"x")
        with pytest.raises(OSError, match="Input/output"):
            file.msync(0, 4096)

    workshop.live("m", disk, body)
    run = workshop.run_recording()
    (sync,) = calls(run, "msync")
    assert sync.ending.startswith("OSError")
    (fault,) = run.faults
    assert (fault.kind, fault.about) == ("failed sync", "/log")
    assert sync.begin < fault.at < sync.end


def test_a_disk_call_during_which_the_machine_dies_is_recorded_as_cut_off(workshop: Any) -> None:
    disk = workshop.disk()
    disk.crash_at(3, "during")  # create, extend, store, msync

    def body(world: Any) -> None:
        file = world.files.map("/log", 4096)
        file.store(0, b"x")
        file.msync(0, 4096)

    with pytest.raises(MachineDied):
        workshop.live("m", disk, body)
    run = workshop.run_recording()
    assert [one.ending for one in run.operations] == ["", "", CUT_OFF]
    (cut,) = run.cuts
    assert (cut.operation, cut.path) == ("msync", "/log")
    assert cut.at == run.operations[-1].end
    assert len(run.operations) == 3

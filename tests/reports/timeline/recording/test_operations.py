"""Calls to files: what, where, from when to when, and how they ended."""

from typing import Any

import pytest

from tornlog.faults.plan import FaultPlan
from tornlog.reports.timeline.recording.record import CUT_OFF, OperationRecord
from tornlog.sim.errors import MachineDied


def calls(run: Any, kind: str) -> list[OperationRecord]:
    return [operation for operation in run.operations if operation.kind == kind]


def test_calls_have_files_ranges_and_the_time_they_took(workshop: Any) -> None:
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


def test_every_way_into_a_file_system_is_told_by_its_name(workshop: Any) -> None:
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


def test_a_sync_that_fails_says_so(workshop: Any) -> None:
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


def test_a_call_that_its_machine_dies_in_is_cut_off(workshop: Any) -> None:
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

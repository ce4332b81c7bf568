import errno
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.disk import Disk
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk


def disk_with(faults: FaultPlan | None) -> tuple[Disk, Any]:
    choices = Choices("map faults")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
    disk = Disk(kernel, choices.stream("disk"), faults=faults)
    return disk, disk.mount(kernel.create_machine("broker")).map("/a", 8192)


def write_all(mapped: Any, data: bytes) -> int:
    """Write data as POSIX requires, and return the number of calls."""
    at = calls = 0
    while at < len(data):
        at += mapped.pwrite(at, data[at:])
        calls += 1
    return calls


def test_a_short_write_writes_a_prefix_and_returns_its_length() -> None:
    disk, mapped = disk_with(FaultPlan(short_write_chance=1.0))
    written = mapped.pwrite(10, bytes(range(1, 101)))

    assert 1 <= written <= 99
    assert bytes(mapped.view(10, 110)) == bytes(range(1, written + 1)) + bytes(100 - written)
    assert disk.injected["short write"] == 1
    assert disk.operations == 3  # create, extend, pwrite


def test_a_write_of_at_most_one_byte_is_never_short() -> None:
    disk, mapped = disk_with(FaultPlan(short_write_chance=1.0))

    assert mapped.pwrite(0, b"x") == 1
    assert mapped.pwrite(0, b"") == 0
    assert disk.injected["short write"] == 0


def test_retrying_after_short_writes_writes_all_bytes() -> None:
    disk, mapped = disk_with(FaultPlan(short_write_chance=1.0))
    data = bytes(range(256)) * 8

    assert write_all(mapped, data) == disk.injected["short write"] + 1
    assert disk.injected["short write"] > 1
    assert bytes(mapped.view(0, len(data))) == data


def test_a_failed_write_has_no_effect_and_can_be_repeated() -> None:
    disk, mapped = disk_with(FaultPlan(failed_write_chance=0.5))
    outcomes = []
    for _ in range(40):
        before, operations = bytes(mapped.view(0, 1)), disk.operations
        failure = None
        try:
            mapped.pwrite(0, bytes([len(outcomes) + 1]))
        except OSError as error:
            failure = error
        outcomes.append(failure is None)
        if failure is None:
            assert bytes(mapped.view(0, 1)) == bytes([len(outcomes)])
        else:
            assert (failure.errno, failure.filename) == (errno.EIO, "/a")
            assert (bytes(mapped.view(0, 1)), disk.operations) == (before, operations)

    assert 0 < outcomes.count(False) == disk.injected["failed write"] < 40


def test_a_refused_lock_raises_an_error_and_leaves_the_file_usable() -> None:
    disk, mapped = disk_with(FaultPlan(refused_lock_chance=1.0))
    with pytest.raises(OSError, match="Cannot allocate memory") as refusal:
        mapped.mlock()
    mapped.store(0, b"x")

    assert refusal.value.errno == errno.ENOMEM
    assert disk.injected["refused mlock"] == 1
    assert bytes(mapped.view(0, 2)) == b"x\0"


def test_a_crash_in_a_short_write_leaves_at_most_the_written_bytes() -> None:
    for seed in range(20):
        rig = Rig(str(seed))
        rig.disk._injector.set_faults(FaultPlan(short_write_chance=1.0))

        def body(rig: Any = rig) -> None:
            mapped = rig.files.map("/a", 4096)
            rig.disk.crash_at(rig.disk.operations, "during")
            mapped.pwrite(0, b"x" * 100)

        rig.run_until_death(body)
        content = rig.cut("process-kill").files["/a"].content
        assert content.count(b"x") < 100
        assert content.rstrip(b"\0") == b"x" * content.count(b"x")


def test_calls_on_a_closed_map_do_not_lock_unlock_or_advise() -> None:
    _, mapped = disk_with(None)
    mapped.close()
    for use in (mapped.mlock, mapped.munlock, mapped.advise_will_need, lambda: mapped.advise_dont_need(0, 1)):
        with pytest.raises(ValueError, match="the map is closed"):
            use()

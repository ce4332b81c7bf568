from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tests.one_life import in_rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan

MS = 1_000_000
IMAGE = Image({"/a": FileImage(b"a" * 8192, 1)}, ())
USES: dict[str, Callable[[Any], Any]] = {
    "read": lambda files: files.read("/a"),
    "map": lambda files: files.map("/a", 8192),
    "status": lambda files: files.status("/a"),
    "list": lambda files: files.list_directory("/"),
    "write": lambda files: files.write("/b", b"b"),
}


def elapsed_ns(rig: Any, use: Callable[[Any], Any], times: int = 1) -> list[int]:
    taken = []

    def body() -> None:
        for _ in range(times):
            before_ns = rig.kernel.now_ns
            use(rig.files)
            taken.append(rig.kernel.now_ns - before_ns)

    rig.run(body)
    return taken


@pytest.mark.parametrize("use", USES)
def test_durations_of_slow_io_are_log_uniform(use: str) -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(slow_io_chance=1.0, slow_io_ms_max=1000))
    taken = sorted(elapsed_ns(rig, USES[use], 200))

    assert rig.injected["slow IO"] == 200
    assert MS <= taken[0] <= taken[40] < 10 * MS
    assert 100 * MS < taken[160] <= taken[-1] <= 1000 * MS


@in_rig(Rig, image=IMAGE, faults=FaultPlan(slow_io_chance=1.0))
def test_a_slow_descriptor_write_waits_before_it_writes(rig: Rig) -> None:
    mapped = rig.files.map("/a", 8192)
    before_ns = rig.kernel.now_ns
    mapped.pwrite(0, b"x")
    assert rig.kernel.now_ns > before_ns


@in_rig(Rig, image=IMAGE, faults=FaultPlan(stall_chance=1.0, stall_ms_max=5000))
def test_a_stall_delays_every_operation_until_its_end(rig: Rig) -> None:
    ends = []

    def read() -> None:
        rig.files.read("/a")
        ends.append(rig.kernel.now_ns)

    tasks = [rig.machine.tasks.spawn(f"reader-{number}", read) for number in range(5)]
    for task in tasks:
        task.join(None)
    assert len(set(ends)) == 1
    assert 100 * MS <= ends[0] <= 5000 * MS
    assert rig.injected["stalled device"] == 1


def test_a_sync_during_a_stall_takes_the_stall_and_its_own_duration() -> None:
    faults = FaultPlan(stall_chance=1.0, stall_ms_max=100)
    rig = Rig(image=IMAGE, faults=faults, timing=SyncTiming(7, 7))

    def body() -> None:
        with rig.disk.with_faults(stall_chance=0.0):
            mapped = rig.files.map("/a", 8192)
        mapped.store(0, b"x")
        mapped.msync(0, 1)

    rig.run(body)
    assert rig.kernel.now_ns == 100 * MS + 7


def test_the_expected_end_of_slow_operations_includes_stalls() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(stall_chance=1.0, stall_ms_max=100, slow_io_chance=1.0))

    rig.run(lambda: rig.files.read("/a"))
    assert rig.injected["stalled device"] == rig.injected["slow IO"] == 1
    assert rig.disk.slow_until_ns == rig.kernel.now_ns


@in_rig(Rig, image=IMAGE, faults=FaultPlan(stall_chance=1.0, slow_io_chance=1.0))
def test_stores_and_views_of_a_map_are_not_delayed_by_the_device(rig: Rig) -> None:
    with rig.disk.with_faults(stall_chance=0.0, slow_io_chance=0.0):
        mapped = rig.files.map("/a", 8192)
    mapped.store(0, b"x")
    mapped.view(0, 1)
    assert rig.kernel.now_ns == 0


def test_a_machine_can_die_while_it_waits() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(stall_chance=1.0))

    def body() -> None:
        rig.machine.tasks.spawn("reader", lambda: rig.files.read("/a"))
        rig.machine.tasks.sleep(1)
        rig.kernel.kill(rig.machine)
        rig.machine.tasks.sleep(1)

    rig.run_until_death(body)
    assert rig.kernel.now_ns == MS

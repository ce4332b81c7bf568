import errno
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tests.one_life import in_rig
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan
from tornlog.sim.machine import WaitReason

MS = 1_000_000
WAIT = WaitReason("half a sync")


def durable_content(rig: Any, path: str = "/log") -> bytes:
    """Return the bytes that survive every power cut: all pages at their oldest version."""
    found = rig.disk._names.find_file(path)
    return bytes(found.durable_bytes(found.size_bytes))


def map_with_durable_name(rig: Any) -> Any:
    mapped = rig.files.map("/log", 4096 * 3)
    rig.files.sync_directory("/")
    return mapped


@in_rig(Rig, timing=SyncTiming(5 * MS, 5 * MS))
def test_other_tasks_run_while_a_sync_waits(rig: Rig) -> None:
    seen = []
    mapped = map_with_durable_name(rig)
    started_ns = rig.kernel.now_ns

    def tick() -> None:
        for _ in range(3):
            rig.machine.tasks.sleep(1)
            seen.append((rig.kernel.now_ns - started_ns) // MS)

    task = rig.machine.tasks.spawn("ticker", tick)
    mapped.msync(0, 4096)
    seen.append((rig.kernel.now_ns - started_ns) // MS)
    task.join(None)
    assert seen == [1, 2, 3, 5]


@pytest.mark.parametrize("how", ["msync", "fdatasync", "sync"])
@in_rig(Rig, timing=SyncTiming(MS, MS))
def test_a_sync_covers_writes_before_its_submission(rig: Rig, how: str) -> None:
    mapped = map_with_durable_name(rig)
    mapped.store(0, b"early")

    def write_late() -> None:
        rig.kernel.park(WAIT, rig.kernel.now_ns + MS // 2)
        mapped.store(0, b"later")
        mapped.store(100, b"later")

    rig.machine.tasks.spawn("late", write_late)
    if how == "msync":
        mapped.msync(0, 4096 * 3)
    elif how == "fdatasync":
        mapped.fdatasync()
    else:
        rig.files.sync("/log")
    assert bytes(mapped.view(0, 5)) == b"later"
    assert durable_content(rig).rstrip(b"\0") == b"early"


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_only_completed_syncs_survive_a_power_cut(moment: str) -> None:
    outcomes = set()
    for seed in range(40):
        rig = Rig(seed=str(seed), timing=SyncTiming(MS, 3 * MS))

        def body(rig: Any = rig) -> None:
            mapped = map_with_durable_name(rig)
            mapped.fdatasync()
            mapped.store(0, b"data")
            rig.disk.crash_at(rig.disk.operations, moment)
            mapped.msync(0, 4096)

        rig.run_until_death(body)
        assert rig.injected[f"crash {moment} msync"] == 1
        outcomes.add(rig.disk.crash(PROFILES["ext4-ordered"]).files["/log"].content[:4])
    assert outcomes == ({b"data"} if moment == "after" else {b"data", bytes(4)})


def test_a_crash_during_a_sync_happens_after_half_of_its_time() -> None:
    rig = Rig(timing=SyncTiming(8 * MS, 8 * MS))

    def body() -> None:
        mapped = rig.files.map("/log", 10)
        rig.disk.crash_at(rig.disk.operations, "during")
        mapped.fdatasync()

    rig.run_until_death(body)
    assert rig.kernel.now_ns == 4 * MS


def test_a_sync_in_flight_has_no_effect_if_the_machine_is_killed() -> None:
    rig = Rig(timing=SyncTiming(8 * MS, 8 * MS))

    def body() -> None:
        mapped = rig.files.map("/log", 10)
        mapped.store(0, b"data")

        def pull() -> None:
            rig.machine.tasks.sleep(3)
            rig.kernel.kill(rig.machine)

        rig.machine.tasks.spawn("plug", pull)
        mapped.fdatasync()

    rig.run_until_death(body)
    assert durable_content(rig) == bytes(10)


def test_a_failed_sync_is_reported_once_and_loses_its_data() -> None:
    rig = Rig(faults=FaultPlan(failed_sync_chance=1.0))
    mapped = map_with_durable_name(rig)
    mapped.store(0, b"doomed")
    with pytest.raises(OSError, match="Input/output error") as failure:
        mapped.msync(0, 4096)
    assert failure.value.errno == errno.EIO
    assert rig.injected["failed sync"] == 1

    rig.disk._injector.set_faults(FaultPlan(failed_sync_chance=0.0))
    mapped.msync(0, 4096)
    mapped.store(5000, b"fine")
    mapped.fdatasync()

    assert bytes(mapped.view(0, 6)) == b"doomed"
    assert durable_content(rig) == bytes(5000) + b"fine" + bytes(4096 * 3 - 5004)
    image = rig.disk.image_after_power_off()
    assert image.files["/log"].content[:6] == bytes(6)


def test_the_file_size_can_be_lost_after_a_failed_sync() -> None:
    sizes = set()
    for seed in range(30):
        rig = Rig(seed=str(seed), faults=FaultPlan(failed_sync_chance=1.0))
        mapped = map_with_durable_name(rig)
        with pytest.raises(OSError, match="Input/output"):
            mapped.fdatasync()
        sizes.add(len(rig.cut("strict-posix").files["/log"].content))
    assert {0, 4096 * 3} < sizes, "and some lengths in between"


def test_data_rewritten_after_a_failed_sync_becomes_durable() -> None:
    rig = Rig(faults=FaultPlan(failed_sync_chance=1.0))
    mapped = map_with_durable_name(rig)
    mapped.store(0, b"doomed")
    with pytest.raises(OSError, match="Input/output"):
        mapped.fdatasync()
    rig.disk._injector.set_faults(FaultPlan(failed_sync_chance=0.0))
    mapped.store(0, b"doomed")
    mapped.fdatasync()

    assert durable_content(rig)[:6] == b"doomed"
    assert rig.cut("strict-posix").files["/log"].content[:6] == b"doomed"


def test_a_page_cache_that_survives_a_crash_shows_dropped_data() -> None:
    rig = Rig(faults=FaultPlan(failed_sync_chance=1.0))
    mapped = map_with_durable_name(rig)
    mapped.store(0, b"doomed")
    with pytest.raises(OSError, match="Input/output"):
        mapped.fdatasync()
    assert rig.cut("process-kill").files["/log"].content[:6] == b"doomed"


def sync_durations_ns(rig: Any, count: int) -> list[int]:
    """Sync several times; return the duration of each sync in ns."""
    took = []

    def body() -> None:
        mapped = rig.files.map("/log", 10)
        for _ in range(count):
            before_ns = rig.kernel.now_ns
            try:
                mapped.fdatasync()
            except OSError:
                took.append(-1)
            else:
                took.append(rig.kernel.now_ns - before_ns)

    rig.run(body)
    return took


def test_slow_syncs_are_injected_and_counted() -> None:
    rig = Rig(timing=SyncTiming(MS, 2 * MS), faults=FaultPlan(slow_sync_chance=0.2))
    took = sync_durations_ns(rig, 100)

    slow = [ns for ns in took if ns > 2 * MS]
    assert 5 < len(slow) < 40
    assert max(slow) > 1000 * MS
    assert min(took) >= MS
    assert rig.injected["slow sync"] >= len(slow)


def test_a_fixed_latency_is_not_drawn(rig: Any) -> None:

    assert SyncTiming(7, 7).draw(rig.disk._injector, "msync /a") == 7
    assert rig.choices.stream("disk").draw_count == 0
    assert not rig.injected


def test_latencies_lie_within_their_bounds_and_are_drawn_with_a_label(rig: Any) -> None:
    usual = [SyncTiming(10, 20).draw(rig.disk._injector, "msync /a") for _ in range(200)]

    assert set(usual) == set(range(10, 21))
    assert {draw[0] for draw in rig.choices.to_record()["disk"]} == {"msync /a ns"}
    assert not rig.injected


def test_a_slow_sync_is_bounded_by_the_plan() -> None:
    rig = Rig(faults=FaultPlan(slow_sync_chance=1.0, slow_sync_ms_max=1))
    slow = [SyncTiming(10, 20).draw(rig.disk._injector, "msync /a") for _ in range(200)]

    assert min(slow) >= 20
    assert 900_000 < max(slow) <= 1_000_000
    assert rig.injected == {"slow sync": 200}


def test_slow_sync_durations_are_log_uniform() -> None:
    rig = Rig(faults=FaultPlan(slow_sync_chance=1.0, slow_sync_ms_max=8))
    slow = sorted(SyncTiming(10, 20).draw(rig.disk._injector, "msync /a") for _ in range(1000))

    assert slow[0] >= 20  # the minimum of any sync
    assert 6_000 < slow[500] < 30_000
    assert sum(latency_ns > 800_000 for latency_ns in slow) > 100

from collections.abc import Callable
from typing import Any

from tornlog.faults.devices.drives import MODELS
from tornlog.faults.devices.system import TimedFiles
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.sim.choices import Choices

RunTimed = Callable[..., Any]
PAGE = 4096


def mounted(timed: Any, **options: Any) -> tuple[Disk, TimedFiles]:
    disk = Disk(timed.kernel, Choices("1").stream("disk"), timing=SyncTiming(0, 0))
    files = TimedFiles(disk.mount(timed.machine), timed.system, **options)
    files.make_directories("/d")  # type: ignore[operator]
    return disk, files


def test_timed_files_store_bytes_on_the_disk_and_take_device_time(timed: Any) -> None:
    disk, files = mounted(timed)
    mapped = files.map("/d/m", 4 * PAGE)
    stored_us = timed.took_us(lambda: mapped.store(PAGE - 2, b"abcd"))
    assert bytes(mapped.view(PAGE - 2, PAGE + 2)) == b"abcd"
    assert not disk.is_durable("/d/m", PAGE - 2, PAGE + 2)
    synced_us = timed.took_us(lambda: mapped.msync(0, 4 * PAGE))
    assert disk.is_durable("/d/m", PAGE - 2, PAGE + 2)

    assert stored_us == 0
    assert synced_us == 102 + (102 + 10 + 101 + 10)


def test_a_growing_file_gets_blocks_when_it_is_written_back(timed: Any, notebook: Any) -> None:
    disk, files = mounted(timed)
    for name in ("one", "other"):
        descriptor = files.open(f"/d/{name}")
        assert descriptor.write(0, b"x" * (PAGE + 1)) == PAGE + 1
        assert descriptor.size_bytes == PAGE + 1
        descriptor.sync()
    assert disk.content("/d/one") == b"x" * (PAGE + 1)

    assert notebook.of("write") == [(32_768, 2), (32_770, 2)]


def test_a_mapped_file_gets_the_requested_allocation(timed: Any, notebook: Any) -> None:
    _, files = mounted(timed, room=lambda path, size_bytes: None if "late" in path else 10 * size_bytes)
    for name in ("one", "late", "other"):
        mapped = files.map(f"/d/{name}", 2 * PAGE)
        mapped.store(PAGE, b"x")
        mapped.fdatasync()

    assert notebook.of("write") == [(32_769, 1), (32_788, 1), (32_790, 1)]


def test_every_kind_of_write_and_sync_takes_time(timed: Any) -> None:
    _, files = mounted(timed)
    mapped = files.map("/d/m", PAGE)
    descriptor = files.open("/d/f")
    files.write("/d/small", b"data")
    calls: list[Callable[[], object]] = [
        lambda: (mapped.pwrite(0, b"x"), mapped.msync(0, 1)),
        lambda: (mapped.store(0, b"x"), mapped.fdatasync()),
        lambda: (descriptor.write(0, b"x"), descriptor.sync()),
        lambda: files.sync("/d/small"),
        lambda: files.sync_directory("/d"),
    ]
    assert [timed.took_us(call) > 100 for call in calls] == [True] * 5


def test_untimed_files_take_no_time(timed: Any, notebook: Any) -> None:
    _, files = mounted(timed)
    files.is_timed = False
    mapped = files.map("/d/m", PAGE)

    def write_and_sync() -> None:
        mapped.store(0, b"x")
        mapped.msync(0, PAGE)
        files.sync_directory("/d")

    assert timed.took_us(write_and_sync) == 0
    assert not notebook.commands


def test_a_page_sync_takes_as_long_as_on_real_drives(run_timed: RunTimed) -> None:
    def sync_us(name: str) -> float:
        def body(timed: Any) -> float:
            timed.system.allocate_ahead("/a", 1_000 * PAGE)
            file, took = timed.system.file("/a"), []
            for page in range(1_000):
                timed.system.writes.store(file, page * PAGE, PAGE)
                took.append(timed.took_us(lambda at=page: timed.system.write_back.sync(file, at, at)))
            return sum(took) / len(took)

        return float(run_timed(body, device=lambda: MODELS[name].make(Choices("1").stream(name))))

    assert 12_000 < sync_us("hdd") < 30_000
    assert 800 < sync_us("sata-ssd") < 4_000
    assert 40 < sync_us("nvme-ssd") < 200

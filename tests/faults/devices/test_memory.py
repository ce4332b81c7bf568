from typing import Any

from tests.one_life import with_settings
from tornlog.faults.devices.pages import PageCacheLimits
from tornlog.faults.devices.system import TimedFiles
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.sim.choices import Choices

PAGE = 4096
MEMORY = PageCacheLimits(memory_bytes=100 * PAGE)


def read(timed: Any, pages: range, path: str = "/old") -> int:
    """Read pages. Return the number of those that were not in memory."""
    before = timed.system.reads.misses
    for page in pages:
        timed.system.read("r", path, page * PAGE, page * PAGE + 1)
    return int(timed.system.reads.misses - before)


def old_file(timed: Any) -> None:
    timed.system.allocate_ahead("/old", 1_000 * PAGE, is_written=True)


@with_settings(memory=MEMORY)
def test_a_scan_of_a_file_does_not_evict_pages_that_are_used_again(timed: Any) -> None:
    old_file(timed)
    for _ in range(3):
        read(timed, range(20))
    read(timed, range(100, 1_000))
    misses, pages = read(timed, range(20)), timed.system.memory.pages

    assert misses == 0
    assert pages <= 100


@with_settings(memory=MEMORY)
def test_an_evicted_page_comes_back_from_the_device_as_a_refault(timed: Any) -> None:
    old_file(timed)
    read(timed, range(0, 400, 3))
    assert timed.system.memory.refaults == 0
    misses, refaults = [read(timed, range(1)), timed.system.memory.refaults]

    assert misses == 1
    assert refaults > 0


@with_settings(memory=PageCacheLimits(memory_bytes=100 * PAGE, dirty_bytes_max=1_000 * PAGE, expire_ns=0))
def test_dirty_pages_are_not_evicted_and_an_allocation_waits_for_their_write_back(timed: Any) -> None:
    timed.system.writes.write(timed.system.file("/new"), 0, 100 * PAGE)
    old_file(timed)
    took_us = timed.took_us(lambda: read(timed, range(1)))
    took_us, dirty, overcommits = took_us, len(timed.system.file("/new").dirty), timed.system.memory.overcommits

    assert took_us >= 100 + 200  # the write of all pages, then the read
    assert dirty == overcommits == 0


@with_settings(memory=MEMORY)
def test_locked_and_anonymous_pages_stay_and_reduce_the_memory_of_others(timed: Any) -> None:
    disk = Disk(timed.kernel, Choices("1").stream("disk"), timing=SyncTiming(0, 0))
    files: Any = TimedFiles(disk.mount(timed.machine), timed.system)
    files.make_directories("/d")
    files.buffer(20 * PAGE)
    mapped = files.map("/d/m", 30 * PAGE)
    mapped.mlock()
    old_file(timed)
    assert timed.system.memory.dirtyable == 50
    read(timed, range(0, 1_000, 3))
    faults = timed.system.reads.misses
    mapped.store(5 * PAGE, b"x")
    assert timed.system.reads.misses == faults
    locked = timed.system.memory.pages
    mapped.munlock()
    dirtyable = timed.system.memory.dirtyable

    assert locked <= 100
    assert dirtyable == 80

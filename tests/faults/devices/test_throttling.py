from collections.abc import Sequence
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.devices.pages import PageCacheLimits
from tornlog.faults.devices.storage import Run

PAGE = 4096
LIMIT = 8_192
PAGES_PER_S = 10_000
MEMORY = PageCacheLimits(dirty_bytes_max=LIMIT * PAGE)
FREE_RUN = LIMIT * 3 // 4


class Steady:
    """A device that writes 10,000 blocks per second."""

    blocks = 1 << 30

    def __init__(self) -> None:
        self._idle_ns = 0

    def write(self, now_ns: int, runs: Sequence[Run]) -> int:
        self._idle_ns = max(now_ns, self._idle_ns) + sum(count for _, count in runs) * 1_000_000_000 // PAGES_PER_S
        return self._idle_ns

    def read(self, now_ns: int, run: Run) -> int:
        return self.write(now_ns, [run])

    def flush(self, now_ns: int) -> int:
        return max(now_ns, self._idle_ns)


class Writer:
    """Writes pages as fast as possible. Records the wait of each write in ms."""

    def __init__(self, timed: Any, path: str, through_map: bool = False) -> None:
        self._timed, self._file = timed, timed.system.file(path)
        self._write = timed.system.writes.store if through_map else timed.system.writes.write
        self.waits_ms: list[float] = []

    def run(self, pages: range) -> None:
        for page in pages:
            self.waits_ms.append(self._timed.took_us(lambda at=page * PAGE: self._write(self._file, at, PAGE)) / 1e3)


@pytest.mark.parametrize("through_map", [False, True])
@with_settings(device=Steady, memory=MEMORY)
def test_a_writer_runs_freely_up_to_the_middle_of_the_limits_and_then_pauses(timed: Any, through_map: bool) -> None:
    writer = Writer(timed, "/a", through_map)
    writer.run(range(LIMIT + 2_000))
    waits_ms = writer.waits_ms

    assert max(waits_ms[:FREE_RUN]) == 0
    assert 0 < max(waits_ms) <= 200  # MAX_PAUSE
    assert all(wait_ms % 4 == 0 for wait_ms in waits_ms)  # whole ticks


@pytest.mark.parametrize("writers", [1, 4])
@with_settings(device=Steady, memory=MEMORY)
def test_writers_share_the_bandwidth_of_the_device_and_dirty_pages_stay_below_the_limit(
    timed: Any, writers: int
) -> None:
    seconds = 20
    throttle, write_back, dirty = timed.system.writes.throttle, timed.system.write_back, list[int]()

    def watch() -> None:
        for _ in range(seconds):
            timed.sleep(1_000)
            dirty.append(write_back.dirty_pages)

    for number in range(writers):
        timed.machine.tasks.spawn("writer", lambda path=f"/{number}": Writer(timed, path).run(range(1 << 30)))
    before = write_back.written_pages
    watch()
    assert throttle.throttled_ns > 0
    written_per_s = (write_back.written_pages - before) / seconds

    assert written_per_s == pytest.approx(PAGES_PER_S, rel=0.1)
    assert all(FREE_RUN * 0.9 < count <= LIMIT * 1.04 for count in dirty[2:]), dirty


@with_settings(device=Steady, memory=MEMORY)
def test_direct_writes_wait_for_the_device_but_not_for_the_dirty_limit(timed: Any) -> None:
    timed.machine.tasks.spawn("writer", lambda: Writer(timed, "/a").run(range(1 << 30)))
    timed.sleep(5_000)
    paused_ns = timed.system.writes.throttle.throttled_ns
    assert paused_ns > 0
    mine, number = timed.system.file("/direct"), timed.kernel.current.number
    took_us = timed.took_us(lambda: timed.system.writes.write_direct(mine, 0, PAGE))
    counts = number in timed.system.writes.throttle._dirtiers

    assert took_us > 0
    assert not counts


@with_settings(memory=PageCacheLimits(dirty_bytes_max=0, memory_bytes=1_000 * PAGE))
def test_the_limits_are_ratios_of_the_memory_that_can_be_dirtied(timed: Any) -> None:
    before = timed.system.write_back.limits
    timed.system.memory.hold_anonymous(500 * PAGE)
    assert [before, timed.system.write_back.limits] == [(100, 200), (50, 100)]

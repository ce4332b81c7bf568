from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.devices.cached_reads import ReadAhead
from tornlog.faults.devices.drives import HardDisk
from tornlog.faults.devices.pages import PageCacheLimits

RunTimed = Callable[..., Any]
PAGE = 4096
FIRST = 32_768


def test_cached_pages_take_no_time(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 100 * PAGE, is_written=True)
    assert [timed.took_us(lambda: timed.system.read("r", "/a", 10, 20)) for _ in range(2)] == [104, 0]
    assert notebook.of("read") == [(FIRST, 4)]


def test_a_reader_waits_for_a_read_ahead_only_when_it_needs_the_page(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 100 * PAGE, is_written=True)
    assert [
        timed.took_us(lambda page=page: timed.system.read("r", "/a", page * PAGE, page * PAGE + 1)) for page in range(5)
    ] == [104, 0, 0, 0, 108]
    assert notebook.of("read") == [(FIRST, 4), (FIRST + 4, 8), (FIRST + 12, 16)]


def test_readers_share_a_cache_but_have_separate_windows(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 1000 * PAGE, is_written=True)
    for page in range(40):
        timed.system.read("one", "/a", page * PAGE, page * PAGE + 1)
        timed.system.read("other", "/a", (page + 500) * PAGE, (page + 500) * PAGE + 1)
    before = len(notebook.of("read"))
    for page in range(40):
        timed.system.read("third", "/a", page * PAGE, page * PAGE + 1)
    # a reader that begins in the middle is sequential from the second page on
    assert timed.system.reads.misses == 3
    assert before < 20


@with_settings(memory=PageCacheLimits(memory_bytes=10 * PAGE))
def test_the_cache_has_a_limit_and_keeps_pages_that_are_read_again(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 1000 * PAGE, is_written=True)
    found = []
    for page in (100, 200, 300, 100, *range(400, 420, 2), 100, 200):
        before = timed.system.reads.misses
        timed.system.read("r", "/a", page * PAGE, page * PAGE + 1)
        found.append(timed.system.reads.misses - before)
    assert found == [1, 1, 1, 0, *[1] * 10, 0, 1]


def test_pages_without_an_allocated_block_are_not_read_from_the_device(timed: Any, notebook: Any) -> None:
    file = timed.system.file("/a")
    timed.system.writes.write(file, 0, 2 * PAGE)
    timed.system.write_back.sync(file, 0, 1)
    timed.system.reads.drop_pages()
    timed.system.read("r", "/a", 0, 2 * PAGE)

    assert notebook.of("read") == [(FIRST, 2)]


def test_after_dropping_the_cache_readers_wait_for_the_device_again(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 100 * PAGE, is_written=True)
    for _ in range(2):
        timed.system.read("r", "/a", 0, 1)
        timed.system.reads.drop_pages()
    assert timed.system.reads.misses == 2


def test_random_reads_get_a_hundredth_of_sequential_bandwidth(run_timed: RunTimed) -> None:
    pages = 8_000

    def sequential(timed: Any) -> float:
        timed.system.allocate_ahead("/a", pages * PAGE, is_written=True)
        return timed.took_us(
            lambda: [timed.system.read("r", "/a", page * PAGE, (page + 1) * PAGE) for page in range(pages)]
        )

    def scattered(timed: Any) -> float:
        timed.system.allocate_ahead("/a", 1_000_000 * PAGE, is_written=True)
        return timed.took_us(
            lambda: [
                timed.system.read("r", "/a", page * PAGE, (page + 1) * PAGE)
                for page in (number * 7_919 % 1_000_000 for number in range(1, 500))
            ]
        )

    disk_us = run_timed(sequential, device=HardDisk)

    assert pages * PAGE / disk_us == pytest.approx(200, rel=0.05)  # MB/s
    assert 499 * PAGE / run_timed(scattered, device=HardDisk) < 2


def test_read_ahead_can_differ_by_file(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> None:
        for path in ("/map", "/file"):
            timed.system.allocate_ahead(path, 100 * PAGE, is_written=True)
            timed.system.read("r", path, 50 * PAGE, 50 * PAGE + 1)

    run_timed(body, read_ahead=lambda path: ReadAhead(around=path == "/map"))

    assert notebook.of("read") == [(FIRST + 34, 32), (FIRST + 150, 1)]


def read(state: ReadAhead, pages: range, cached: set[int]) -> list[range]:
    """Let a reader go through pages; return the pages that are read."""
    found = []
    for page in pages:
        wanted = state.pages_after_hit(page) if page in cached else state.pages_after_miss(page, 1)
        state.record_position(page)
        if wanted:
            found.append(wanted)
            cached.update(wanted)
    return found


def test_the_read_ahead_window_doubles_while_reads_are_sequential() -> None:
    windows = read(ReadAhead(), range(200), set())

    assert [len(window) for window in windows] == [4, 8, 16, *[32] * 7]
    assert [(left.stop, right.start) for left, right in pairwise(windows)] == [
        (window.stop, window.stop) for window in windows[:-1]
    ]


def test_a_sequential_reader_waits_only_for_the_first_page() -> None:
    cached: set[int] = set()
    state = ReadAhead()
    missed = 0
    for page in range(500):
        missed += page not in cached
        read(state, range(page, page + 1), cached)

    assert missed == 1


def test_a_random_read_resets_the_read_ahead_window() -> None:
    state, cached = ReadAhead(), set[int]()
    read(state, range(100), cached)

    assert state.window == 32
    assert state.pages_after_miss(5_000, 2) == range(5_000, 5_002)
    assert state.window == 0
    state.record_position(5_001)
    assert state.pages_after_miss(5_002, 1) == range(5_002, 5_006)  # the window is small again


def test_a_reader_that_skips_less_than_a_window_counts_as_sequential() -> None:
    cached: set[int] = set()
    windows = read(ReadAhead(), range(0, 400, 3), cached)

    assert len(windows[-1]) == 32
    assert set(range(0, 400, 3)) <= cached
    assert len(windows) < 20


def test_a_page_fault_in_a_map_reads_the_pages_around_it() -> None:
    state = ReadAhead(around=True)
    state.record_position(7)

    assert state.pages_after_miss(1_000, 1) == range(984, 1_016)
    assert state.pages_after_miss(5, 1) == range(21)
    assert ReadAhead(64, around=True).pages_after_miss(1_000, 1) == range(968, 1_032)


def test_the_read_ahead_window_has_a_limit() -> None:
    windows = read(ReadAhead(256), range(2_000), set())

    assert max(len(window) for window in windows) == 256

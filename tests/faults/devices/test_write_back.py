from collections.abc import Callable
from typing import Any

from tests.one_life import with_settings
from tornlog.faults.devices.pages import PageCacheLimits

RunTimed = Callable[..., Any]
PAGE = 4096


def dirty_pages(timed: Any, path: str, pages: range) -> None:
    """Write to pages of a file."""
    for page in pages:
        timed.system.writes.write(timed.system.file(path), page * PAGE, PAGE)


def test_only_pages_older_than_the_limit_are_written_back(timed: Any, notebook: Any) -> None:
    dirty_pages(timed, "/a", range(10))
    found = []
    for _ in range(2):
        timed.sleep(29_000)
        found.append(len(notebook.of("write")))
        timed.sleep(7_000)
        found.append(sum(count for _, count in notebook.of("write")))
    assert timed.system.write_back.dirty_bytes == 0
    assert found == [0, 10, 1, 10]  # at 35 s, the flusher's next run, and only once


def test_the_age_of_a_dirty_page_counts_from_its_first_write(timed: Any, notebook: Any) -> None:
    for _ in range(34):
        dirty_pages(timed, "/a", range(1))
        timed.sleep(1_000)
    timed.sleep(2_000)

    assert len(notebook.of("write")) == 1


@with_settings(memory=PageCacheLimits(dirty_bytes_max=200 * PAGE))
def test_above_the_background_limit_files_are_written_back_oldest_first(timed: Any, notebook: Any) -> None:
    dirty_pages(timed, "/old", range(60))
    timed.sleep(100)
    dirty_pages(timed, "/new", range(40))
    timed.sleep(100)
    assert not notebook.of("write")  # 100 pages are the limit
    dirty_pages(timed, "/newest", range(1))
    timed.sleep(100)
    files = (timed.system.file(path) for path in ("/old", "/new", "/newest"))
    assert [bool(file.dirty) for file in files] == [False, True, True]
    assert sum(count for _, count in notebook.of("write")) == 60


def test_a_sync_writes_dirty_pages_of_its_range_and_commits(timed: Any, notebook: Any) -> None:
    dirty_pages(timed, "/a", range(10))
    dirty_pages(timed, "/b", range(3))
    timed.system.write_back.sync(timed.system.file("/a"), 2, 4)
    assert timed.system.file("/a").dirty == {0, 1, *range(5, 10)}
    assert timed.system.metadata.commits == 1
    assert [kind for kind, _ in notebook.commands] == ["write", "write", "flush", "write", "flush"]
    assert sum(count for _, count in notebook.of("write")) == 3


def test_a_sync_of_clean_pages_only_flushes_the_device(timed: Any) -> None:
    dirty_pages(timed, "/a", range(1))
    file = timed.system.file("/a")
    first_us, second_us = [timed.took_us(lambda: timed.system.write_back.sync(file, 0, 9)) for _ in range(2)]

    assert first_us > 300
    assert second_us == 10


def test_a_sync_of_data_in_place_needs_no_commit_unless_it_covers_timestamps(timed: Any) -> None:
    file, commits = timed.system.file("/a"), []
    for data_only in (True, True, False):
        dirty_pages(timed, "/a", range(1))
        timed.system.write_back.sync(file, 0, 0, data_only=data_only)
        commits.append(timed.system.metadata.commits)
        timed.sleep(10)  # the inode's time changes once in a tick
    assert commits == [1, 1, 2]


def test_the_first_write_back_of_a_preallocated_page_changes_metadata(timed: Any) -> None:
    timed.system.allocate_ahead("/new", 2 * PAGE)
    timed.system.allocate_ahead("/old", 2 * PAGE, is_written=True)
    commits = []
    for path, page in (("/old", 0), ("/new", 0), ("/new", 0), ("/new", 1)):
        dirty_pages(timed, path, range(page, page + 1))
        timed.system.write_back.sync(timed.system.file(path), page, page)
        commits.append(timed.system.metadata.commits)
    assert commits == [0, 1, 1, 2]


def test_a_commit_waits_while_the_flusher_waits_for_the_queue_within_a_handle(run_timed: RunTimed) -> None:
    def waited_us(requests_max: int) -> float:
        def body(timed: Any) -> float:
            timed.system.write_back.requests_max = requests_max
            timed.system.writes.write(timed.system.file("/grown"), 0, 2_048 * PAGE)
            timed.system.write_back.wake_flusher()
            timed.sleep(0.1)
            journal = timed.system.metadata
            timed.machine.tasks.spawn("sync", timed.system.metadata.sync_names)
            timed.sleep(0.1)
            return float(timed.took_us(lambda: journal.record_change(timed.system.file("/other/file"))))

        return float(run_timed(body, memory=PageCacheLimits(memory_bytes=64 << 20, expire_ns=0)))

    assert waited_us(256) == 0  # all requests fit in the queue
    assert waited_us(2) > 1_000


@with_settings(memory=PageCacheLimits(dirty_bytes_max=20 * PAGE))
def test_a_sync_waits_for_pages_that_the_flusher_is_writing(timed: Any, notebook: Any) -> None:
    file = timed.system.file("/a")
    dirty_pages(timed, "/a", range(11))
    timed.sleep(0.01)
    assert len(file.writing) == 11
    timed.system.write_back.sync(file, 0, 20)
    assert not file.writing
    assert timed.system.metadata.commits > 0
    assert sum(count for _, count in notebook.of("write")) == 11  # once


@with_settings(room_blocks=100)
def test_syncs_of_many_files_at_once_are_sorted_and_share_commits(timed: Any, notebook: Any) -> None:
    def synced(number: int) -> Callable[[], None]:
        def sync() -> None:
            dirty_pages(timed, f"/{number}", range(1))
            timed.system.write_back.sync(timed.system.file(f"/{number}"), 0, 0)

        return sync

    timed.at_once(*(synced(number) for number in range(16)))
    assert timed.system.metadata.commits <= 3
    assert len([runs for kind, runs in notebook.commands if kind == "write" and runs[0][0] >= 32_768]) <= 2


def test_pages_written_before_a_measurement_are_clean_and_placed(timed: Any, notebook: Any) -> None:
    dirty_pages(timed, "/a", range(3))
    timed.system.write_back.forget()
    timed.sleep(60_000)
    assert (timed.system.write_back.dirty_bytes, timed.system.file("/a").blocks.block_of(2)) == (0, 32_768 + 2)
    assert not notebook.of("write")


@with_settings(memory=PageCacheLimits(memory_bytes=64 << 20, expire_ns=0))
def test_the_end_of_a_write_within_a_handle_does_not_wait_for_the_commit_that_waits_for_the_handle(timed: Any) -> None:
    timed.system.write_back.requests_max = 1
    timed.system.allocate_ahead("/a", 2_048 * PAGE)
    dirty_pages(timed, "/a", range(2_048))
    timed.system.write_back.wake_flusher()
    timed.sleep(0.3)  # the flusher waits for the end of its first request, within a handle
    timed.system.metadata.sync_names()
    assert timed.system.metadata.commits == 1

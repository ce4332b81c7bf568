from collections.abc import Callable
from typing import Any

from tornlog.faults.devices.pages import PageCacheLimits

RunTimed = Callable[..., Any]
PAGE = 4096
MIB = 1 << 20


def dirty_pages(timed: Any, path: str, pages: range) -> None:
    """Write to pages of a file."""
    for page in pages:
        timed.system.write_back.record_write(timed.system.file(path), page, page)


def test_only_pages_older_than_the_limit_are_written_back(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> list[int]:
        dirty_pages(timed, "/a", range(10))
        found = []
        for _ in range(2):
            timed.sleep(29_000)
            found.append(len(notebook.of("write")))
            timed.sleep(7_000)
            found.append(sum(count for _, count in notebook.of("write")))
        assert timed.system.write_back.dirty_bytes == 0
        return found

    assert run_timed(body) == [0, 10, 1, 10]  # at 35 s, the flusher's next run, and only once


def test_the_age_of_a_dirty_page_counts_from_its_first_write(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> None:
        for _ in range(34):
            dirty_pages(timed, "/a", range(1))
            timed.sleep(1_000)
        timed.sleep(2_000)

    run_timed(body)

    assert len(notebook.of("write")) == 1


def test_above_the_background_limit_files_are_written_back_oldest_first(run_timed: RunTimed, notebook: Any) -> None:
    memory = PageCacheLimits(dirty_bytes_max=200 * PAGE)

    def body(timed: Any) -> list[bool]:
        dirty_pages(timed, "/old", range(60))
        timed.sleep(100)
        dirty_pages(timed, "/new", range(40))
        timed.sleep(100)
        assert not notebook.of("write")  # 100 pages are the limit
        dirty_pages(timed, "/newest", range(1))
        timed.sleep(100)
        files = (timed.system.file(path) for path in ("/old", "/new", "/newest"))
        return [bool(file.dirty) for file in files]

    assert run_timed(body, memory=memory) == [False, True, True]
    assert sum(count for _, count in notebook.of("write")) == 60


def test_a_writer_waits_while_too_many_pages_are_dirty(run_timed: RunTimed) -> None:
    memory = PageCacheLimits(dirty_bytes_max=100 * PAGE)

    def body(timed: Any) -> tuple[float, float, int]:
        free_us = timed.took_us(lambda: dirty_pages(timed, "/a", range(100)))
        waited_us = timed.took_us(lambda: dirty_pages(timed, "/b", range(1)))
        return free_us, waited_us, timed.system.write_back.throttled_ns

    free_us, waited_us, throttled_ns = run_timed(body, memory=memory)

    assert free_us == 0
    assert waited_us > 100
    assert throttled_ns == waited_us * 1_000


def test_writers_slow_down_to_the_speed_of_the_device(run_timed: RunTimed, notebook: Any) -> None:
    memory = PageCacheLimits(dirty_bytes_max=2 * MIB)
    pages = 20_000

    def body(timed: Any) -> float:
        return timed.took_us(lambda: dirty_pages(timed, "/a", range(pages)))

    took_us = run_timed(body, memory=memory)

    assert took_us > (pages - memory.dirty_bytes_max // PAGE) * 1.0  # a block takes 1 us
    assert took_us < pages * 1.5  # and each batch takes a command


def test_a_sync_writes_dirty_pages_of_its_range_and_commits(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> int:
        dirty_pages(timed, "/a", range(10))
        dirty_pages(timed, "/b", range(3))
        timed.system.write_back.sync(timed.system.file("/a"), 2, 4)
        assert timed.system.file("/a").dirty == {0, 1, *range(5, 10)}
        return timed.system.journal.commits

    assert run_timed(body) == 1
    assert [kind for kind, _ in notebook.commands] == ["write", "write", "flush", "write", "flush"]
    assert sum(count for _, count in notebook.of("write")) == 3


def test_a_sync_of_clean_pages_takes_no_time(run_timed: RunTimed) -> None:
    def body(timed: Any) -> list[float]:
        dirty_pages(timed, "/a", range(1))
        file = timed.system.file("/a")
        return [timed.took_us(lambda: timed.system.write_back.sync(file, 0, 9)) for _ in range(2)]

    first_us, second_us = run_timed(body)

    assert first_us > 300
    assert second_us == 0


def test_a_sync_waits_for_pages_that_the_flusher_is_writing(run_timed: RunTimed, notebook: Any) -> None:
    memory = PageCacheLimits(dirty_bytes_max=20 * PAGE)

    def body(timed: Any) -> bool:
        file = timed.system.file("/a")
        dirty_pages(timed, "/a", range(11))
        timed.sleep(0.01)
        assert file.in_flight == 11
        timed.system.write_back.sync(file, 0, 20)
        return not file.in_flight and timed.system.journal.commits > 0

    assert run_timed(body, memory=memory)
    assert sum(count for _, count in notebook.of("write")) == 11  # once


def test_syncs_of_many_files_at_once_are_sorted_and_share_commits(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> int:
        def synced(number: int) -> Callable[[], None]:
            def sync() -> None:
                dirty_pages(timed, f"/{number}", range(1))
                timed.system.write_back.sync(timed.system.file(f"/{number}"), 0, 0)

            return sync

        timed.at_once(*(synced(number) for number in range(16)))
        return timed.system.journal.commits

    assert run_timed(body, room_blocks=100) <= 3
    assert len([runs for kind, runs in notebook.commands if kind == "write" and runs[0][0] >= 32_768]) <= 2


def test_pages_written_before_a_measurement_are_clean_and_placed(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> Any:
        dirty_pages(timed, "/a", range(3))
        timed.system.write_back.forget()
        timed.sleep(60_000)
        return timed.system.write_back.dirty_bytes, timed.system.file("/a").blocks.block_of(2)

    assert run_timed(body) == (0, 32_768 + 2)
    assert not notebook.of("write")

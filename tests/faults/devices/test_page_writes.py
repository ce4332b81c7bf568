from collections.abc import Callable
from typing import Any

import pytest

RunTimed = Callable[..., Any]
PAGE = 4096
WRITE_US = 101


def store(timed: Any, page: int) -> float:
    """Store to a page of the file. Return the us of the wait."""
    return float(timed.took_us(lambda: timed.system.writes.store(timed.system.file("/a"), page * PAGE, 10)))


def test_a_store_faults_once_until_write_back_cleans_its_page(timed: Any) -> None:
    writes, found = timed.system.writes, []
    timed.system.allocate_ahead("/a", 4 * PAGE)
    for _ in range(2):
        for page in (0, 0, 1):
            store(timed, page)
            found.append(writes.faults)
        timed.system.write_back.sync(timed.system.file("/a"), 0, 3)
    assert found == [1, 1, 2, 3, 3, 4]


def waits_during_write_back(run_timed: RunTimed, kind: str, **options: Any) -> float:
    def body(timed: Any) -> float:
        timed.system.allocate_ahead("/a", 4 * PAGE, is_written=True)
        file, writes = timed.system.file("/a"), timed.system.writes
        writes.write(file, 0, PAGE)
        took: list[float] = []

        def write_to_the_same_page() -> None:
            timed.sleep(0.05)
            assert 0 in file.writing
            write = writes.store if kind == "store" else writes.write
            took.append(timed.took_us(lambda: write(file, 0, PAGE)))

        timed.at_once(lambda: timed.system.write_back.sync(file, 0, 0), write_to_the_same_page)
        return took[0]

    return float(run_timed(body, **options))


@pytest.mark.parametrize("kind", ["store", "write"])
@pytest.mark.parametrize("stable_pages", [False, True])
def test_a_write_to_a_page_under_write_back_waits_only_for_stable_pages(
    run_timed: RunTimed, kind: str, stable_pages: bool
) -> None:
    waited_us = waits_during_write_back(run_timed, kind, stable_pages=stable_pages)

    assert waited_us == (WRITE_US - 50 if stable_pages else 0)


def test_a_fault_waits_for_the_journal_and_a_store_to_a_dirty_page_does_not(timed: Any) -> None:
    timed.system.allocate_ahead("/a", 4 * PAGE)
    store(timed, 1)
    timed.sleep(10)  # the inode's time changes once in a tick
    timed.machine.tasks.spawn("commit", lambda: timed.system.metadata.wait_for_commit(1))
    timed.sleep(0.05)
    assert [store(timed, page) for page in (1, 0)] == [0, 102 - 50]


def test_a_fault_reads_a_page_with_data_but_not_an_unwritten_or_a_resident_one(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 4 * PAGE, is_written=True)
    first_us = store(timed, 0)
    timed.system.write_back.sync(timed.system.file("/a"), 0, 0)
    again_us = store(timed, 0)
    timed.system.allocate_ahead("/new", 4 * PAGE)
    new = timed.system.file("/new")
    assert [first_us, again_us, timed.took_us(lambda: timed.system.writes.store(new, 0, 1))] == [104, 0, 0]


def test_a_write_of_a_whole_page_does_not_read_it(timed: Any, notebook: Any) -> None:
    timed.system.allocate_ahead("/a", 100 * PAGE, is_written=True)
    file, writes = timed.system.file("/a"), timed.system.writes
    took_us = [timed.took_us(lambda at=at: writes.write(file, at, PAGE)) for at in (0, 50 * PAGE + 1)]
    assert took_us == [0, 101 + 104]  # parts of page 50 and of page 51


def test_a_direct_write_leaves_no_dirty_page(timed: Any) -> None:
    timed.system.allocate_ahead("/a", 4 * PAGE, is_written=True)
    file, writes = timed.system.file("/a"), timed.system.writes
    assert timed.took_us(lambda: writes.write_direct(file, 0, PAGE)) == WRITE_US
    assert timed.system.write_back.dirty_pages == 0

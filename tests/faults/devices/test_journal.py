from collections.abc import Callable
from typing import Any

import pytest

RunTimed = Callable[..., Any]
COMMIT_US = 102 + 10 + 101 + 10


def test_a_journal_commit_writes_data_then_flushes_then_writes_the_commit_block(timed: Any, notebook: Any) -> None:
    assert timed.took_us(timed.system.metadata.sync_names) == COMMIT_US
    assert [kind for kind, _ in notebook.commands] == ["write", "flush", "write", "flush"]
    assert notebook.commands[0][1] == [(0, 2)]
    assert notebook.commands[2][1] == [(2, 1)]


def test_syncs_during_a_journal_commit_share_the_next_commit(timed: Any) -> None:
    def later() -> None:
        timed.sleep(0.05)
        timed.system.metadata.sync_names()

    took_us = timed.took_us(lambda: timed.at_once(timed.system.metadata.sync_names, *[later] * 10))
    assert (took_us, timed.system.metadata.commits) == (2 * COMMIT_US, 2)


def test_consecutive_syncs_of_one_task_need_a_commit_each(timed: Any) -> None:
    for _ in range(5):
        timed.system.metadata.sync_names()
    assert timed.system.metadata.commits == 5


def test_a_change_is_committed_once_and_after_five_seconds_at_the_latest(timed: Any) -> None:
    journal, found = timed.system.metadata, []
    for changes in (0, 3, 0):
        for number in range(changes):
            journal.record_change(timed.system.file(f"/{number}"))
        for ms in (4_990, 20):
            timed.sleep(ms)
            found.append(journal.commits)
    assert found == [0, 0, 0, 1, 1, 1]


def test_a_commit_waits_for_open_handles_and_locks_out_new_ones(timed: Any) -> None:
    journal, one, other = timed.system.metadata, timed.system.file("/a/1"), timed.system.file("/b/1")
    journal.start_handle(one)

    def stop_later() -> None:
        timed.sleep(20)
        journal.stop_handle()

    def start_during_the_commit() -> float:
        timed.sleep(1)
        return float(timed.took_us(lambda: journal.record_change(other)))

    took: list[float] = []
    begun_us = timed.kernel.now_ns / 1_000
    timed.at_once(
        stop_later, lambda: journal.wait_for_commit(journal.open_number), lambda: took.append(start_during_the_commit())
    )
    assert (took[0], timed.kernel.now_ns / 1_000 - begun_us) == (19_000, 20_000 + COMMIT_US)


def test_a_change_waits_while_the_journal_writes_the_block_of_its_inode(timed: Any) -> None:
    journal, found = timed.system.metadata, {}
    journal.record_change(timed.system.file("/d/1"))

    def change(path: str) -> Callable[[], None]:
        def later() -> None:
            timed.sleep(0.05)  # the commit writes its descriptor for 102 us
            found[path] = timed.took_us(lambda: journal.record_change(timed.system.file(path)))

        return later

    paths = ("/d/1", "/d/2", "/e/1")
    timed.at_once(lambda: journal.wait_for_commit(1), *map(change, paths))
    assert [found[path] for path in paths] == [52, 52, 0]


@pytest.mark.parametrize("orders_data", [True, False])
def test_a_commit_waits_for_data_of_files_with_new_blocks_if_data_is_ordered(
    run_timed: RunTimed, notebook: Any, orders_data: bool
) -> None:
    def body(timed: Any) -> None:
        system, grown = timed.system, timed.system.file("/d/grown")
        system.writes.write(grown, 0, 4_096)
        system.write_back.sync(grown, 0, 0)  # reserves blocks before those of the file that is read
        system.allocate_ahead("/old", 4_096, is_written=True)
        system.writes.write(grown, 4_096, 4_096)
        del notebook.commands[:]

        def sync_during_the_read() -> None:
            timed.sleep(0.01)
            system.write_back.sync(grown, 1, 1)

        def commit_during_the_read() -> None:
            timed.sleep(0.02)
            system.metadata.sync_names()

        timed.at_once(lambda: system.read("r", "/old", 0, 1), sync_during_the_read, commit_during_the_read)

    run_timed(body, room_blocks=10, orders_data=orders_data)
    written = [runs[0][0] for kind, runs in notebook.commands if kind == "write"]

    assert (written[0] > 32_768) is orders_data  # the elevator would serve the journal first


def test_journal_writes_wrap_around_at_the_end_of_the_journal(timed: Any, notebook: Any) -> None:
    for _ in range(32_768 // 3 + 1):
        timed.system.metadata.sync_names()
    firsts = [runs[0][0] for kind, runs in notebook.commands if kind == "write"]

    assert max(firsts) < 32_768
    assert firsts.count(0) == 2

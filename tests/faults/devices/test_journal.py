from collections.abc import Callable
from typing import Any

RunTimed = Callable[..., Any]
COMMIT_US = 102 + 10 + 101 + 10


def test_a_journal_commit_writes_data_then_flushes_then_writes_the_commit_block(
    run_timed: RunTimed, notebook: Any
) -> None:
    def body(timed: Any) -> float:
        return timed.took_us(timed.system.write_back.sync_names)

    assert run_timed(body) == COMMIT_US
    assert [kind for kind, _ in notebook.commands] == ["write", "flush", "write", "flush"]
    assert notebook.commands[0][1] == [(0, 2)]
    assert notebook.commands[2][1] == [(2, 1)]


def test_syncs_during_a_journal_commit_share_the_next_commit(run_timed: RunTimed) -> None:
    def body(timed: Any) -> tuple[float, int]:
        def later() -> None:
            timed.sleep(0.05)
            timed.system.write_back.sync_names()

        took_us = timed.took_us(lambda: timed.at_once(timed.system.write_back.sync_names, *[later] * 10))
        return took_us, timed.system.journal.commits

    assert run_timed(body) == (2 * COMMIT_US, 2)


def test_consecutive_syncs_of_one_task_need_a_commit_each(run_timed: RunTimed) -> None:
    def body(timed: Any) -> int:
        for _ in range(5):
            timed.system.write_back.sync_names()
        return timed.system.journal.commits

    assert run_timed(body) == 5


def test_a_metadata_change_is_committed_once(run_timed: RunTimed) -> None:
    def body(timed: Any) -> list[int]:
        journal, found = timed.system.journal, []
        for notes in (0, 3, 0):
            for _ in range(notes):
                journal.record_change()
            journal.commit_if_due()
            found.append(journal.commits)
        return found

    assert run_timed(body) == [0, 1, 1]


def test_journal_writes_wrap_around_at_the_end_of_the_journal(run_timed: RunTimed, notebook: Any) -> None:
    def body(timed: Any) -> None:
        for _ in range(32_768 // 3 + 1):
            timed.system.write_back.sync_names()

    run_timed(body)
    firsts = [runs[0][0] for kind, runs in notebook.commands if kind == "write"]

    assert max(firsts) < 32_768
    assert firsts.count(0) == 2

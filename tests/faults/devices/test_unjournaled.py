from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.devices.unjournaled import MetadataWrites

RunTimed = Callable[..., Any]
PAGE = 4096
WRITES = MetadataWrites(after_new_time=1, after_new_blocks=2)


def kinds_of_syncs(run_timed: RunTimed, notebook: Any, *, writes: MetadataWrites, data_only: bool) -> list[list[str]]:
    """Sync a new page of a preallocated file, the same page in place, and no page. Return the commands of each."""
    found: list[list[str]] = []

    def body(timed: Any) -> None:
        timed.system.allocate_ahead("/a", 2 * PAGE)
        file = timed.system.file("/a")
        for is_written in (True, True, False):
            timed.sleep(10)  # the inode's time changes once in a tick
            del notebook.commands[:]
            if is_written:
                timed.system.writes.store(file, 0, 8)
            timed.system.write_back.sync(file, 0, 0, data_only=data_only)
            found.append([kind for kind, _ in notebook.commands])

    run_timed(body, unjournaled=writes)
    return found


def test_a_data_sync_writes_the_measured_number_of_metadata_blocks_and_flushes_once(
    run_timed: RunTimed, notebook: Any
) -> None:
    assert kinds_of_syncs(run_timed, notebook, writes=WRITES, data_only=True) == [
        ["write", "write", "write", "flush"],
        ["write", "write", "flush"],
        ["flush"],
    ]


def test_fsync_writes_an_inode_whose_time_changed_but_fdatasync_need_not(run_timed: RunTimed, notebook: Any) -> None:
    syncs = [kinds_of_syncs(run_timed, notebook, writes=MetadataWrites(), data_only=only) for only in (True, False)]

    assert [of_kind[1] for of_kind in syncs] == [["write", "flush"], ["write", "write", "flush"]]


def test_a_sync_of_a_directory_needs_one_flush(run_timed: RunTimed, notebook: Any) -> None:
    run_timed(lambda timed: timed.system.metadata.sync_names(), unjournaled=WRITES)

    assert [kind for kind, _ in notebook.commands] == ["write", "write", "flush"]


@pytest.mark.parametrize("is_journaled", [True, False])
def test_a_page_fault_waits_for_a_sync_of_the_same_inode_only_with_a_journal(
    run_timed: RunTimed, is_journaled: bool
) -> None:
    def body(timed: Any) -> float:
        timed.system.allocate_ahead("/a", 2 * PAGE)
        file = timed.system.file("/a")
        timed.system.writes.store(file, 0, 8)
        timed.machine.tasks.spawn("sync", lambda: timed.system.write_back.sync(file, 0, 0))
        timed.sleep(0.15)  # the write of the data has ended
        file.changed_tick = -1  # the fault changes the inode's time, as in a new tick
        return float(timed.took_us(lambda: timed.system.writes.store(file, PAGE, 8)))

    waited_us = run_timed(body, unjournaled=None if is_journaled else WRITES)

    assert (waited_us > 0) is is_journaled

"""FILES finds files that the store does not need, wrong sizes, and times that a load changes."""

from collections.abc import Callable

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.invariants import files
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore


def summaries_after_stop(store: MessageStore, disk: Disk, change: Callable[[MessageStore], object]) -> list[str]:
    """Fill three segments and stop the store, change a file, and return the violations."""
    for number in range(12):
        store.put_message(Message.create("T0", bytes([number]) * 400))
    assert store.shutdown()
    change(store)
    return [violation.summary for violation in files.check_files(store, disk, is_stopped=True)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda store: None, []),
        (
            lambda store: store.world.files.write("/store/index/20200913122640000", b""),
            ["a file that is neither needed nor reported"],
        ),
        (
            lambda store: store.world.files.write(store.config.abort_path, b""),
            ["a file that is neither needed nor reported"],
        ),
        (
            lambda store: store.world.files.write(f"/store/commitlog/{0:020}", b"short"),
            ["a file of the store is missing or has a wrong size"],
        ),
        (
            lambda store: store.world.files.unlink(store.config.checkpoint_path),
            ["a file of the store is missing or has a wrong size"],
        ),
        (lambda store: store.world.files.write(store.config.lock_path, b"LOCK"), ["a wrong lock file"]),
    ],
)
@with_settings(indexed=True)
def test_a_stopped_store_has_exactly_its_files(
    store: MessageStore, disk: Disk, change: Callable[[MessageStore], object], expected: list[str]
) -> None:
    assert summaries_after_stop(store, disk, change) == expected


@with_settings(indexed=True)
def test_a_segment_with_another_time_after_a_load_is_a_violation(store: MessageStore, disk: Disk) -> None:
    before = files.read_times(disk, store.config)
    store.world.files.set_mtime_ms(store.log.segments[0].file.path, 1)
    assert [violation.field for violation in files.check_times(before, disk, store)] == ["mtime"]


@with_settings(indexed=True)
def test_a_new_queue_file_has_the_time_of_its_last_message(store: MessageStore, disk: Disk) -> None:
    before = files.read_times(disk, store.config)
    path = store.queues.all_queues()[0].queue.segments[0].file.path
    del before[path]
    last_ms = store.commit_log.last_store_timestamp_ms
    store.world.files.set_mtime_ms(path, last_ms)
    assert list(files.check_times(before, disk, store)) == []
    store.world.files.set_mtime_ms(path, last_ms + 1)
    ((path, _),) = [
        (one.file, one.expected) for one in files.check_times(before, disk, store) if one.expected == str(last_ms)
    ]
    assert path.startswith("/store/consumequeue/T0/")

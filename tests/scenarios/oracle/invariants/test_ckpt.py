import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.invariants import side_files
from tornlog.store.formats.messages import Message
from tornlog.store.log.checkpoint import StoreCheckpoint
from tornlog.store.message_store import MessageStore


def put_and_dispatch(store: MessageStore) -> None:
    """Put messages with different store times, and wait until all are dispatched."""
    for number in range(4):
        store.put_message(Message.create("T0", bytes([number]) * 600))
        store.world.tasks.sleep(10)


def violated_fields(store: MessageStore, disk: Disk) -> list[str]:
    return [violation.field for violation in side_files.check_checkpoint(store, disk)]


def test_a_checkpoint_that_lags_is_no_violation(store: MessageStore, disk: Disk) -> None:
    put_and_dispatch(store)
    assert violated_fields(store, disk) == []


def test_a_checkpoint_that_is_up_to_date_is_no_violation(store: MessageStore, disk: Disk) -> None:
    put_and_dispatch(store)
    store.flush_queues.flush_thoroughly()
    assert store.checkpoint.logics_msg_timestamp_ms == store.commit_log.last_store_timestamp_ms
    assert violated_fields(store, disk) == []


def test_a_checkpoint_time_after_the_durable_queues_is_a_violation(store: MessageStore, disk: Disk) -> None:
    put_and_dispatch(store)
    store.checkpoint.advance_queue_time(store.dispatch.dispatched_store_timestamp_ms)
    assert violated_fields(store, disk) == ["logicsMsgTimestamp"]


def test_a_checkpoint_time_after_a_queue_file_with_an_unsynced_directory_is_a_violation(
    store: MessageStore, disk: Disk
) -> None:
    put_and_dispatch(store)
    store.queues.all_queues()[0].flush(0)
    store.world.files.sync_directory("/store/consumequeue/T0/0")
    store.checkpoint.advance_queue_time(store.dispatch.dispatched_store_timestamp_ms)
    assert violated_fields(store, disk) == ["logicsMsgTimestamp"]


def test_a_checkpoint_time_after_the_durable_log_is_a_violation(store: MessageStore, disk: Disk) -> None:
    put_and_dispatch(store)
    store.log.segments[0].file.store(200, b"another body")
    assert violated_fields(store, disk) == ["physicMsgTimestamp"]


def test_records_of_the_checkpoint_millisecond_are_not_checked(store: MessageStore, disk: Disk) -> None:
    store.put_message(Message.create("T0", b"the only one"))
    store.world.tasks.sleep(10)
    store.checkpoint.advance_queue_time(store.commit_log.last_store_timestamp_ms)
    assert violated_fields(store, disk) == []


@pytest.mark.parametrize("synced", [False, True])
@with_settings(indexed=True)
def test_a_checkpoint_time_after_a_durable_full_index_file_is_a_violation(
    store: MessageStore, disk: Disk, synced: bool
) -> None:
    assert store.index is not None
    (file,) = store.index.table.files
    while file.put_key(1, 2000, file.end_timestamp_ms):
        pass
    if synced:
        file.flush()
        store.index.table.sync_names()
    store.checkpoint.advance_index_time(file.end_timestamp_ms - 1)
    assert violated_fields(store, disk) == []
    store.checkpoint.advance_index_time(file.end_timestamp_ms)
    assert violated_fields(store, disk) == ([] if synced else ["indexMsgTimestamp"])


@pytest.mark.parametrize(
    ("mutated", "field"), [("advance_log_time", "physicMsgTimestamp"), ("advance_queue_time", "logicsMsgTimestamp")]
)
def test_a_clean_stop_that_leaves_a_time_before_the_last_record_is_a_violation(
    store: MessageStore, disk: Disk, mutated: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreCheckpoint, mutated, lambda checkpoint, time: None)
    put_and_dispatch(store)
    assert store.shutdown()
    assert [each.field for each in side_files.check_stopped_checkpoint(store, disk)] == [field]


def test_a_clean_stop_that_leaves_the_times_of_the_last_record_is_no_violation(store: MessageStore, disk: Disk) -> None:
    put_and_dispatch(store)
    assert store.shutdown()
    assert list(side_files.check_stopped_checkpoint(store, disk)) == []

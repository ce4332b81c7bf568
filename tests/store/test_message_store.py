"""The store's public operations, on threads and mapped files."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.errors import CorruptFileError, StoreLockedError, StoreNotReadableError
from tornlog.store.filters.message_filter import TagFilter
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.message import TRANSACTION_PREPARED
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageStatus
from tornlog.store.index.key_query import KeyQuerier, QueryMessageResult
from tornlog.store.log.commit_log import CommitLog
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.pull import QueuePuller
from tornlog.store.real.world import real_world
from tornlog.store.running_flags import RefusalReason

Start = Callable[..., MessageStore]
SEGMENT_BYTES = 4096
QUEUE_BYTES = 200  # ten entries


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    return StoreConfig(
        str(tmp_path / "store"),
        mapped_file_size_commit_log=SEGMENT_BYTES,
        mapped_file_size_consume_queue=QUEUE_BYTES,
        max_message_size=2048,
    )


@pytest.fixture
def store(config: StoreConfig, started: Start) -> MessageStore:
    return started(config)


def put(store: MessageStore, message: Message) -> int:
    """Put a message that must be accepted; return its queue offset."""
    result = store.put_message(message)
    assert result.status is PutMessageStatus.PUT_OK
    assert result.append is not None
    return result.append.queue_offset


def wait_until_visible(store: MessageStore, topic: str, queue_id: int, count: int) -> None:
    """Wait until the messages put so far can be pulled."""
    pause = threading.Event()
    for _ in range(2_000):
        if store.get_max_offset_in_queue(topic, queue_id) >= count:
            return
        pause.wait(0.001)
    pytest.fail(f"{topic}/{queue_id} never got {count} entries")


def batch(topic: str, *bodies: bytes, properties: str = "", sys_flag: int = 0) -> MessageBatch:
    units = encode_batch(BatchUnit(number, body, b"TAGS\x01A") for number, body in enumerate(bodies))
    return MessageBatch(Message(topic, properties=properties, sys_flag=sys_flag), units)


# -- putting ---------------------------------------------------------------------------------------


def test_queue_offsets_increase_by_one_in_each_queue(store: MessageStore) -> None:
    offsets = [put(store, Message.create("T", b"x", queue_id=number % 2)) for number in range(6)]
    assert offsets == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (Message("t" * 128), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("中" * 50), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message(""), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("a/b"), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message(".."), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", queue_id=-1), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", queue_id=2**31), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", properties="p" * 32768), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", properties="中" * 10923), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (Message("T", properties="\N{GRINNING FACE}" * 16383), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (Message("T", properties="\N{GRINNING FACE}" * 16384), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", properties="TAGS\x01a\0"), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", body=bytes(2049)), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", body=bytes(2048), properties="p" * 2000), PutMessageStatus.MESSAGE_ILLEGAL),
    ],
    ids=lambda value: value.value if isinstance(value, PutMessageStatus) else "",
)
def test_messages_that_are_too_large_are_refused_without_a_change(
    store: MessageStore, message: Message, status: PutMessageStatus
) -> None:
    result = store.put_message(message)
    assert (result.status, result.append, result.is_stored) == (status, None, False)
    assert store.max_phy_offset == 0
    assert put(store, Message.create("T", b"x")) == 0


def test_the_largest_record_that_leaves_room_for_a_blank_record_is_stored(store: MessageStore) -> None:
    overhead = 91 + len("T")
    message = Message("T", body=bytes(2048), properties="p" * (SEGMENT_BYTES - 8 - overhead - 2048))
    assert put(store, message) == 0
    assert store.max_phy_offset == SEGMENT_BYTES - 8
    assert put(store, message) == 1
    assert store.max_phy_offset == 2 * SEGMENT_BYTES - 8


def test_puts_are_refused_before_start_and_after_shutdown(
    config: StoreConfig, loaded: Callable[..., MessageStore]
) -> None:
    store = loaded(config)
    before = store.put_message(Message.create("T", b"x")).status
    store.start()
    put(store, Message.create("T", b"x"))
    store.shutdown()
    assert before is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.put_message(Message.create("T", b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.put_messages(batch("T", b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_refusal_reasons_are_checked_before_busy_and_busy_before_the_message(store: MessageStore) -> None:
    bad = Message("t" * 128)
    answers = [store.put_message(bad).status]
    store.commit_log.begin_time_in_lock_ms = store.world.clock.now_ms() - 5_000
    answers.append(store.put_message(bad).status)
    store.flags.add_refusal(RefusalReason.DISK_FULL)
    answers.append(store.put_message(bad).status)
    store.commit_log.begin_time_in_lock_ms = 0

    assert answers == [
        PutMessageStatus.MESSAGE_ILLEGAL,
        PutMessageStatus.OS_PAGECACHE_BUSY,
        PutMessageStatus.SERVICE_NOT_AVAILABLE,
    ]


def test_a_stale_lock_time_does_not_count_as_busy(store: MessageStore) -> None:
    store.commit_log.begin_time_in_lock_ms = 1
    assert not store.is_os_page_cache_busy


def test_store_timestamps_never_decrease(store: MessageStore) -> None:
    far = store.world.clock.now_ms() + 3_600_000
    store.commit_log.continue_after(far)
    result = store.put_message(Message.create("T", b"x"))
    assert result.append is not None
    assert far <= result.append.store_timestamp_ms < far + 60_000


# -- batches ---------------------------------------------------------------------------------------


def test_a_batch_too_long_for_the_rest_of_a_segment_goes_into_the_next_segment(store: MessageStore) -> None:
    put(store, Message.create("T", bytes(2000)))
    put(store, Message.create("T", bytes(1500)))
    result = store.put_messages(batch("T", bytes(300), bytes(300)))
    assert result.append is not None
    assert result.append.wrote_offset == SEGMENT_BYTES


@pytest.mark.parametrize(
    "refused",
    [
        batch("T", b"x", sys_flag=TRANSACTION_PREPARED),
        batch("T", b"x", properties="DELAY\x013"),
        batch("t" * 128, b"x"),
        batch("T", bytes(2048)),
        batch("T"),
        batch("T", bytes(1000), bytes(1000), properties="p" * 2000),
        MessageBatch(Message("T"), b"no batch at all"),
    ],
    ids=["transaction", "delay", "topic", "size", "empty", "segment", "garbage"],
)
def test_a_batch_that_cannot_be_stored_as_a_whole_is_refused(store: MessageStore, refused: MessageBatch) -> None:
    result = store.put_messages(refused)
    assert (result.status, result.append) == (PutMessageStatus.MESSAGE_ILLEGAL, None)
    assert store.max_phy_offset == 0


# -- reading ---------------------------------------------------------------------------------------


def test_tags_with_equal_hashes_are_not_distinguished_by_the_store() -> None:
    assert TagFilter.parse("Aa").matches_queue(2112)
    assert TagFilter.parse("BB").codes == TagFilter.parse("Aa").codes


def test_a_record_is_found_only_by_its_exact_offset(store: MessageStore) -> None:
    put(store, Message.create("T", b"some body"))
    assert store.look_message_by_offset(0) is not None
    for offset in (-1, 1, 40, store.max_phy_offset, 10 * SEGMENT_BYTES):
        assert store.look_message_by_offset(offset) is None


def test_an_unknown_queue_has_min_offset_minus_1(store: MessageStore) -> None:
    assert store.get_min_offset_in_queue("never", 0) == -1
    assert store.get_max_offset_in_queue("never", 0) == 0
    assert store.get_min_offset_in_queue("never", 0) == 0  # the read of the max offset created the queue


READS: dict[str, Callable[[MessageStore], object]] = {
    "get_message": lambda store: store.get_message("T", 0, 0).records,
    "look_message_by_offset": lambda store: store.look_message_by_offset(0),
    "query_message": lambda store: store.query_message("T", "k", 1, 0, 1 << 62).records,
    "get_offset_in_queue_by_time": lambda store: store.get_offset_in_queue_by_time("T", 0, 0),
}


@pytest.fixture
def keyed(config: StoreConfig, started: Start) -> MessageStore:
    """Return a store with one message, which is in its queue and in the index."""
    config = replace(config, max_hash_slot_num=5, max_index_num=12)
    first = started(config)
    put(first, Message.create("T", b"x", keys="k"))
    first.shutdown()  # this waits until the message is in queue and index
    return started(config)


def call_during_read(monkeypatch: pytest.MonkeyPatch, happen: Callable[[], object]) -> None:
    """Call happen before each read of a record."""

    def happening(read: Callable[..., Any]) -> Callable[..., Any]:
        def first(*arguments: Any) -> Any:
            happen()
            return read(*arguments)

        return first

    monkeypatch.setattr(CommitLog, "record_bytes", happening(CommitLog.record_bytes))
    monkeypatch.setattr(QueuePuller, "_read_plain_entries", happening(QueuePuller._read_plain_entries))
    monkeypatch.setattr(KeyQuerier, "query_message", happening(KeyQuerier.query_message))


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_during_a_shutdown_raises_store_not_readable(
    keyed: MessageStore, monkeypatch: pytest.MonkeyPatch, read: Callable[[MessageStore], object]
) -> None:
    assert read(keyed) not in (None, [])
    call_during_read(monkeypatch, keyed.shutdown)
    with pytest.raises(StoreNotReadableError, match="the store is shut down"):
        read(keyed)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_error_in_a_read_without_a_shutdown_is_raised(
    keyed: MessageStore, monkeypatch: pytest.MonkeyPatch, read: Callable[[MessageStore], object]
) -> None:
    def fail() -> None:
        raise ValueError("a mistake of ours")

    call_during_read(monkeypatch, fail)

    with pytest.raises(ValueError, match="a mistake of ours"):
        read(keyed)


def test_a_key_query_without_an_index_finds_nothing(config: StoreConfig, started: Start) -> None:
    store = started(replace(config, message_index_enable=False))
    put(store, Message.create("T", b"x", keys="k"))
    wait_until_visible(store, "T", 0, 1)
    assert store.query_message("T", "k", 1, 0, 1 << 62) == QueryMessageResult()


# -- life ------------------------------------------------------------------------------------------


def test_starting_a_store_that_was_not_loaded_is_refused_and_changes_no_file(
    config: StoreConfig, store: MessageStore
) -> None:
    put(store, Message.create("T", b"kept"))
    intruder = MessageStore(real_world(), config)
    with pytest.raises(StoreLockedError, match="lock"):
        intruder.load()
    with pytest.raises(RuntimeError, match="start: expected a store that was loaded"):
        intruder.start()
    assert intruder.put_message(Message.create("T", b"m")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    with pytest.raises(RuntimeError, match="found a running store"):
        store.start()

    assert put(store, Message.create("T", b"m")) == 1
    wait_until_visible(store, "T", 0, 2)
    assert b"kept" in store.get_message("T", 0, 0).records[0]


def test_a_read_of_an_invalid_topic_raises_a_value_error(store: MessageStore) -> None:
    for topic in (None, "", "a/../b", "T\0"):
        with pytest.raises(ValueError, match="topic: expected a valid topic name"):
            store.get_message(topic, 0, 0)  # type: ignore[arg-type]
    assert store.put_message(Message.create("T", b"m")).is_stored
    assert store.shutdown()


def test_a_failed_load_releases_the_directory_lock(config: StoreConfig, started: Start) -> None:
    stray = Path(config.commit_log_directories[0]) / "notes.txt"
    stray.parent.mkdir(parents=True)
    stray.write_text("remember the milk")
    with pytest.raises(CorruptFileError, match="notes"):
        MessageStore(real_world(), config).load()
    stray.unlink()
    assert started(config).put_message(Message.create("T", b"m")).is_stored


def test_a_clean_stop_removes_the_abort_file(config: StoreConfig, store: MessageStore) -> None:
    running = Path(config.abort_path).exists()
    put(store, Message.create("T", b"x"))
    clean = store.shutdown()
    assert (running, clean, Path(config.abort_path).exists()) == (True, True, False)
    assert sorted(path.name for path in Path(config.commit_log_directory).iterdir()) == [f"{0:020}"]


def test_loading_without_starting_changes_no_file(config: StoreConfig, started: Start) -> None:
    store = started(config)
    put(store, Message.create("T", b"x"))
    store.shutdown()
    again = MessageStore(real_world(), config)
    report = again.load()
    again.close()
    assert (report.clean_exit, report.records, report.findings) == (True, 1, [])
    assert not Path(config.abort_path).exists()


# -- flushing --------------------------------------------------------------------------------------


def test_under_sync_flush_concurrent_producers_share_syncs_and_all_are_answered(
    config: StoreConfig, started: Start
) -> None:
    store = started(replace(config, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    statuses: list[PutMessageStatus] = []

    def produce() -> None:
        statuses.extend(store.put_message(Message.create("T", b"x")).status for _ in range(25))

    producers = [threading.Thread(target=produce) for _ in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    wait_until_visible(store, "T", 0, 100)

    assert statuses == [PutMessageStatus.PUT_OK] * 100


def test_under_async_flush_log_queues_and_checkpoint_are_flushed_in_time(config: StoreConfig, started: Start) -> None:
    store = started(
        replace(
            config,
            flush_interval_commit_log_ms=5,
            flush_commit_log_thorough_interval_ms=10,
            flush_interval_consume_queue_ms=5,
            flush_consume_queue_thorough_interval_ms=10,
        )
    )
    put(store, Message.create("T", b"x"))
    wait_until_visible(store, "T", 0, 1)
    pause = threading.Event()
    for _ in range(2_000):
        if store.checkpoint.logics_msg_timestamp_ms and store.checkpoint.physic_msg_timestamp_ms:
            break
        pause.wait(0.001)

    assert store.log.flushed_where.get() == store.max_phy_offset
    assert store.checkpoint.logics_msg_timestamp_ms == store.checkpoint.physic_msg_timestamp_ms > 0

import errno
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.store.config import BrokerRole, FlushDiskType
from tornlog.store.formats.host import Host
from tornlog.store.formats.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, encode_record, place_records
from tornlog.store.formats.messages import GetMessageStatus, Message, PutMessageStatus
from tornlog.store.formats.scan import ScannedRecord
from tornlog.store.queues.dispatch import is_queued
from tornlog.store.world import World


def test_a_record_whose_queue_file_cannot_be_created_is_dispatched_a_second_later(
    world: World, bench: Any, small: Make
) -> None:
    bench.failures.plan("map", "consumequeue")
    store = started(world, small())
    assert store.put_message(Message.create("T", b"kept")).status is PutMessageStatus.PUT_OK
    world.tasks.sleep(500)
    assert isinstance(store.dispatch.last_error, OSError)
    assert store.get_message("T", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    assert store.dispatch.behind_bytes > 0

    world.tasks.sleep(600)
    assert store.get_message("T", 0, 0).status is GetMessageStatus.FOUND
    assert store.dispatch.behind_bytes == 0
    assert store.flags.is_writeable
    assert store.shutdown()


def test_dispatch_retries_once_a_second_regardless_of_new_puts(world: World, bench: Any, small: Make) -> None:
    bench.failures.plan("map", "consumequeue", 5)
    store = started(world, small())
    for _ in range(45):
        assert store.put_message(Message.create("T", b"busy")).status is PutMessageStatus.PUT_OK
        world.tasks.sleep(100)
    attempts = [call for call in bench.failures.calls if call[0] == "map" and "consumequeue" in call[1]]
    assert len(attempts) == 5

    world.tasks.sleep(1_500)
    assert store.get_max_offset_in_queue("T", 0) == 45
    assert store.shutdown()


def test_after_half_a_minute_of_dispatch_errors_puts_are_refused_and_no_message_is_lost(lab: Make, small: Make) -> None:
    bench = lab()
    bench.failures.plan("map", "consumequeue", 1_000)

    def body(world: World) -> None:
        store = started(world, small())
        store.put_message(Message.create("T", b"kept"))
        world.tasks.sleep(28_000)
        assert store.flags.is_writeable
        world.tasks.sleep(3_000)
        assert not store.flags.is_writeable
        assert store.put_message(Message.create("T", b"late")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert not store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    assert "/store/abort" in image.files

    def again(world: World) -> None:
        store = started(world, small())
        assert len(store.get_message("T", 0, 0).records) == 1
        assert store.shutdown()

    lab(image).run(again)


def test_progress_resets_the_retry_count_of_dispatch(world: World, bench: Any, small: Make) -> None:
    for topic in ("A", "B", "C"):
        bench.failures.plan("map", f"consumequeue/{topic}", 20)
    store = started(world, small())
    for topic in ("A", "B", "C"):
        store.put_message(Message.create(topic, b"late"))
    world.tasks.sleep(58_000)
    assert store.dispatch.behind_bytes > 0
    assert store.flags.is_writeable
    world.tasks.sleep(4_000)
    assert store.dispatch.behind_bytes == 0
    assert store.shutdown()


def test_a_full_disk_resets_the_retry_count_of_dispatch(world: World, bench: Any, small: Make) -> None:
    for times, number in ((20, errno.EIO), (1, errno.ENOSPC), (20, errno.EIO)):
        bench.failures.plan("map", "consumequeue", times, number)
    store = started(world, small())
    assert store.put_message(Message.create("T", b"late")).status is PutMessageStatus.PUT_OK
    world.tasks.sleep(40_500)
    assert store.dispatch.behind_bytes > 0
    assert store.flags.is_writeable
    world.tasks.sleep(1_000)
    assert store.dispatch.behind_bytes == 0
    assert store.shutdown()


def test_a_stop_does_not_wait_for_the_next_dispatch_retry(world: World, bench: Any, small: Make) -> None:
    bench.failures.plan("map", "consumequeue")
    store = started(world, small())
    store.put_message(Message.create("T", b"kept"))
    world.tasks.sleep(10)
    assert store.dispatch.last_error is not None
    begin_ns = world.clock.monotonic_ns()
    assert store.shutdown()  # the last attempt succeeds
    assert world.clock.monotonic_ns() - begin_ns < 500_000_000


def test_a_damaged_record_is_not_dispatched_and_the_exit_is_not_clean(world: World, small: Make) -> None:
    store = started(world, small())
    result = store.put_message(Message.create("T", b"one"))
    assert result.append is not None
    world.tasks.sleep(1)
    store.dispatch.reput_from.set(result.append.wrote_offset + 1)  # not the start of a record
    store.dispatch.wake()
    world.tasks.sleep(1)
    assert "commitlog" in str(store.dispatch.last_error)
    assert not store.shutdown()


@pytest.mark.parametrize("flush", FlushDiskType)
def test_under_sync_flush_a_message_becomes_visible_only_when_it_is_durable(
    flush: FlushDiskType, world: World, bench: Any, small: Make
) -> None:
    store = started(world, small(flush_disk_type=flush))
    store.put_message(Message.create("T", b"durable"))
    world.tasks.sleep(1)
    bench.failures.plan("msync", "commitlog")
    second = store.put_message(Message.create("T", b"not durable")).append
    world.tasks.sleep(1)

    shown = 1 if flush is FlushDiskType.SYNC_FLUSH else 2
    assert store.get_max_offset_in_queue("T", 0) == shown
    assert store.look_message_by_offset(0) is not None
    assert second is not None
    assert (store.look_message_by_offset(second.wrote_offset) is not None) == (shown == 2)


@pytest.mark.parametrize(
    ("topic", "sys_flag", "queued"),
    [
        ("T", 0, True),
        ("T", TRANSACTION_PREPARED, False),
        ("T", TRANSACTION_ROLLBACK, False),
        ("T", TRANSACTION_ROLLBACK & ~TRANSACTION_PREPARED, True),
        ("../T", 0, False),
        ("", 0, False),
    ],
)
def test_dispatch_adds_only_committed_records_with_a_valid_topic_to_queues(
    topic: str, sys_flag: int, queued: bool
) -> None:
    assert is_queued(ScannedRecord(0, 91, topic, 0, 0, sys_flag, 0, b"")) is queued


def replicated_records(numbers: list[int]) -> list[bytes]:
    """Return adjacent records of one queue with the queue offsets that a master assigned."""
    records, at = [], 0
    for number in numbers:
        raw = encode_record(
            topic=b"T",
            properties=b"",
            body=b"%d" % number,
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=1,
            born_host=Host(bytes(4), 1),
            store_timestamp_ms=1,
            store_host=Host(bytes(4), 1),
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
        place_records(raw, (0,), queue_offset=number, physical_offset=at, store_timestamp_ms=1, born_host_v6=False)
        records.append(bytes(raw))
        at += len(raw)
    return records


@pytest.mark.parametrize("wrong", [2_000_000, 1 << 40, 1 << 62, -5, 1])
def test_a_record_with_an_impossible_queue_offset_is_reported_and_skipped(
    world: World, small: Make, wrong: int
) -> None:
    store = started(world, small(broker_role=BrokerRole.SLAVE))
    records = replicated_records([0, 1, wrong, 3])
    at = 0
    for raw in records:
        assert store.commit_log.append_replicated(at, raw, 1)
        at += len(raw)
    world.tasks.sleep(100)

    assert store.dispatch.behind_bytes == 0
    assert store.get_max_offset_in_queue("T", 0) == 4
    assert store.get_message("T", 0, 3).records == [records[3]]
    position = len(records[0]) + len(records[1]) + 20
    told = store.runtime_info()["dispatchPassedOver"]
    assert told.startswith(f"1, the last: /store/commitlog/{0:020d} @ {position}: queueOffset in T/0: expected 2 to ")
    assert told.endswith(f", found {wrong}")
    assert store.flags.is_writeable
    assert store.shutdown()


def test_a_gap_in_the_queue_offsets_of_a_master_is_filled_on_its_slave(world: World, small: Make) -> None:
    store = started(world, small(broker_role=BrokerRole.SLAVE))
    entries = store.config.mapped_file_size_consume_queue // 20
    at = 0
    for raw in replicated_records([0, entries, entries + 1]):
        assert store.commit_log.append_replicated(at, raw, 1)
        at += len(raw)
    world.tasks.sleep(100)

    assert store.dispatch.passed_over is None
    assert store.get_max_offset_in_queue("T", 0) == entries + 2
    assert len(store.get_message("T", 0, entries).records) == 2
    assert store.shutdown()

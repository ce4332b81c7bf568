from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.config import FlushDiskType
from tornlog.store.dispatch import is_queued
from tornlog.store.formats.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tornlog.store.formats.scan import ScannedRecord
from tornlog.store.get_result import GetMessageStatus
from tornlog.store.message import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.put_result import PutMessageStatus
from tornlog.store.world import World

Make = Callable[..., Any]


def started(world: World, config: Any) -> MessageStore:
    store = MessageStore(world, config)
    store.load()
    store.start()
    return store


def test_a_record_whose_queue_file_cannot_be_made_is_shown_a_second_later(lab: Make, small: Make) -> None:
    bench = lab()
    bench.failures.plan("map", "consumequeue")

    def body(world: World) -> None:
        store = started(world, small())
        assert store.put_message(Message.of("T", b"kept")).status is PutMessageStatus.PUT_OK
        world.tasks.sleep(500)
        assert isinstance(store.dispatch.last_error, OSError)
        assert store.get_message("T", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
        assert store.dispatch.behind_bytes > 0

        world.tasks.sleep(600)
        assert store.get_message("T", 0, 0).status is GetMessageStatus.FOUND
        assert store.dispatch.behind_bytes == 0
        assert store.flags.is_writeable
        assert store.shutdown()

    bench.run(body)


def test_dispatch_retries_once_a_second_however_many_puts_come_meanwhile(lab: Make, small: Make) -> None:
    bench = lab()
    bench.failures.plan("map", "consumequeue", 5)

    def body(world: World) -> None:
        store = started(world, small())
        for _ in range(45):
            assert store.put_message(Message.of("T", b"busy")).status is PutMessageStatus.PUT_OK
            world.tasks.sleep(100)
        attempts = [call for call in bench.failures.calls if call[0] == "map" and "consumequeue" in call[1]]
        assert len(attempts) == 5

        world.tasks.sleep(1_500)
        assert store.get_max_offset_in_queue("T", 0) == 45
        assert store.shutdown()

    bench.run(body)


def test_a_disk_that_fails_dispatch_for_half_a_minute_ends_writing_and_nothing_is_lost(
    lab: Make, small: Make
) -> None:
    bench = lab()
    bench.failures.plan("map", "consumequeue", 1_000)

    def body(world: World) -> None:
        store = started(world, small())
        store.put_message(Message.of("T", b"kept"))
        world.tasks.sleep(28_000)
        assert store.flags.is_writeable
        world.tasks.sleep(3_000)
        assert not store.flags.is_writeable
        assert store.put_message(Message.of("T", b"late")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert not store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    assert "/store/abort" in image.files

    def again(world: World) -> None:
        store = started(world, small())
        assert len(store.get_message("T", 0, 0).records) == 1
        assert store.shutdown()

    lab(image).run(again)


def test_a_stop_in_the_midst_of_a_retry_does_not_wait_for_it(lab: Make, small: Make) -> None:
    bench = lab()
    bench.failures.plan("map", "consumequeue")

    def body(world: World) -> None:
        store = started(world, small())
        store.put_message(Message.of("T", b"kept"))
        world.tasks.sleep(10)
        assert store.dispatch.last_error is not None
        begin_ns = world.clock.monotonic_ns()
        assert store.shutdown()  # the last try succeeds
        assert world.clock.monotonic_ns() - begin_ns < 500_000_000

    bench.run(body)


def test_a_damaged_record_is_not_dispatched_and_the_exit_is_not_clean(lab: Make, small: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small())
        result = store.put_message(Message.of("T", b"one"))
        assert result.append is not None
        world.tasks.sleep(1)
        store.dispatch.reput_from.set(result.append.wrote_offset + 1)  # nothing begins there
        store.dispatch.wake()
        world.tasks.sleep(1)
        assert "commitlog" in str(store.dispatch.last_error)
        assert not store.shutdown()

    bench.run(body)


@pytest.mark.parametrize("flush", FlushDiskType)
def test_under_sync_flush_nothing_is_shown_before_it_is_durable(
    flush: FlushDiskType, lab: Make, small: Make
) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small(flush_disk_type=flush))
        store.put_message(Message.of("T", b"durable"))
        world.tasks.sleep(1)
        bench.failures.plan("msync", "commitlog")
        second = store.put_message(Message.of("T", b"not durable")).append
        world.tasks.sleep(1)

        shown = 1 if flush is FlushDiskType.SYNC_FLUSH else 2
        assert store.get_max_offset_in_queue("T", 0) == shown
        assert store.look_message_by_offset(0) is not None
        assert second is not None
        assert (store.look_message_by_offset(second.wrote_offset) is not None) == (shown == 2)

    bench.run(body)


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
def test_only_committed_records_of_a_storable_topic_take_a_place_in_a_queue(
    topic: str, sys_flag: int, queued: bool
) -> None:
    assert is_queued(ScannedRecord(0, 91, topic, 0, 0, sys_flag, 0, b"")) is queued

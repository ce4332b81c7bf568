from collections.abc import Callable
from typing import Any

import pytest

from tests.store.rigs import started
from tornlog.store.config import FlushDiskType
from tornlog.store.errors import StoreNotReadableError
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
from tornlog.store.running_flags import RefusalReason, RunningFlags
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Make = Callable[..., Any]


@pytest.fixture
def flags() -> RunningFlags:
    return RunningFlags(real_world().tasks)


@pytest.mark.parametrize("reason", RefusalReason)
def test_each_refusal_reason_forbids_writing_and_only_one_forbids_reading(
    reason: RefusalReason, flags: RunningFlags
) -> None:
    assert flags.is_readable
    assert flags.is_writeable
    flags.add_refusal(reason)
    assert flags.bits == reason
    assert flags.is_readable == (reason is not RefusalReason.NOT_READABLE)
    assert flags.is_writeable == (reason is RefusalReason.NOT_READABLE)


def test_clearing_one_refusal_reason_keeps_the_others(flags: RunningFlags) -> None:
    flags.add_refusal(RefusalReason.DISK_FULL)
    flags.add_refusal(RefusalReason.NOT_WRITEABLE)
    flags.clear_refusal(RefusalReason.DISK_FULL)
    assert flags.bits == 2
    assert not flags.is_writeable
    flags.clear_refusal(RefusalReason.DISK_FULL)
    flags.clear_refusal(RefusalReason.NOT_WRITEABLE)
    assert flags.is_writeable
    assert flags.bits == 0


def test_a_permanent_refusal_cannot_be_cleared(flags: RunningFlags) -> None:
    assert not flags.has_failed
    flags.add_refusal(RefusalReason.DISK_FULL)
    causes: list[str] = []
    flags.on_lasting_refusal = causes.append
    flags.refuse_until_restart(RefusalReason.NOT_WRITEABLE, "a sync failed")
    flags.refuse_until_restart(RefusalReason.WRITE_LOGICS_QUEUE_ERROR, "dispatch failed")
    assert flags.has_failed
    flags.clear_refusal(RefusalReason.DISK_FULL)
    flags.clear_refusal(RefusalReason.NOT_WRITEABLE)
    assert not flags.is_writeable
    assert flags.bits == 6
    assert causes == ["a sync failed"]


def test_a_store_that_is_not_writeable_answers_reads_and_stops_cleanly(lab: Make, small: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small())
        store.put_message(Message.create("T", b"one"))
        world.tasks.sleep(1)
        store.flags.add_refusal(RefusalReason.NOT_WRITEABLE)
        assert store.put_message(Message.create("T", b"two")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert len(store.get_message("T", 0, 0).records) == 1
        store.flags.clear_refusal(RefusalReason.NOT_WRITEABLE)
        assert store.flags.is_writeable
        assert store.put_message(Message.create("T", b"two")).status is PutMessageStatus.PUT_OK
        store.flags.add_refusal(RefusalReason.NOT_WRITEABLE)
        assert store.shutdown()

    bench.run(body)
    assert "/store/abort" not in bench.switch_off().files


def test_after_a_failed_sync_an_operator_cannot_make_the_store_writeable(world: World, bench: Any, small: Make) -> None:
    store = started(world, small(flush_disk_type=FlushDiskType.SYNC_FLUSH))
    bench.failures.plan("msync", "commitlog")
    assert store.put_message(Message.create("T", b"lost")).status is PutMessageStatus.FLUSH_DISK_TIMEOUT
    store.flags.clear_refusal(RefusalReason.NOT_WRITEABLE)
    assert not store.flags.is_writeable
    assert store.put_message(Message.create("T", b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert not store.shutdown()


READS: dict[str, Callable[[MessageStore], object]] = {
    "get_message": lambda store: store.get_message("T", 0, 0),
    "look_message_by_offset": lambda store: store.look_message_by_offset(0),
    "query_message": lambda store: store.query_message("T", "k", 1, 0, 1 << 62),
    "get_offset_in_queue_by_time": lambda store: store.get_offset_in_queue_by_time("T", 0, 0),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_store_that_is_not_readable_or_is_shut_down_refuses_every_read(
    world: World, small: Make, read: Callable[[MessageStore], object]
) -> None:
    store = started(world, small())
    store.put_message(Message.create("T", b"one"))
    world.tasks.sleep(1)
    read(store)
    store.flags.add_refusal(RefusalReason.NOT_READABLE)
    with pytest.raises(StoreNotReadableError, match="switched to not readable: running flags 1"):
        read(store)
    assert store.put_message(Message.create("T", b"two")).status is PutMessageStatus.PUT_OK
    store.flags.clear_refusal(RefusalReason.NOT_READABLE)
    assert store.flags.is_readable
    read(store)
    assert store.shutdown()
    with pytest.raises(StoreNotReadableError, match="the store is shut down"):
        read(store)
    # offsets may be queried although reads are refused, as in RocketMQ
    assert store.get_max_offset_in_queue("T", 0) == 2
    assert store.get_min_offset_in_queue("T", 0) == 0


def test_a_loaded_but_not_started_store_is_readable(lab: Make, small: Make) -> None:
    bench = lab()

    def write(world: World) -> None:
        store = started(world, small())
        store.put_message(Message.create("T", b"one"))
        assert store.shutdown()

    bench.run(write)

    def look(world: World) -> None:
        store = MessageStore(world, small())
        store.load()
        assert len(store.get_message("T", 0, 0).records) == 1
        store.close()

    lab(bench.switch_off()).run(look)

from typing import Any

import pytest

from tests.one_life import with_settings
from tests.store.rigs import Make, started
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.store.config import FlushDiskType
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.log.flush import GroupCommitRequest
from tornlog.store.message_store import MessageStore
from tornlog.store.running_flags import RefusalReason
from tornlog.store.world import World

SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH


def count_log_msyncs(failures: Any) -> int:
    return len([call for call in failures.calls if call[0] == "msync" and "commitlog" in call[1]])


def test_after_a_failed_sync_no_put_is_acknowledged_and_no_second_sync_is_trusted(lab: Make, small: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small(flush_disk_type=SYNC))
        assert store.put_message(Message.create("T", b"safe")).status is PutMessageStatus.PUT_OK
        before = store.checkpoint.physic_msg_timestamp_ms
        world.tasks.sleep(50)
        bench.failures.plan("msync", "commitlog")
        asked = count_log_msyncs(bench.failures)
        lost = store.put_message(Message.create("T", b"in doubt"))
        late = store.put_message(Message.create("T", b"refused"))
        world.tasks.sleep(60_000)

        assert lost.status is PutMessageStatus.FLUSH_DISK_TIMEOUT
        assert lost.append is not None
        assert late.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert store.flags.bits == RefusalReason.NOT_WRITEABLE
        assert count_log_msyncs(bench.failures) == asked + 1
        assert store.log.flushed_where.get() == lost.append.wrote_offset
        assert store.checkpoint.physic_msg_timestamp_ms == before
        assert not store.shutdown()

    bench.run(body)
    assert "/store/abort" in bench.switch_off().files


def test_after_a_failed_sync_of_an_async_put_later_puts_are_refused(world: World, bench: Any, small: Make) -> None:
    bench.failures.plan("msync", "commitlog")
    store = started(world, small(flush_disk_type=ASYNC, flush_commit_log_least_pages=0))
    assert store.put_message(Message.create("T", b"in the page cache")).status is PutMessageStatus.PUT_OK
    world.tasks.sleep(600)
    refused = store.put_message(Message.create("T", b"late"))
    assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.log.flushed_where.get() == 0
    assert store.get_max_offset_in_queue("T", 0) == 1
    assert not store.shutdown()


@with_settings(timing=SyncTiming(1_000_000_000, 1_000_000_000))
def test_a_put_with_wait_store_ok_false_is_answered_before_its_sync(world: World, small: Make) -> None:
    store = started(world, small(flush_disk_type=SYNC))
    store.commit_log.queue.add(store.allocate.make_segment(0))
    message = Message.create("T", b"hasty")
    message.wait_store_ok = False
    begin_ns = world.clock.monotonic_ns()
    assert store.put_message(message).status is PutMessageStatus.PUT_OK
    assert world.clock.monotonic_ns() == begin_ns
    world.tasks.sleep(1_100)
    assert store.log.flushed_where.get() == store.max_phy_offset


@with_settings(timing=SyncTiming(10_000_000, 10_000_000))
def test_puts_that_arrive_during_a_sync_share_the_next_sync(world: World, bench: Any, small: Make) -> None:
    store = started(world, small(flush_disk_type=SYNC, mapped_file_size_commit_log=65_536))
    store.put_message(Message.create("T", b"first"))
    before = count_log_msyncs(bench.failures)
    statuses = []

    def put() -> None:
        statuses.append(store.put_message(Message.create("T", b"together")).status)

    producers = [world.tasks.spawn(f"producer-{number}", put) for number in range(20)]
    for producer in producers:
        producer.join(None)
    assert statuses == [PutMessageStatus.PUT_OK] * 20
    assert count_log_msyncs(bench.failures) - before <= 3


def test_a_flush_covers_every_segment_up_to_the_requested_offset(world: World, small: Make) -> None:
    store = started(world, small(flush_disk_type=ASYNC, flush_interval_commit_log_ms=100_000))
    for _ in range(20):
        store.put_message(Message.create("T", bytes(200)))
    assert len(store.log.segments) > 3
    assert store.log.flushed_where.get() == 0
    assert store.flush.flush_to(store.max_phy_offset)
    assert store.log.flushed_where.get() == store.max_phy_offset
    assert all(segment.flushed.get() == segment.wrote.get() for segment in store.log.segments)


def test_an_async_flush_waits_for_whole_pages_no_longer_than_the_thorough_interval(world: World, small: Make) -> None:
    store = started(world, small(flush_disk_type=ASYNC, mapped_file_size_commit_log=1 << 20))
    store.put_message(Message.create("T", bytes(100)))
    world.tasks.sleep(9_000)
    assert store.log.flushed_where.get() == 0
    world.tasks.sleep(2_000)
    assert store.log.flushed_where.get() == store.max_phy_offset

    store.put_message(Message.create("T", bytes(4 * 4096)))
    world.tasks.sleep(600)
    assert store.log.flushed_where.get() == store.max_phy_offset


@pytest.mark.parametrize("failing", [False, True])
def test_a_put_after_group_commit_has_stopped_syncs_by_itself(
    failing: bool, world: World, bench: Any, small: Make
) -> None:
    store = started(world, small(flush_disk_type=SYNC))
    store.put_message(Message.create("T", b"first"))
    store.flush.shutdown()
    if failing:
        bench.failures.plan("msync", "commitlog")
    begin_ns = world.clock.monotonic_ns()
    status = store.put_message(Message.create("T", b"late")).status
    assert status is (PutMessageStatus.FLUSH_DISK_TIMEOUT if failing else PutMessageStatus.PUT_OK)
    assert world.clock.monotonic_ns() == begin_ns


def test_a_group_commit_request_succeeds_only_if_its_sync_succeeds_before_the_deadline(world: World) -> None:
    durable, failed, late = (GroupCommitRequest(world, 10, 1_000) for _ in range(3))
    durable.complete(True)
    failed.complete(False)
    assert durable.wait() is PutMessageStatus.PUT_OK
    assert failed.wait() is PutMessageStatus.FLUSH_DISK_TIMEOUT
    assert late.wait() is PutMessageStatus.FLUSH_DISK_TIMEOUT
    late.complete(True)  # it has already timed out


@pytest.mark.parametrize(("method", "path"), [("unlink", "/store/abort"), ("sync_directory", "/store")])
def test_a_stop_that_cannot_durably_remove_the_abort_file_is_not_clean_but_ends(
    world: World, bench: Any, small: Make, method: str, path: str
) -> None:
    store = started(world, small(flush_disk_type=SYNC))
    assert store.put_message(Message.create("T", b"safe")).status is PutMessageStatus.PUT_OK
    world.tasks.sleep(1000)
    bench.failures.plan(method, path, times=10)
    assert store.is_clean()
    assert not store.shutdown()
    bench.failures._planned.clear()
    again = MessageStore(world, small(flush_disk_type=SYNC))
    again.load()  # the directory is not locked any more
    assert again.log.max_offset == store.log.max_offset

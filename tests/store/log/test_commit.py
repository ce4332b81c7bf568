import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.store.config import BrokerRole, FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.log.log_time import LogTime
from tornlog.store.log.transient_pool import BufferedSegment
from tornlog.store.message_store import MessageStore
from tornlog.store.running_flags import RefusalReason
from tornlog.store.world import World

OK = PutMessageStatus.PUT_OK
NO_SEGMENT = PutMessageStatus.CREATE_MAPEDFILE_FAILED
BODY = bytes(400)  # two messages fill a segment


def pool_config(small: Make, **settings: Any) -> StoreConfig:
    config: StoreConfig = small(**{"transient_store_pool_enable": True, "transient_store_pool_size": 3, **settings})
    assert config.is_transient_store_pool_effective
    return config


def check_positions(store: MessageStore) -> None:
    for segment in store.log.segments:
        flushed, readable, wrote = segment.flushed.get(), segment.readable.get(), segment.wrote.get()
        assert 0 <= flushed <= readable <= wrote <= segment.size_bytes
    assert store.log.flushed_where.get() <= store.log.max_offset


@pytest.mark.parametrize(
    "settings",
    [
        {"transient_store_pool_enable": False},
        {"transient_store_pool_enable": True, "flush_disk_type": FlushDiskType.SYNC_FLUSH},
        {"transient_store_pool_enable": True, "broker_role": BrokerRole.SLAVE},
    ],
)
def test_with_the_transient_pool_disabled_there_is_no_commit_service(
    settings: dict[str, Any], world: World, small: Make
) -> None:
    store = MessageStore(world, small(**settings))
    assert store.commit is None
    assert store.pool is None
    assert not store.is_transient_store_pool_deficient


def test_with_a_transient_pool_a_message_is_visible_only_after_its_commit(world: World, small: Make) -> None:
    store = started(world, pool_config(small))
    assert store.put_message(Message.create("T", b"first")).status is OK
    world.tasks.sleep(400)
    assert store.max_phy_offset > 0

    committed = store.max_phy_offset
    second = store.put_message(Message.create("T", b"second"))
    assert second.append is not None
    assert store.log.segments[0].wrote.get() == committed + second.append.wrote_bytes
    assert store.max_phy_offset == committed
    assert store.get_message("T", 0, 1).records == []
    assert store.look_message_by_offset(second.append.wrote_offset) is None
    assert store.dispatch.behind_bytes == 0
    check_positions(store)

    world.tasks.sleep(400)
    assert store.look_message_by_offset(second.append.wrote_offset) is not None
    assert store.get_max_offset_in_queue("T", 0) == 2
    check_positions(store)
    assert store.shutdown()


def test_whole_pages_are_committed_at_once_and_the_rest_within_the_interval(world: World, small: Make) -> None:
    store = started(
        world,
        pool_config(
            small,
            mapped_file_size_commit_log=1 << 20,
            commit_commit_log_thorough_interval_ms=60_000,
            commit_interval_commit_log_ms=60_000,
        ),
    )
    store.put_message(Message.create("T", bytes(3 * 4096)))
    world.tasks.sleep(1_000)
    assert store.max_phy_offset == 0
    store.put_message(Message.create("T", bytes(4096)))
    world.tasks.sleep(1)
    assert store.max_phy_offset > 4 * 4096
    assert store.get_max_offset_in_queue("T", 0) == 2


def test_a_stop_commits_and_syncs_a_backlog_of_many_segments(lab: Make, small: Make) -> None:
    bench = lab()
    config = pool_config(
        small,
        transient_store_pool_size=40,
        commit_commit_log_least_pages=1000,
        commit_interval_commit_log_ms=3_600_000,
        commit_commit_log_thorough_interval_ms=3_600_000,
    )

    def body(world: World) -> None:
        store = started(world, config)
        assert store.commit is not None
        store.commit_log.on_appended = lambda: None
        for _ in range(60):
            assert store.put_message(Message.create("T", BODY)).status is OK
        assert store.max_phy_offset == 0
        assert len(store.log.segments) == 30
        assert store.shutdown()

    bench.run(body)
    image = bench.switch_off()

    def again(world: World) -> None:
        store = MessageStore(world, config)
        assert store.load().clean_exit
        assert store.get_max_offset_in_queue("T", 0) == 60

    lab(image).run(again)


def test_after_a_failed_commit_puts_are_refused_and_the_buffer_is_written_again(lab: Make, small: Make) -> None:
    bench = lab()
    config = pool_config(small)

    def body(world: World) -> None:
        store = started(world, config)
        assert store.commit is not None
        bench.failures.plan("pwrite", "commitlog")
        assert store.put_message(Message.create("T", b"told ok")).status is OK
        while store.flags.is_writeable:
            world.tasks.sleep(10)
        assert store.commit.last_error is not None
        assert store.max_phy_offset == 0
        assert store.flags.bits == RefusalReason.NOT_WRITEABLE
        refused = store.put_message(Message.create("T", b"refused"))
        assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE

        world.tasks.sleep(1_000)
        assert store.get_max_offset_in_queue("T", 0) == 1
        check_positions(store)
        assert not store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    assert "/store/abort" in image.files

    def again(world: World) -> None:
        store = MessageStore(world, config)
        assert store.load().findings == []
        assert store.get_max_offset_in_queue("T", 0) == 1

    lab(image).run(again)


def test_a_commit_on_a_full_disk_succeeds_when_space_returns_and_the_stop_is_clean(lab: Make, small: Make) -> None:
    bench = lab()
    config = pool_config(small)

    def body(world: World) -> None:
        store = started(world, config)
        bench.failures.plan("pwrite", "commitlog", 3, errno.ENOSPC)
        assert store.put_message(Message.create("T", b"told ok")).status is OK
        while store.flags.is_writeable:
            world.tasks.sleep(10)
        assert store.flags.bits == RefusalReason.DISK_FULL
        assert not store.flags.has_failed
        assert not store.is_clean(), "nothing of it is in the file"
        refused = store.put_message(Message.create("T", b"refused"))
        assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        world.tasks.sleep(1_000)
        assert store.get_max_offset_in_queue("T", 0) == 1
        while not store.flags.is_writeable:
            world.tasks.sleep(1_000)
        assert store.put_message(Message.create("T", b"taken again")).status is OK
        check_positions(store)
        assert store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    assert "/store/abort" not in image.files

    def again(world: World) -> None:
        store = MessageStore(world, config)
        assert store.load().findings == []
        assert store.get_max_offset_in_queue("T", 0) == 2

    lab(image).run(again)


def test_a_stop_that_cannot_write_the_buffers_to_a_full_disk_is_not_clean(lab: Make, small: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, pool_config(small))
        bench.failures.plan("pwrite", "commitlog", 1_000, errno.ENOSPC)
        assert store.put_message(Message.create("T", b"told ok")).status is OK
        assert not store.shutdown()

    bench.run(body)
    assert "/store/abort" in bench.switch_off().files


@pytest.mark.parametrize("timed", [True, False])
def test_only_a_flush_service_without_a_timer_is_woken_by_commits(timed: bool, world: World, small: Make) -> None:
    store = started(
        world,
        pool_config(
            small,
            mapped_file_size_commit_log=1 << 20,
            flush_commit_log_timed=timed,
            flush_interval_commit_log_ms=600_000,
        ),
    )
    store.put_message(Message.create("T", bytes(5 * 4096)))
    world.tasks.sleep(10)
    assert store.max_phy_offset > 0
    assert store.log.flushed_where.get() == (0 if timed else store.max_phy_offset)


@pytest.mark.parametrize("timed", [True, False])
def test_a_flush_service_without_a_timer_or_pool_is_woken_by_puts(timed: bool, world: World, small: Make) -> None:
    config = small(
        mapped_file_size_commit_log=1 << 20, flush_commit_log_timed=timed, flush_interval_commit_log_ms=600_000
    )
    store = started(world, config)
    store.put_message(Message.create("T", bytes(5 * 4096)))
    world.tasks.sleep(10)
    assert store.log.flushed_where.get() == (0 if timed else store.max_phy_offset)


def test_the_checkpoint_never_covers_an_uncommitted_message(world: World, small: Make) -> None:
    store = started(world, pool_config(small, commit_commit_log_least_pages=100))
    world.tasks.sleep(1_000)
    first = store.put_message(Message.create("T", b"committed"))
    assert first.append is not None
    world.tasks.sleep(400)
    assert store.max_phy_offset > 0
    second = store.put_message(Message.create("T", b"in memory"))
    assert second.append is not None
    assert second.append.store_timestamp_ms > first.append.store_timestamp_ms
    store.flush.flush_to(store.log.max_offset)
    assert store.checkpoint.physic_msg_timestamp_ms <= first.append.store_timestamp_ms


# Without a free buffer


def test_without_a_free_buffer_a_segment_is_written_through_its_map(lab: Make, small: Make) -> None:
    bench = lab()
    config = pool_config(small, transient_store_pool_size=1)

    def body(world: World) -> None:
        store = started(world, config)
        assert not store.is_transient_store_pool_deficient
        for number in range(9):
            assert store.put_message(Message.create("T", BODY + b"%06d" % number)).status is OK
            world.tasks.sleep(0)
        kinds = {type(segment) is BufferedSegment for segment in store.log.segments}
        assert kinds == {True, False}
        check_positions(store)
        world.tasks.sleep(1_000)
        check_positions(store)
        assert store.get_max_offset_in_queue("T", 0) == 9
        for number in range(9):
            assert b"%06d" % number in store.get_message("T", 0, number, 1).records[0]
        assert store.shutdown()

    bench.run(body)

    def again(world: World) -> None:
        store = MessageStore(world, config)
        assert store.load().findings == []
        assert store.get_max_offset_in_queue("T", 0) == 9
        assert all(type(segment) is not BufferedSegment for segment in store.log.segments)

    lab(bench.switch_off()).run(again)


def test_a_message_is_not_visible_before_an_earlier_uncommitted_one(world: World, small: Make) -> None:
    store = started(world, pool_config(small, transient_store_pool_size=1))
    assert store.commit is not None
    store.commit.shutdown()
    for _ in range(3):
        assert store.put_message(Message.create("T", BODY)).status is OK
    assert [type(segment) is BufferedSegment for segment in store.log.segments] == [True, False]
    assert store.log.segments[1].readable.get() > 0
    world.tasks.sleep(10)
    assert (store.max_phy_offset, store.dispatch.reput_from.get()) == (0, 0)
    store.commit.commit(0)
    world.tasks.sleep(10)
    assert store.get_max_offset_in_queue("T", 0) == 3


def test_with_fast_fail_puts_are_refused_until_a_buffer_is_free(world: World, small: Make) -> None:
    config = pool_config(small, transient_store_pool_size=1, fast_fail_if_no_buffer_in_store_pool=True)
    store = started(world, config)
    assert store.commit is not None
    store.commit_log.on_appended = lambda: None  # only the test commits
    answers = [store.put_message(Message.create("T", BODY)).status for _ in range(4)]
    assert answers == [OK, OK, NO_SEGMENT, NO_SEGMENT]
    assert store.is_transient_store_pool_deficient
    assert len(store.log.segments) == 1

    store.commit.commit(0)
    assert not store.is_transient_store_pool_deficient
    after = store.put_message(Message.create("T", BODY))
    assert after.append is not None
    assert (after.append.wrote_offset, after.append.queue_offset) == (1024, 2)
    assert all(type(segment) is BufferedSegment for segment in store.log.segments)
    assert store.shutdown()


def test_with_fast_fail_no_more_segments_are_requested_than_buffers_are_free(world: World, small: Make) -> None:
    config = pool_config(small, transient_store_pool_size=2, fast_fail_if_no_buffer_in_store_pool=True)
    store = started(world, config)
    store.put_message(Message.create("T", BODY))
    world.tasks.sleep(10)
    assert store.pool is not None
    assert store.pool.available == 0  # the following segment has the other buffer
    assert world.files.list_directory("/store/commitlog") == ["00000000000000000000", "00000000000000001024"]
    for _ in range(20):
        assert store.put_message(Message.create("T", BODY)).status in (OK, NO_SEGMENT)
        world.tasks.sleep(300)
    assert all(type(segment) is BufferedSegment for segment in store.log.segments)
    assert store.shutdown()


def test_with_fast_fail_a_preallocated_segment_may_use_the_last_buffer(world: World, small: Make) -> None:
    config = pool_config(small, transient_store_pool_size=3, fast_fail_if_no_buffer_in_store_pool=True)
    store = started(world, config)
    for _ in range(3):  # the third put is the first in the second segment, which already exists
        assert store.put_message(Message.create("T", BODY)).status is OK
        world.tasks.sleep(10)
    assert len(world.files.list_directory("/store/commitlog")) == 3
    assert store.shutdown()


# The same log with and without a pool


def messages(count: int) -> list[Message]:
    return [Message.create("T" if n % 3 else "U", b"%06d" % n * (n % 40), tags="abc"[n % 3]) for n in range(count)]


def test_a_clean_stop_leaves_the_same_bytes_with_and_without_a_transient_pool(
    started: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = []
    for pool in (False, True):
        root = tmp_path / f"pool {pool}"
        config = StoreConfig(
            str(root),
            mapped_file_size_commit_log=4096,
            mapped_file_size_consume_queue=200,
            transient_store_pool_enable=pool,
            message_index_enable=False,
        )
        store = started(config)
        monkeypatch.setattr(store.commit_log, "time", LogTime(ClockOfLog(store)))
        for message in messages(200):
            assert store.put_message(replace(message, born_timestamp_ms=1)).status is OK
        assert store.shutdown()
        images.append(
            {
                str(path.relative_to(root)): path.read_bytes()
                for path in sorted(root.rglob("*"))
                if path.is_file() and path.name != "checkpoint"
            }
        )

    assert images[0] == images[1]
    assert len([name for name in images[0] if name.startswith("commitlog/")]) > 3


class ClockOfLog:
    """A wall clock that advances with the log, however often it is read."""

    def __init__(self, store: MessageStore) -> None:
        self._log = store.log

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self._log.put_offset

    def monotonic_ns(self) -> int:
        return 0

    def utc_offset_ms(self) -> int:
        return 0


def test_a_store_opens_the_files_of_a_killed_rocketmq_with_a_pool(golden: Make, started: Make) -> None:
    case = golden("11-kill9-transientpool")
    config = replace(case.config(case.before), transient_store_pool_enable=True, message_index_enable=False)
    store = started(config)
    assert store.max_phy_offset == case.observed["committedWhere"] == case.observed["maxPhyOffset"]
    check_positions(store)
    put = store.put_message(Message.create("Kill1", b"next"))
    assert put.append is not None
    assert put.append.wrote_offset == case.observed["maxPhyOffset"]
    assert store.shutdown()

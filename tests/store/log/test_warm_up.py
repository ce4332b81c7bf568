from typing import Any

import pytest

from tests.one_life import with_settings
from tests.store.rigs import Make, started
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.log.allocate import SegmentWarmUp
from tornlog.store.log.segment import PAGE_BYTES
from tornlog.store.world import World

SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH


def warm_config(small: Make, **settings: Any) -> StoreConfig:
    config: StoreConfig = small(**{"warm_mapped_file_enable": True, **settings})
    return config


def calls_of(bench: Any, *names: str) -> list[tuple[str, str]]:
    return [(name, path.rpartition("/")[2]) for name, path in bench.failures.calls if name in names]


@pytest.mark.parametrize(
    ("flush", "pages_between", "msyncs"), [(ASYNC, 2, 0), (SYNC, 2, 4), (SYNC, 4096, 1), (SYNC, 3, 3)]
)
def test_warming_a_segment_touches_and_syncs_every_page_as_configured_and_locks_it(
    world: World, bench: Any, flush: FlushDiskType, pages_between: int, msyncs: int, small: Make
) -> None:
    warm_up = SegmentWarmUp(world, small(flush_disk_type=flush, flush_least_pages_when_warm_mapped_file=pages_between))
    file = world.files.map("/segment", 6 * PAGE_BYTES + 100)
    warm_up.warm(0, file)
    assert bytes(file.view(0, file.size_bytes)) == bytes(file.size_bytes)
    assert warm_up.refusals == 0
    names = [name for name, _ in calls_of(bench, "store", "msync", "mlock", "advise_will_need")]
    assert names.count("store") == 7
    assert names.count("msync") == msyncs
    assert names[-2:] == ["mlock", "advise_will_need"]
    if msyncs:
        assert names[-3] == "msync"


def test_a_warmed_segment_is_durable(world: World, bench: Any, small: Make) -> None:
    file = world.files.map("/segment", 5 * PAGE_BYTES)
    SegmentWarmUp(world, small(flush_disk_type=SYNC, flush_least_pages_when_warm_mapped_file=2)).warm(0, file)
    assert bench.disk.is_durable("/segment", 0, 5 * PAGE_BYTES)


def test_a_warmed_segment_is_unlocked_six_seconds_after_its_blank_record(world: World, bench: Any, small: Make) -> None:
    store = started(world, warm_config(small))
    for _ in range(3):
        assert store.put_message(Message.create("T", bytes(400))).status is PutMessageStatus.PUT_OK
    closed_ns = world.clock.monotonic_ns()
    while not calls_of(bench, "munlock"):
        world.tasks.sleep(100)
    waited_ns = world.clock.monotonic_ns() - closed_ns
    assert 6_000_000_000 <= waited_ns <= 6_200_000_000
    world.tasks.sleep(60_000)
    assert calls_of(bench, "munlock") == [("munlock", "00000000000000000000")]
    assert store.shutdown()
    locked = calls_of(bench, "mlock")
    assert locked == [("mlock", f"{base:020d}") for base in (0, 1024, 2048)]


@pytest.mark.parametrize("refused", ["mlock", "munlock", "advise_will_need"])
def test_a_failed_mlock_is_counted_and_ignored(refused: str, world: World, bench: Any, small: Make) -> None:
    bench.failures.plan(refused, "commitlog", times=100)
    store = started(world, warm_config(small))
    for _ in range(5):
        assert store.put_message(Message.create("T", bytes(400))).status is PutMessageStatus.PUT_OK
    world.tasks.sleep(7_000)
    warm_up = store.allocate.warm_up
    assert warm_up is not None
    assert warm_up.refusals >= 2
    assert warm_up.last_refusal is not None
    assert store.shutdown()


def test_a_failed_sync_while_warming_fails_the_segment(world: World, bench: Any, small: Make) -> None:
    bench.failures.plan("msync", "commitlog")
    store = started(world, warm_config(small, flush_disk_type=SYNC))
    refused = store.put_message(Message.create("T", b"x"))
    assert refused.status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert store.put_message(Message.create("T", b"x")).status is PutMessageStatus.PUT_OK
    assert store.flags.is_writeable
    assert store.shutdown()


def test_a_segment_removed_before_its_unlock_is_not_unlocked(world: World, small: Make) -> None:
    warm_up = SegmentWarmUp(world, small())
    first, second = (world.files.map(f"/{name}", 100) for name in ("first", "second"))
    warm_up.warm(0, first)
    warm_up.warm(100, second)
    warm_up.unlock_later(0)
    warm_up.unlock_later(0)
    warm_up.forget_segment(100)
    warm_up.unlock_later(100)
    first.close()
    assert warm_up.unlock_due() == 6_000
    world.tasks.sleep(6_000)
    assert warm_up.unlock_due() is None
    assert warm_up.refusals == 0


@with_settings(timing=SyncTiming(2_000_000_000, 2_000_000_000))
def test_a_put_that_waits_for_a_slow_disk_makes_the_store_report_busy(world: World, small: Make) -> None:
    store = started(world, small())
    answers: list[PutMessageStatus] = []
    assert not store.is_os_page_cache_busy

    def put() -> None:
        answers.append(store.put_message(Message.create("T", b"x")).status)

    waiting = world.tasks.spawn("waiting", put)
    world.tasks.sleep(900)
    begin_ms = store.commit_log.begin_time_in_lock_ms
    assert begin_ms == world.clock.now_ms() - 900
    assert not store.is_os_page_cache_busy
    world.tasks.sleep(101)
    assert store.is_os_page_cache_busy
    assert store.put_message(Message.create("T", b"x")).status is PutMessageStatus.OS_PAGECACHE_BUSY
    waiting.join(None)
    assert answers == [PutMessageStatus.PUT_OK]
    assert store.commit_log.begin_time_in_lock_ms == 0
    assert not store.is_os_page_cache_busy

from collections.abc import Callable
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.store.config import BrokerRole, FlushDiskType
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageStatus
from tornlog.store.formats.scan import ScannedRecord
from tornlog.store.message_store import MessageStore
from tornlog.store.running_flags import RefusalReason
from tornlog.store.stats import LATENCY_BOUNDS_MS, LATENCY_RANGES, StoreStats, TopicTotals
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Make = Callable[..., Any]
MS = 1_000_000


class Log:
    """The counts of a log, set by the test."""

    def __init__(self) -> None:
        self.topic_put_totals: dict[str, TopicTotals] = {}
        self.puts_failed = 0


def test_messages_and_bytes_are_counted_per_topic_as_stored(store: MessageStore) -> None:
    sizes = [store.put_message(Message.create("A", b"x" * number)).append for number in range(3)]
    units = encode_batch([BatchUnit(0, b"one", b""), BatchUnit(0, b"two", b"")])
    batch = store.put_messages(MessageBatch(Message("B", b""), units)).append
    assert batch is not None

    totals = store.stats.topic_put_totals("A")
    assert (totals.messages, totals.size_bytes) == (3, sum(each.wrote_bytes for each in sizes if each))
    assert store.stats.topic_put_totals("B") == TopicTotals(2, batch.wrote_bytes)
    assert store.stats.topic_put_totals("C") == TopicTotals(0, 0)
    assert store.stats.put_messages_total == 5
    assert store.stats.put_bytes_total == totals.size_bytes + batch.wrote_bytes
    assert store.stats.put_latency_counts == [4] + [0] * len(LATENCY_BOUNDS_MS)  # a batch counts as one put


def test_an_accepted_put_that_fails_counts_as_failed_and_a_refused_put_does_not(store: MessageStore) -> None:
    too_large = store.put_message(Message.create("A", b"x" * 2000))
    assert too_large.status is PutMessageStatus.MESSAGE_ILLEGAL
    assert store.stats.puts_failed == 1
    store.flags.add_refusal(RefusalReason.NOT_WRITEABLE)
    assert store.put_message(Message.create("A", b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.stats.puts_failed == 1
    assert store.stats.put_messages_total == 0
    assert store.stats.put_latency_counts[0] == 1


def test_a_put_without_a_segment_counts_as_failed(world: World, bench: Any, small: Make) -> None:
    store = MessageStore(world, small())
    store.load()
    store.start()
    bench.failures.plan("map", "commitlog", 10)
    status = store.put_message(Message.create("A", b"x")).status
    assert status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert store.stats.puts_failed == 1
    store.shutdown()


@pytest.mark.parametrize(
    ("ms", "bucket"),
    [
        *((0, 0), (1, 1), (9, 1), (10, 2), (50, 3), (100, 4), (200, 5), (500, 6), (1000, 7)),
        *((2000, 8), (3000, 9), (4000, 10), (5000, 11), (9999, 11), (10_000, 12), (99_000, 12)),
    ],
)
def test_a_put_is_counted_in_the_latency_bucket_that_rocketmq_would_choose(world: World, ms: int, bucket: int) -> None:
    log = Log()
    stats = StoreStats(world, log)
    log.topic_put_totals["A"] = TopicTotals(1, 100)
    if ms:  # the store reports slow ones only
        stats.count_slow_put(ms * MS)
    names = [name for name, _ in LATENCY_RANGES]
    assert stats.rocketmq_latency_counts() == {**dict.fromkeys(names, 0), names[bucket]: 1}
    assert stats.put_ns_max == ms * MS


def test_latencies_between_1_and_10_ms_are_counted_apart(world: World) -> None:
    log = Log()
    stats = StoreStats(world, log)
    log.topic_put_totals["A"] = TopicTotals(6, 600)
    for ms in (1, 2, 3, 4, 5, 7):
        stats.count_slow_put(ms * MS)
    assert stats.put_latency_counts[:8] == [0, 1, 1, 1, 1, 1, 1, 0]
    assert stats.rocketmq_latency_counts()["[0~10ms]"] == 6


@with_settings(timing=SyncTiming(30 * MS, 40 * MS))
def test_a_put_on_a_slow_disk_is_counted_in_the_latency_bucket_of_its_duration(world: World, small: Make) -> None:
    store = MessageStore(world, small(flush_disk_type=FlushDiskType.SYNC_FLUSH))
    store.load()
    store.start()
    assert store.put_message(Message.create("A", b"x")).status is PutMessageStatus.PUT_OK
    units = encode_batch([BatchUnit(0, b"one", b"")])
    assert store.put_messages(MessageBatch(Message("B", b""), units)).status is PutMessageStatus.PUT_OK
    assert sum(store.stats.put_latency_counts[2:]) == 2
    assert store.stats.put_latency_counts[0] == 0
    assert store.stats.put_ns_max >= 30 * MS
    store.shutdown()


def test_pulls_are_counted_by_their_results(world: World, store: MessageStore) -> None:
    for _ in range(5):
        store.put_message(Message.create("A", b"x"))
    world.tasks.sleep(10)
    assert len(store.get_message("A", 0, 0, 3).records) == 3
    assert len(store.get_message("A", 0, 3).records) == 2
    store.get_message("A", 0, 5)
    store.get_message("A", 0, 0, tags="other")

    stats = store.stats
    assert (stats.gets_found, stats.gets_missed, stats.messages_transferred) == (2, 2, 5)
    assert stats.get_ns_max == 0  # a read takes no virtual time

    stats.count_get(7 * MS, store.get_message("A", 0, 5))
    assert stats.get_ns_max == 7 * MS


@pytest.mark.parametrize("recorded", [True, False])
def test_the_distance_of_a_pull_from_the_log_end_is_recorded_if_enabled(
    in_store: Callable[..., None], recorded: bool
) -> None:
    def body(world: World, store: MessageStore) -> None:
        for _ in range(3):
            store.put_message(Message.create("A", b"x"))
        world.tasks.sleep(10)
        store.get_message("A", 0, 0, 1)
        store.get_message("A", 1, 0)
        size_bytes = store.max_phy_offset // 3
        # the last entry seen is the second, which did not fit
        assert store.stats.fall_behind_bytes == ({("A", 0): 2 * size_bytes} if recorded else {})

    in_store(body, disk_fall_recorded=recorded)


def test_rates_cover_the_last_seconds_and_require_a_run_of_that_length(world: World, store: MessageStore) -> None:
    stats = store.stats
    assert stats.rates(10) is None
    for _ in range(200):
        store.put_message(Message.create("A", b"x"))
        world.tasks.sleep(100)
    ten = stats.rates(10)
    assert ten is not None
    assert ten.puts == pytest.approx(10, abs=0.2)
    assert ten.gets_found == ten.gets_missed == ten.transferred == 0
    assert stats.rates(60) is None

    world.tasks.sleep(50_000)
    ten, sixty = stats.rates(10), stats.rates(60)
    assert ten is not None
    assert ten.puts == 0
    assert sixty is not None
    assert 0 < sixty.puts < 4


def test_rate_samples_are_a_second_apart_and_limited_in_number(world: World) -> None:
    log = Log()
    stats = StoreStats(world, log)
    totals = log.topic_put_totals["A"] = TopicTotals()
    for _ in range(1500):
        world.tasks.sleep(500)
        totals.messages += 1
        stats.take_sample_if_due()
    rates = stats.rates(600)
    assert rates is not None
    assert rates.puts == pytest.approx(2.0)
    assert stats.rates(601) is None


def test_a_slave_counts_dispatched_records_as_puts(world: World, small: Make) -> None:
    store = MessageStore(world, small(broker_role=BrokerRole.SLAVE))
    store.load()
    for dispatch in store.dispatchers[1:]:
        dispatch(ScannedRecord(0, 91, "A", 0, 0, 0, 0, b""))
    assert store.stats.topic_put_totals("A") == TopicTotals(1, 91)
    store.close()

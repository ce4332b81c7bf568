from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.runtime_info import stats_info
from tornlog.store.stats import StoreStats, TopicTotals
from tornlog.store.world import World

pytestmark = pytest.mark.usefixtures("inside")

Make = Callable[..., Any]


class CommitCounts:
    """The counts of an empty log."""

    def __init__(self) -> None:
        self.topic_put_totals: dict[str, TopicTotals] = {}
        self.puts_failed = 0


ROCKETMQ_NAMES = {
    *("bootTimestamp", "runtime", "putMessageEntireTimeMax", "putMessageTimesTotal", "putMessageSizeTotal"),
    *("putMessageDistributeTime", "putMessageAverageSize", "dispatchMaxBuffer", "getMessageEntireTimeMax"),
    *("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps"),
    *("commitLogMinOffset", "commitLogMaxOffset", "commitLogDiskRatio", "consumeQueueDiskRatio"),
}


def test_runtime_info_of_a_new_store_has_all_keys_of_rocketmq(world: World, small: Make) -> None:
    store = MessageStore(world, small())
    info = store.runtime_info()
    assert set(info) >= ROCKETMQ_NAMES
    assert info["bootTimestamp"] == str(world.clock.now_ms())
    assert info["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    assert info["putMessageTimesTotal"] == "1"  # as RocketMQ reports it without puts
    assert info["putMessageAverageSize"] == "0.0"
    assert info["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 ")
    assert info["putMessageDistributeTime"].endswith(" [5~10s]:0 [10s~]:0 ")
    assert info["putTps"] == "  "
    assert info["getTotalTps"] == "0.0 0.0 0.0"
    assert (info["commitLogMinOffset"], info["commitLogMaxOffset"]) == ("-1", "0")
    assert info["commitLogDiskRatio"] == info["consumeQueueDiskRatio"] == "-1.0"  # no files yet


def test_runtime_info_has_counts_rates_and_the_run_time(world: World, small: Make) -> None:
    store = MessageStore(world, small())
    store.load()
    store.start()
    for number in range(120):
        store.put_message(Message.create("A", b"x"))
        world.tasks.sleep(100)
        store.get_message("A", 0, number)
    world.tasks.sleep(3_000_000)
    info = store.runtime_info()
    assert info["runtime"] == "[ 0 days, 0 hours, 50 minutes, 12 seconds ]"
    assert info["putMessageTimesTotal"] == "120"
    assert info["putMessageSizeTotal"] == str(store.stats.put_bytes_total)
    assert float(info["putMessageAverageSize"]) * 120 == store.stats.put_bytes_total
    assert info["putMessageDistributeTime"].startswith("[<=0ms]:120 ")
    assert len(info["putTps"].split()) == 3
    assert info["putTps"] == info["getFoundTps"] == info["getTransferedTps"] == info["getTotalTps"]
    assert int(info["dispatchMaxBuffer"]) >= store.max_phy_offset // 120
    assert info["commitLogMaxOffset"] == str(store.max_phy_offset)
    assert 0 <= float(info["commitLogDiskRatio"]) <= 1
    store.shutdown()


def test_runtime_info_has_next_and_max_offset_of_each_delay_level_with_progress(world: World, small: Make) -> None:
    store = MessageStore(world, small(message_delay_level="1s 1h"))
    store.load()
    store.start()
    for level in ("1", "1", "2"):
        store.put_message(Message.create("A", b"x", properties={"DELAY": level}))
    world.tasks.sleep(2_500)
    info = store.runtime_info()
    assert info["scheduleMessageOffset_1"] == "2,2"
    assert info.get("scheduleMessageOffset_2", "0,1") == "0,1"
    store.schedule.offsets[7] = 0  # a level without messages
    assert store.runtime_info()["scheduleMessageOffset_7"] == "0,0"
    del store.schedule.offsets[7]
    assert store.shutdown()


def test_a_run_time_of_years_is_shown_in_days_with_a_comma_as_in_java(world: World) -> None:
    stats = StoreStats(world, CommitCounts())
    years_ms = 1234 * 86_400_000 + 5 * 3_600_000 + 6 * 60_000 + 7_999
    info = stats_info(stats, stats.boot_timestamp_ms + years_ms, 0)
    assert info["runtime"] == "[ 1,234 days, 5 hours, 6 minutes, 7 seconds ]"


def test_runtime_info_has_the_usage_of_each_log_directory_and_the_smallest(
    started: Callable[..., MessageStore], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    store = started(StoreConfig(str(tmp_path / "s"), store_path_commit_log=f"{first},{second}"))
    info = store.runtime_info()
    ratios = [float(info[f"commitLogDiskRatio_{path}"]) for path in (first, second)]
    assert float(info["commitLogDiskRatio"]) == min(ratios)
    assert all(0 < ratio <= 1 and round(ratio, 2) == ratio for ratio in ratios)

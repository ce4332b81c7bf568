"""Runtime information of a store, in RocketMQ's names and spelling.

All values are text. A rate is three numbers, for the last 10, 60 and 600 s, each empty until the store has run that
long. A broker answers GET_BROKER_RUNTIME_INFO with these values. Source: RocketMQ StoreStatsService.getRuntimeInfo,
DefaultMessageStore.getRuntimeInfo, ScheduleMessageService.buildRunningStats.
"""

from collections.abc import Mapping

from .config import StoreConfig
from .formats.delay_level import SCHEDULE_TOPIC
from .log.segment_queue import try_used_ratio
from .queues.consume_queue_table import ConsumeQueueTable
from .queues.dispatch import DispatchService
from .running_flags import RunningFlags
from .stats import TPS_WINDOWS_S, StoreRates, StoreStats
from .world import Files

_NS_PER_MS = 1_000_000


def stats_info(stats: StoreStats, now_ms: int, dispatch_bytes_max: int) -> dict[str, str]:
    messages, size_bytes = stats.put_messages_total, stats.put_bytes_total
    rates = [stats.rates(seconds) for seconds in TPS_WINDOWS_S]
    return {
        "bootTimestamp": str(stats.boot_timestamp_ms),
        "runtime": _runtime_text(now_ms - stats.boot_timestamp_ms),
        "putMessageEntireTimeMax": str(stats.put_ns_max // _NS_PER_MS),
        "putMessageTimesTotal": str(max(messages, 1)),  # RocketMQ never reports 0 here
        "putMessageSizeTotal": str(size_bytes),
        "putMessageFailedTimes": str(stats.puts_failed),
        "putMessageDistributeTime": "".join(
            f"{name}:{count} " for name, count in stats.rocketmq_latency_counts().items()
        ),
        "putMessageAverageSize": str(size_bytes / max(messages, 1)),
        "dispatchMaxBuffer": str(dispatch_bytes_max),
        "getMessageEntireTimeMax": str(stats.get_ns_max // _NS_PER_MS),
        "putTps": _rates_text([each and each.puts for each in rates]),
        "getFoundTps": _rates_text([each and each.gets_found for each in rates]),
        "getMissTps": _rates_text([each and each.gets_missed for each in rates]),
        "getTotalTps": _rates_text([_total_rate(each) for each in rates]),
        "getTransferedTps": _rates_text([each and each.transferred for each in rates]),
    }


def disk_info(files: Files, config: StoreConfig) -> dict[str, str]:
    """Return the usage of the log's and the queues' disks, from 0 to 1; -1 if unknown."""
    of_log = {path: _disk_ratio(files, path) for path in config.commit_log_directories}
    return {
        **{f"commitLogDiskRatio_{path}": str(ratio) for path, ratio in of_log.items()},
        "commitLogDiskRatio": str(min(of_log.values())),
        "consumeQueueDiskRatio": str(_disk_ratio(files, config.consume_queue_directory)),
    }


def _disk_ratio(files: Files, path: str) -> float:
    ratio = try_used_ratio(files, path)
    return -1.0 if ratio is None else ratio


def schedule_info(offsets: Mapping[int, int], queues: ConsumeQueueTable) -> dict[str, str]:
    info = {}
    for level, offset in sorted(offsets.items()):
        queue = queues.find(SCHEDULE_TOPIC, level - 1)
        info[f"scheduleMessageOffset_{level}"] = f"{offset},{0 if queue is None else queue.max_offset}"
    return info


def _runtime_text(ms: int) -> str:
    days, ms = divmod(ms, 86_400_000)
    hours, ms = divmod(ms, 3_600_000)
    minutes, ms = divmod(ms, 60_000)
    return f"[ {days:,} days, {hours} hours, {minutes} minutes, {ms // 1_000} seconds ]"


def _total_rate(rates: StoreRates | None) -> float:
    """Return the total rate. Unknown rates count as 0.0, because RocketMQ adds two numbers."""
    return 0.0 if rates is None else rates.gets_found + rates.gets_missed


def _rates_text(rates: list[float | None]) -> str:
    return " ".join("" if rate is None else str(rate) for rate in rates)


def trouble_info(flags: RunningFlags, dispatch: DispatchService) -> dict[str, str]:
    info = {}
    if flags.failures:
        info["failedServices"] = "; ".join(f"{name}: {why}" for name, why in sorted(flags.failures.items()))
    if dispatch.passed_over is not None:
        info["dispatchPassedOver"] = f"{dispatch.passed_over_count}, the last: {dispatch.passed_over}"
    return info

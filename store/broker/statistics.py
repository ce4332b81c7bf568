"""Broker statistics by name and key, for RocketMQ's tools (VIEW_BROKER_STATS_DATA).

    name              key            counts
    TOPIC_PUT_NUMS    topic          messages stored in a topic
    TOPIC_PUT_SIZE    topic          bytes of these messages in the log
    GROUP_GET_NUMS    topic@group    messages delivered to a group
    GROUP_GET_SIZE    topic@group    bytes of the delivered records
    SNDBCK_PUT_NUMS   topic@group    messages that a group sent back
    BROKER_PUT_NUMS   cluster        messages stored
    BROKER_GET_NUMS   cluster        messages delivered

Each key has totals and rates for the last minute, hour and day, from samples every 10 s, 10 min and 1 h. The first
sample is dated one interval before the start. RocketMQ's figures end at the last sample, these figures at the time of
the request. Source: RocketMQ BrokerStatsManager, StatsItem.computeStatsData, BrokerStatsData.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..stats import StoreStats
from ..world import Clock

KEYS_MAX = 10_000
"""Maximum number of keys per name. Other keys are not counted."""
SAMPLE_MS = 10_000


class _StatisticsSpan(NamedTuple):
    member: str
    interval_ms: int
    samples_max: int


_SPANS = (
    # As in StatsItem, 7 samples span 6 intervals.
    _StatisticsSpan("statsMinute", SAMPLE_MS, 7),
    _StatisticsSpan("statsHour", 600_000, 7),
    _StatisticsSpan("statsDay", 3_600_000, 25),
)


class _TotalSample(NamedTuple):
    at_ms: int
    total: int
    times: int


@dataclass(slots=True)
class _TotalSeries:
    samples: tuple[deque[_TotalSample], ...] = field(
        default_factory=lambda: tuple(deque(maxlen=span.samples_max) for span in _SPANS)
    )

    def add_sample(self, now_ms: int, total: int, times: int) -> None:
        for span, samples in zip(_SPANS, self.samples, strict=True):
            if not samples:
                samples.append(_TotalSample(now_ms - span.interval_ms, 0, 0))
            if now_ms - samples[-1].at_ms >= span.interval_ms:
                samples.append(_TotalSample(now_ms, total, times))

    def json_members(self, now_ms: int, total: int, times: int) -> dict[str, dict[str, float]]:
        now = _TotalSample(now_ms, total, times)
        return {
            span.member: _rates_between(samples[0], now) for span, samples in zip(_SPANS, self.samples, strict=True)
        }


def _rates_between(first: _TotalSample, last: _TotalSample) -> dict[str, float]:
    total, times, ms = last.total - first.total, last.times - first.times, last.at_ms - first.at_ms
    assert ms >= 0, (first.at_ms, last.at_ms)
    return {"avgpt": total / times if times else 0.0, "sum": total, "tps": total * 1_000 / ms if ms else 0.0}


@dataclass(slots=True)
class _MessageCount:
    total: int = 0
    times: int = 0
    size_bytes: int = 0


class BrokerStatistics:
    """Statistics since the broker's start.

    Any task may count. If two tasks count at the same time, a count may be lost.
    """

    def __init__(self, clock: Clock, stats: StoreStats, cluster: str) -> None:
        self._clock = clock
        self._stats = stats
        self._cluster = cluster
        self._gets: dict[str, _MessageCount] = {}
        self._sent_back: dict[str, _MessageCount] = {}
        self._series: dict[tuple[str, str], _TotalSeries] = {}

        def bytes_of_topic(topic: str) -> tuple[int, int]:
            put = stats.topic_put_totals(topic)
            return put.size_bytes, put.messages

        self._sources: Mapping[str, Callable[[str], tuple[int, int]]] = {
            "TOPIC_PUT_NUMS": lambda key: _total_and_times(stats.topic_put_totals(key).messages),
            "TOPIC_PUT_SIZE": bytes_of_topic,
            "GROUP_GET_NUMS": lambda key: (self._gets[key].total, self._gets[key].times),
            "GROUP_GET_SIZE": lambda key: (self._gets[key].size_bytes, self._gets[key].times),
            "SNDBCK_PUT_NUMS": lambda key: (self._sent_back[key].total, self._sent_back[key].times),
            "BROKER_PUT_NUMS": lambda _: _total_and_times(stats.put_messages_total),
            "BROKER_GET_NUMS": lambda _: _total_and_times(stats.messages_transferred),
        }
        """Name -> function from a key to the total and the number of calls."""

    def count_delivered(self, topic: str, group: str, records: list[bytes]) -> None:
        assert records, (topic, group)
        count = _find_count(self._gets, f"{topic}@{group}")
        if count is not None:
            count.total += len(records)
            count.times += 1
            count.size_bytes += sum(map(len, records))

    def count_sent_back(self, topic: str, group: str) -> None:
        count = _find_count(self._sent_back, f"{topic}@{group}")
        if count is not None:
            count.total += 1
            count.times += 1

    def take_samples(self) -> None:
        """Call this at least every SAMPLE_MS."""
        now_ms = self._clock.monotonic_ns() // 1_000_000
        for name, totals in self._sources.items():
            for key in self._counted_keys_of(name):
                self._add_to_series(name, key, now_ms, totals(key))

    def _counted_keys_of(self, name: str) -> list[str]:
        if name.startswith("TOPIC"):
            return list(self._stats.totals_by_topic)[:KEYS_MAX]
        if name.startswith("BROKER"):
            return [self._cluster]
        return list(self._gets if name.startswith("GROUP") else self._sent_back)

    def _add_to_series(self, name: str, key: str, now_ms: int, total: tuple[int, int]) -> _TotalSeries:
        series = self._series.get((name, key))
        if series is None:
            series = self._series[name, key] = _TotalSeries()
        series.add_sample(now_ms, *total)
        return series

    def json_members(self, name: str, key: str) -> dict[str, Any] | None:
        """Return figures of the last minute, hour and day, or None without counts."""
        totals = self._sources.get(name)
        if totals is None or key not in self._counted_keys_of(name):
            return None
        total, now_ms = totals(key), self._clock.monotonic_ns() // 1_000_000
        return self._add_to_series(name, key, now_ms, total).json_members(now_ms, *total)

    def delivered_per_second(self, topic: str, group: str) -> float:
        """Return the rate in the last minute (consumeTps)."""
        found = self.json_members("GROUP_GET_NUMS", f"{topic}@{group}")
        return 0.0 if found is None else float(found["statsMinute"]["tps"])

    def delivered_totals(self) -> dict[str, tuple[int, int]]:
        """Return `topic@group` -> (messages, bytes)."""
        return {key: (count.total, count.size_bytes) for key, count in list(self._gets.items())}


def _find_count(counts: dict[str, _MessageCount], key: str) -> _MessageCount | None:
    count = counts.get(key)
    if count is None and len(counts) < KEYS_MAX:  # limited, because clients choose group names
        count = counts[key] = _MessageCount()
    return count


def _total_and_times(total: int) -> tuple[int, int]:
    return total, total

"""Store statistics since the start: RocketMQ's StoreStatsService.

Counts of messages and bytes per topic are exact, because they change inside the put lock. Other counts are incremented
without a lock: exact in CPython, which does not switch threads inside these increments, but not in a free-threaded
interpreter. The queue flush service and every reader of rates take samples, at least a second apart.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from .formats.messages import GetMessageResult, GetMessageStatus
from .formats.scan import ScannedRecord
from .world import World

LATENCY_RANGES = (
    *(("[<=0ms]", 1), ("[0~10ms]", 10), ("[10~50ms]", 50), ("[50~100ms]", 100), ("[100~200ms]", 200)),
    *(("[200~500ms]", 500), ("[500ms~1s]", 1_000), ("[1~2s]", 2_000), ("[2~3s]", 3_000), ("[3~4s]", 4_000)),
    *(("[4~5s]", 5_000), ("[5~10s]", 10_000), ("[10s~]", None)),
)
"""RocketMQ's ranges of latency: name, upper bound in ms. A put of exactly 10 ms is in the third range."""

TPS_WINDOWS_S = (10, 60, 600)

LATENCY_BOUNDS_MS = (1, 2, 3, 4, 5, 7, 10, 20, 30, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
"""Upper bounds of the counted ranges. The last range has no bound. A put of exactly a bound is in the next range.

RocketMQ's ranges are too wide for a percentile: most puts with a sync take 1 to 10 ms.
"""
assert {bound_ms for _, bound_ms in LATENCY_RANGES} <= {*LATENCY_BOUNDS_MS, None}
_BOUNDS_NS = [ms * 1_000_000 for ms in LATENCY_BOUNDS_MS]
FAST_PUT_NS = _BOUNDS_NS[0]
"""Faster puts are not counted individually, which saves time. Their number is derived from the log's counts."""

SLOW_MS = 500
"""RocketMQ logs a put that takes longer, or holds the put lock for longer."""

_SAMPLE_MS = 1_000
_SAMPLES_MAX = max(TPS_WINDOWS_S) * 1_000 // _SAMPLE_MS + 1
_NS_PER_MS = 1_000_000


@dataclass(slots=True)
class TopicTotals:
    """Totals of one topic."""

    messages: int = 0
    size_bytes: int = 0
    """Size of the topic's records, without blank records."""


_NOTHING = TopicTotals()


class SlowCount:
    """Number and maximum of durations above SLOW_MS since the last `take_counts`. Concurrent calls may be missed."""

    __slots__ = ("_count", "_longest_ns")

    def __init__(self) -> None:
        self._count = self._longest_ns = 0

    def count_if_slow(self, took_ns: int) -> None:
        if took_ns > SLOW_MS * _NS_PER_MS:
            self._count += 1
            self._longest_ns = max(self._longest_ns, took_ns)

    def take_counts(self) -> tuple[int, int]:
        """Return and reset the number and the maximum in ms."""
        count, longest_ns = self._count, self._longest_ns
        self._count = self._longest_ns = 0
        return count, longest_ns // _NS_PER_MS


class LogCounts(Protocol):
    """Counts that the log keeps."""

    topic_put_totals: dict[str, TopicTotals]
    puts_failed: int


class _StatsSample(NamedTuple):
    """Totals at one monotonic time."""

    at_ms: int
    puts: int
    gets_found: int
    gets_missed: int
    transferred: int


class StoreRates(NamedTuple):
    """Rates per second: stored messages, pulls with and without messages, returned messages."""

    puts: float
    gets_found: float
    gets_missed: float
    transferred: float


class StoreStats:
    """Counts of a store since its start."""

    def __init__(self, world: World, counted: LogCounts) -> None:
        """counted: the log, which updates its counts inside the put lock."""
        self.boot_timestamp_ms = world.clock.now_ms()
        self.put_ns_max = 0
        self.slow_puts = SlowCount()
        self.gets_found = 0
        self.gets_missed = 0
        self.messages_transferred = 0
        self.get_ns_max = 0
        self.fall_behind_bytes: dict[tuple[str, int], int] = {}
        """Bytes of log after the last pulled message, by topic and queue id."""
        self.batches = 0
        self.messages_batched = 0
        self._clock = world.clock
        self._counted = counted
        self._slow_put_counts = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._lock = world.tasks.lock("store stats")
        self._samples: deque[_StatsSample] = deque([self._sample_totals()], _SAMPLES_MAX)

    # -- counting ----------------------------------------------------------------------------------

    def count_slow_put(self, took_ns: int) -> None:
        assert took_ns >= FAST_PUT_NS, took_ns  # faster puts are all puts minus the slower ones
        self._slow_put_counts[bisect_right(_BOUNDS_NS, took_ns)] += 1
        self.slow_puts.count_if_slow(took_ns)
        if took_ns > self.put_ns_max:
            self.put_ns_max = took_ns

    def count_batch(self, messages: int) -> None:
        assert messages > 0, messages
        self.batches += 1
        self.messages_batched += messages

    def count_get(self, took_ns: int, result: GetMessageResult) -> None:
        assert took_ns >= 0, took_ns
        if result.status is GetMessageStatus.FOUND:
            self.gets_found += 1
            self.messages_transferred += len(result.records)
        else:
            self.gets_missed += 1
        if took_ns > self.get_ns_max:
            self.get_ns_max = took_ns

    def count_replicated(self, record: ScannedRecord) -> None:
        """Count a replicated record as a put. A slave has no other puts."""
        assert record.size_bytes > 0, record
        totals = self._counted.topic_put_totals.setdefault(record.topic, TopicTotals())
        totals.messages += 1
        totals.size_bytes += record.size_bytes

    # -- reading -----------------------------------------------------------------------------------

    @property
    def put_latency_counts(self) -> list[int]:
        """Return the number of puts by range of LATENCY_BOUNDS_MS, the range above the last bound included."""
        slow = self._slow_put_counts[1:]
        puts = self.put_messages_total - self.messages_batched + self.batches + self.puts_failed
        return [max(0, puts - sum(slow)), *slow]  # never negative, even if puts are counted between the two reads

    def rocketmq_latency_counts(self) -> dict[str, int]:
        """Return the number of puts by RocketMQ's name of the range."""
        counts = self.put_latency_counts
        found, begin = {}, 0
        for name, bound_ms in LATENCY_RANGES:
            end = len(counts) if bound_ms is None else LATENCY_BOUNDS_MS.index(bound_ms) + 1
            found[name] = sum(counts[begin:end])
            begin = end
        return found

    @property
    def puts_failed(self) -> int:
        return self._counted.puts_failed

    def topic_put_totals(self, topic: str) -> TopicTotals:
        """Return a copy of a topic's totals."""
        return replace(self._counted.topic_put_totals.get(topic, _NOTHING))

    @property
    def totals_by_topic(self) -> dict[str, TopicTotals]:
        """Return the totals of all topics. Later puts change these objects."""
        return dict(self._counted.topic_put_totals)

    @property
    def put_messages_total(self) -> int:
        return sum(totals.messages for totals in self._totals_by_topic())

    @property
    def put_bytes_total(self) -> int:
        return sum(totals.size_bytes for totals in self._totals_by_topic())

    def _totals_by_topic(self) -> tuple[TopicTotals, ...]:
        return tuple(self._counted.topic_put_totals.values())  # an atomic copy: a put may add a topic at any time

    def take_sample_if_due(self) -> None:
        with self._lock:
            if self._clock.monotonic_ns() // _NS_PER_MS - self._samples[-1].at_ms >= _SAMPLE_MS:
                self._samples.append(self._sample_totals())

    def _sample_totals(self) -> _StatsSample:
        now_ms, puts = self._clock.monotonic_ns() // _NS_PER_MS, self.put_messages_total
        return _StatsSample(now_ms, puts, self.gets_found, self.gets_missed, self.messages_transferred)

    def rates(self, seconds: int) -> StoreRates | None:
        """Return the rates over the last seconds; None if the samples cover less time."""
        with self._lock:
            last = self._samples[-1]
            due_ms = last.at_ms - seconds * 1_000
            first = next((each for each in reversed(self._samples) if each.at_ms <= due_ms), None)
        if first is None:
            return None
        span_ms, *counts = (end - begin for begin, end in zip(first, last, strict=True))
        assert span_ms >= seconds * 1_000, (span_ms, seconds)
        return StoreRates(*(count * 1_000 / span_ms for count in counts))

"""Housekeeping: every 10 s expires clients and locks, and checks the store.

`mqadmin clusterList -m` and exporters read daily totals. Days begin at local midnight; totals are 0 at process start.
The operator log reports the number of slow puts, and when the store starts and stops refusing messages.
Source: RocketMQ ClientHousekeepingService, BrokerStats, StoreStatsService.
"""

from collections.abc import Callable, Sequence

from ..log.segment_queue import used_ratio
from ..message_store import MessageStore
from ..running_flags import RefusalReason
from ..service import Service
from ..stats import LATENCY_BOUNDS_MS, SLOW_MS, StoreStats
from ..world import World
from .operator_log import Emit, failure_line, warning_line

_DAY_MS = 86_400_000
_NS_PER_MS = 1_000_000
_MINUTE_NS = 60_000 * _NS_PER_MS
INTERVAL_MS = 10_000  # RocketMQ ClientHousekeepingService.start


class DailyMessageTotals:
    """Message totals at the last two midnights since process start. Thread-safe."""

    def __init__(self, world: World, stats: StoreStats) -> None:
        self._clock = world.clock
        self._stats = stats
        self._lock = world.tasks.lock("daily totals")
        self._day = self._current_day()
        self._puts = self._gets = (0, 0)
        """(puts, gets) at the midnight before last, and at the last midnight."""

    def start_day_if_new(self) -> None:
        """Start the totals of a new day. Messages since the previous call count for the old day."""
        today = self._current_day()
        with self._lock:
            if today > self._day:  # with `!=`, a clock step back over midnight would start the same day twice
                self._day = today
                self._puts = puts = self._puts[1], self._stats.put_messages_total
                self._gets = gets = self._gets[1], self._stats.messages_transferred
                assert puts[0] <= puts[1], puts
                assert gets[0] <= gets[1], gets

    def runtime_info_fields(self) -> dict[str, str]:
        """Return totals of now and of the last two midnights, under RocketMQ's names."""
        self.start_day_if_new()
        puts, gets, stats = self._puts, self._gets, self._stats
        return {
            "msgPutTotalYesterdayMorning": str(puts[0]),
            "msgPutTotalTodayMorning": str(puts[1]),
            "msgPutTotalTodayNow": str(stats.put_messages_total),
            "msgGetTotalYesterdayMorning": str(gets[0]),
            "msgGetTotalTodayMorning": str(gets[1]),
            "msgGetTotalTodayNow": str(stats.messages_transferred),
        }

    def _current_day(self) -> int:
        return (self._clock.now_ms() + self._clock.utc_offset_ms()) // _DAY_MS


class PutLatency:
    """Put latency in ms in the last full minute: RocketMQ's putLatency99 and putLatency999.

    The value is interpolated within a range of LATENCY_BOUNDS_MS. RocketMQ has smaller ranges.
    """

    def __init__(self, world: World, stats: StoreStats) -> None:
        self._clock = world.clock
        self._stats = stats
        self._begun_ns = world.clock.monotonic_ns()
        self._at_begin = stats.put_latency_counts
        self._last = [0] * len(self._at_begin)

    def start_minute_if_over(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._begun_ns >= _MINUTE_NS:
            counts = self._stats.put_latency_counts
            # The count of fast puts is a difference of counters that change during the read, so it can be too low.
            self._last = [max(0, now - before) for now, before in zip(counts, self._at_begin, strict=True)]
            self._begun_ns, self._at_begin = now_ns, counts

    def percentile_ms(self, share: float) -> float:
        """Return the latency that this share of puts did not exceed, or 0.0 without puts."""
        assert 0 <= share <= 1, share
        left = int(sum(self._last) * share)
        below_ms = 0.0
        for count, bound_ms in zip(self._last, (*LATENCY_BOUNDS_MS, 2 * LATENCY_BOUNDS_MS[-1]), strict=True):
            if count >= left > 0:
                return below_ms + (bound_ms - below_ms) * left / count
            left -= count
            below_ms = float(bound_ms)
        return 0.0

    def runtime_info_fields(self) -> dict[str, str]:
        shares = {"putLatency99": 0.99, "putLatency999": 0.999}
        return {name: f"{self.percentile_ms(share):.2f}" for name, share in shares.items()}


class StoreProblemLog:
    """Reports a store's problems to the operator log. Thread-safe."""

    def __init__(self, world: World, store: MessageStore) -> None:
        self.emit: Emit = lambda line: None
        self._store = store
        self._files = world.files
        self._lock = world.tasks.lock("store watch")
        self._reported: dict[str, str] = {}
        """Current problem -> line to log at its end."""

    def log_changes(self) -> None:
        with self._lock:
            line = self._full_disk_text() if self._store.flags.bits & RefusalReason.DISK_FULL else None
            self._log_begin_or_end("disk full", line, "the disk has space again: messages are accepted")
            failure = self._store.allocate.failure
            line = None if failure is None else self._no_segment_line(*failure)
            self._log_begin_or_end("no segment", line, "the commit log has a new segment: messages are accepted")

    def report_slow_puts(self) -> None:
        """Log the number of slow puts. On a slow disk, a line per put would flood the log."""
        for slow, reason in (
            (self._store.stats.slow_puts, "took longer than"),
            (self._store.commit_log.long_holds, "held the log's lock for longer than"),
        ):
            count, longest_ms = slow.take_counts()
            if count:
                self.emit(warning_line(f"slow puts: {count} {reason} {SLOW_MS} ms, the longest {longest_ms:,} ms"))

    def _log_begin_or_end(self, problem: str, line: str | None, end_line: str) -> None:
        if line is not None and problem not in self._reported:
            self._reported[problem] = end_line
            self.emit(failure_line(line))
        elif line is None and problem in self._reported:
            self.emit(self._reported.pop(problem))

    def _full_disk_text(self) -> str:
        config = self._store.config
        paths = (*config.commit_log_directories, config.consume_queue_directory)
        shares = ", ".join(f"{path} {self._used_ratio_text(path)}" for path in paths)
        return (
            f"the disk is full ({shares} used): messages are refused until at most"
            f" {config.disk_space_clean_forcibly_ratio:.0%} is used (diskSpaceCleanForciblyRatio)"
        )

    def _used_ratio_text(self, path: str) -> str:
        try:
            return f"{used_ratio(self._files.space(path)):.0%}"
        except OSError as error:
            return f"unknown ({error.strerror})"

    def _no_segment_line(self, path: str, size_bytes: int, error: OSError) -> str:
        return (
            f"{path}: a segment of {size_bytes:,} bytes cannot be created: {error.strerror}: messages are refused until"
            " a segment can be created; if the volume is too small for one, reduce mapedFileSizeCommitLog"
        )


class ClientHousekeepingService(Service):
    """Runs its tasks every INTERVAL_MS."""

    name = "client housekeeping"

    def __init__(self, world: World, chores: Sequence[Callable[[], None]]) -> None:
        super().__init__(world)
        self._chores = chores

    def run_once(self) -> None:
        self.signal.wait(INTERVAL_MS)
        if not self.is_stopping:
            for chore in self._chores:
                chore()

"""Housekeeping: every 10 s drops silent clients and expired locks, counts the day's messages, and watches the store.

Daily totals are what `mqadmin clusterList -m` and exporters read, by local time. Counts begin with the process. The
first day has been counted from 0. The operator log says why a store takes no messages: once when that begins, and once
when it is over.
Source: RocketMQ ClientHousekeepingService, BrokerStats.
"""

from collections.abc import Callable

from ..message_store import MessageStore
from ..retention.disk_usage import used_ratio
from ..running_flags import Refusal
from ..service import Service
from ..stats import StoreStats
from ..world import World
from .clients import ConsumerManager, ProducerManager
from .rebalance_locks import RebalanceLockManager

_DAY_MS = 86_400_000

INTERVAL_MS = 10_000


class DailyTotals:
    """Totals at the last two midnights that the broker has lived to see. Any task may call it."""

    def __init__(self, world: World, stats: StoreStats) -> None:
        self._clock = world.clock
        self._stats = stats
        self._lock = world.tasks.lock("daily totals")
        self._day = self._today()
        self._puts = self._gets = (0, 0)
        """At midnight a day ago, and at the last one."""

    def note(self) -> None:
        """See whether a new day has begun. What came since the last look counts as yesterday's."""
        today = self._today()
        with self._lock:
            if today > self._day:
                self._day = today
                self._puts = self._puts[1], self._stats.put_messages_total
                self._gets = self._gets[1], self._stats.messages_transferred

    def fields(self) -> dict[str, str]:
        """Return totals at yesterday's and today's beginning and now, under RocketMQ's names."""
        self.note()
        puts, gets, stats = self._puts, self._gets, self._stats
        return {
            "msgPutTotalYesterdayMorning": str(puts[0]),
            "msgPutTotalTodayMorning": str(puts[1]),
            "msgPutTotalTodayNow": str(stats.put_messages_total),
            "msgGetTotalYesterdayMorning": str(gets[0]),
            "msgGetTotalTodayMorning": str(gets[1]),
            "msgGetTotalTodayNow": str(stats.messages_transferred),
        }

    def _today(self) -> int:
        return (self._clock.now_ms() + self._clock.utc_offset_ms()) // _DAY_MS


def _say_nothing(_: str) -> None:
    """Leave it untold."""


class StoreWatch:
    """Looks at one store. Any task may have it look."""

    def __init__(self, world: World, store: MessageStore) -> None:
        self.tell: Callable[[str], None] = _say_nothing
        self._store = store
        self._files = world.files
        self._lock = world.tasks.lock("store watch")
        self._told: dict[str, str] = {}
        """What is the matter, and what is to be said when it no longer is."""

    def look(self) -> None:
        """Tell what is new."""
        with self._lock:
            self._note(
                "disk full",
                self._full_disk() if self._store.flags.bits & Refusal.DISK_FULL else None,
                "the disk has room again: messages are taken",
            )
            failure = self._store.allocate.failure
            self._note(
                "no segment",
                None if failure is None else self._no_segment(*failure),
                "the commit log has a new segment: messages are taken",
            )

    def _note(self, matter: str, line: str | None, over: str) -> None:
        if line is not None and matter not in self._told:
            self._told[matter] = over
            self.tell(line)
        elif line is None and matter in self._told:
            self.tell(self._told.pop(matter))

    def _full_disk(self) -> str:
        config = self._store.config
        shares = [
            f"{path} {self._share(path)}"
            for path in (*config.commit_log_directories, config.consume_queue_directory)
        ]
        return (
            f"the disk is full ({', '.join(shares)} used): messages are refused until no more than"
            f" {config.disk_space_clean_forcibly_ratio:.0%} is (diskSpaceCleanForciblyRatio)"
        )

    def _share(self, path: str) -> str:
        try:
            return f"{used_ratio(self._files.space(path)):.0%}"
        except OSError as error:
            return f"unknown ({error.strerror})"

    def _no_segment(self, path: str, size_bytes: int, error: OSError) -> str:
        return (
            f"{path}: a segment of {size_bytes:,} bytes cannot be made: {error.strerror}: messages are refused until"
            " one can be; a volume too small for one needs a smaller mapedFileSizeCommitLog"
        )


class ClientHousekeepingService(Service):
    """One task."""

    name = "client housekeeping"

    def __init__(
        self,
        world: World,
        consumers: ConsumerManager,
        producers: ProducerManager,
        locks: RebalanceLockManager,
        daily: DailyTotals,
        watch: StoreWatch,
    ) -> None:
        super().__init__(world)
        self._daily = daily
        self._watch = watch
        self._consumers = consumers
        self._producers = producers
        self._locks = locks

    def step(self) -> None:
        """Wait, then look."""
        self.signal.wait(INTERVAL_MS)
        if not self.is_stopping:
            self._consumers.close_expired()
            self._producers.close_expired()
            self._locks.forget_expired()
            self._daily.note()
            self._watch.look()

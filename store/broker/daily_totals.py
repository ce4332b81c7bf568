"""How many messages came and went yesterday and today, by local time: what `mqadmin clusterList -m` and exporters read.

Counts begin with the process. The first day has been counted from 0.
Source: RocketMQ BrokerStats.
"""

from ..stats import StoreStats
from ..world import World

_DAY_MS = 86_400_000


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

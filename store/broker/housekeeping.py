"""Looks every 10 s for clients that have fallen silent, for locks that nobody asks for any more, and at the store.

Source: RocketMQ ClientHousekeepingService.
"""

from ..service import Service
from ..world import World
from .consumers import ConsumerManager
from .daily_totals import DailyTotals
from .producers import ProducerManager
from .rebalance_locks import RebalanceLockManager
from .store_watch import StoreWatch

INTERVAL_MS = 10_000


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

"""Which consumers filter by an SQL expression: RocketMQ's ConsumerFilterManager and ConsumerFilterData.

While a consumer is registered, `CalcBitMap` evaluates its expression on each message of the topic as it is dispatched,
and marks the message with the consumer's bits. A message without the marks was then not wanted, if it was dispatched
after the registration; of older ones the marks say nothing.
Source: RocketMQ ConsumerFilterManager, ConsumerFilterData.isMsgInLive.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..world import Tasks
from .bloom_filter import BloomFilter
from .sql_filter import SqlExpression

_NEVER_MS = (1 << 63) - 1
FORGOTTEN_AFTER_MS = 24 * 3600 * 1000
"""How long after it was unregistered a consumer is still taken account of, should it come back."""


@dataclass(slots=True, eq=False)
class ConsumerFilterData:
    """One group's expression for one topic."""

    topic: str
    group: str
    expression: SqlExpression
    client_version: int
    positions: tuple[int, ...]
    """Of its bits in a message's bit map."""
    map_bytes: int
    """Length of the bit maps its bits belong to."""
    born_timestamp_ms: int = _NEVER_MS
    """Store time after which every message was dispatched with this expression known."""
    dead_timestamp_ms: int | None = None
    """Since when it is unregistered."""


class ConsumerFilterManager:
    """All registered expressions. Any task may register; readers take no lock."""

    def __init__(
        self, tasks: Tasks, now_ms: Callable[[], int], bloom_filter: BloomFilter | None = None
    ) -> None:
        """now_ms tells a time that no message dispatched so far was stored after."""
        self.bloom_filter = bloom_filter or BloomFilter.of()
        self._now_ms = now_ms
        self._lock = tasks.lock("consumer filters")
        self._by_topic: dict[str, tuple[ConsumerFilterData, ...]] = {}

    def register(
        self, topic: str, group: str, expression: str, client_version: int = 0
    ) -> ConsumerFilterData:
        """Register a group's expression for a topic; return what counts from now on.

        An expression from an older client than the one known changes nothing. Raises FilterExpressionError.
        """
        parsed = SqlExpression.parse(expression)
        with self._lock:
            self._forget_the_dead()
            known = self.find(topic, group)
            if known is not None and self._goes_on(known, parsed, client_version):
                return known
            bloom_filter = self.bloom_filter
            made = ConsumerFilterData(
                topic,
                group,
                parsed,
                client_version,
                bloom_filter.positions(f"{group}#{topic}"),
                bloom_filter.map_bytes,
            )
            if known is not None:
                known.born_timestamp_ms = _NEVER_MS  # its bits are the new one's from here on
            others = (each for each in self.of_topic(topic) if each is not known)
            self._by_topic[topic] = (*others, made)
            made.born_timestamp_ms = self._now_ms()  # not before dispatch can see it
        return made

    def _goes_on(self, known: ConsumerFilterData, expression: SqlExpression, client_version: int) -> bool:
        """Return whether what is known stays in force."""
        if client_version < known.client_version:
            return True
        if client_version == known.client_version or expression == known.expression:
            known.client_version = client_version
            known.dead_timestamp_ms = None
            return True
        return False

    def unregister(self, group: str) -> None:
        """Note that a group is gone. Its bits are still set for a while: it may be back soon."""
        with self._lock:
            now_ms = self._now_ms()
            for topic in sorted(self._by_topic):
                known = self.find(topic, group)
                if known is not None and known.dead_timestamp_ms is None:
                    known.dead_timestamp_ms = now_ms

    def _forget_the_dead(self) -> None:
        forgotten_ms = self._now_ms() - FORGOTTEN_AFTER_MS
        for topic, known in sorted(self._by_topic.items()):
            kept = tuple(
                each
                for each in known
                if each.dead_timestamp_ms is None or each.dead_timestamp_ms > forgotten_ms
            )
            if kept != known:
                self._by_topic[topic] = kept

    def of_topic(self, topic: str) -> tuple[ConsumerFilterData, ...]:
        """Return what is registered for a topic."""
        return self._by_topic.get(topic, ())

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        """Return what a group has registered for a topic, None if nothing."""
        return next((each for each in self.of_topic(topic) if each.group == group), None)

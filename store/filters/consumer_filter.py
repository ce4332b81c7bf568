"""SQL filters of consumers: which groups filter by an expression, their bit maps, and pulls that use both.

consumers = use_bit_maps(store)  # before it is started
data = consumers.register("Orders", "group", "amount > 5")
store.get_message("Orders", 0, 0, wanted=SqlMessageFilter.of_consumer(data))

While a consumer is registered, `CalcBitMap` evaluates its expression on each message of the topic as it is dispatched,
and marks the message with the consumer's bits. A message without the marks was then not wanted, if it was dispatched
after the registration; of older ones the marks say nothing. A pull asks the bit map first, then the properties.
Source: RocketMQ ConsumerFilterManager, ConsumerFilterData.isMsgInLive, CommitLogDispatcherCalcBitMap,
ExpressionMessageFilter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import CorruptFileError
from ..formats.consume_queue import ExtUnit
from ..formats.message import check_record
from ..formats.properties import decode_properties
from ..formats.scan import ScannedRecord
from ..message_store import MessageStore
from ..queues.dispatch import ExtendedQueueDispatcher
from ..world import Tasks
from .bloom_filter import BloomFilter, has_bits, set_bits
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
        """now_ms returns a time that no message dispatched so far was stored after."""
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
            bits = (bloom_filter.positions(f"{group}#{topic}"), bloom_filter.map_bytes)
            made = ConsumerFilterData(topic, group, parsed, client_version, *bits)
            if known is not None:
                known.born_timestamp_ms = _NEVER_MS  # its bits are the new one's from here on
            others = (each for each in self.of_topic(topic) if each is not known)
            self._by_topic[topic] = (*others, made)
            made.born_timestamp_ms = self._now_ms()  # not before dispatch can see it
        return made

    def _goes_on(self, known: ConsumerFilterData, expression: SqlExpression, client_version: int) -> bool:
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
            ends_ms = ((each, each.dead_timestamp_ms) for each in known)
            kept = tuple(each for each, end_ms in ends_ms if end_ms is None or end_ms > forgotten_ms)
            if kept != known:
                self._by_topic[topic] = kept

    def of_topic(self, topic: str) -> tuple[ConsumerFilterData, ...]:
        """Return what is registered for a topic."""
        return self._by_topic.get(topic, ())

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        """Return what a group has registered for a topic, None if nothing."""
        return next((each for each in self.of_topic(topic) if each.group == group), None)


class SqlMessageFilter:
    """One consumer's expression; with what it has registered, messages that it does not want are passed over unread."""

    def __init__(self, expression: SqlExpression, consumer: ConsumerFilterData | None = None) -> None:
        assert consumer is None or consumer.expression == expression, "bit maps speak of the registered one"
        self._expression = expression
        self._consumer = consumer

    @classmethod
    def of_consumer(cls, consumer: ConsumerFilterData) -> "SqlMessageFilter":
        """Return the filter of a registered consumer."""
        return cls(consumer.expression, consumer)

    @classmethod
    def parse(cls, expression: str) -> "SqlMessageFilter":
        """Return the filter of an expression that nobody has registered. Raises FilterExpressionError."""
        return cls(SqlExpression.parse(expression))

    @property
    def reads_records(self) -> bool:
        """Return True: bit maps can only rule out."""
        return True

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None) -> bool:
        """Return False only if the message was dispatched with the expression known and did not match it."""
        consumer = self._consumer
        if consumer is None or unit is None:
            return True
        if unit.store_timestamp_ms <= consumer.born_timestamp_ms or len(unit.bit_map) != consumer.map_bytes:
            return True
        return has_bits(unit.bit_map, consumer.positions)

    def matches_record(self, raw: bytes) -> bool:
        """Return whether the expression is true of the record's properties; one that cannot be read has none."""
        try:
            bounds = check_record(raw, 0, len(raw), file="commitlog", file_offset=0, check_crc=False)
        except CorruptFileError:
            return self._expression.matches({})
        text = raw[bounds.properties_at : bounds.end].decode(errors="replace")
        return self._expression.matches(decode_properties(text))

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether the expression is true of these properties."""
        return self._expression.matches(properties)


def use_bit_maps(store: MessageStore) -> ConsumerFilterManager:
    """Have a store mark every message with the SQL consumers that want it; return where these register.

    Call it once, before the store is started. Its queues need their extension (`enable_consume_queue_ext`). In RocketMQ
    the broker does this if its enableCalcFilterBitMap says so.
    """
    assert store.extended is not None, "enable_consume_queue_ext"

    def newest_ms() -> int:
        """Return a time that no message dispatched so far is later than: the clock may have stepped back since."""
        stored_ms = store.commit_log.last_store_timestamp_ms
        return max(store.world.clock.now_ms(), stored_ms, store.dispatch.dispatched_store_timestamp_ms)

    consumers = ConsumerFilterManager(store.world.tasks, newest_ms)
    store.dispatch.dispatchers.insert(0, CalcBitMap(consumers, store.extended).dispatch)
    return consumers


class CalcBitMap:
    """A dispatcher that comes before the one for extended queues, and hands it each record's bit map."""

    def __init__(self, consumers: ConsumerFilterManager, queues: ExtendedQueueDispatcher) -> None:
        self._consumers = consumers
        self._queues = queues

    def dispatch(self, record: ScannedRecord) -> None:
        """Calculate one record's bit map; it is empty where no consumer of the topic filters."""
        self._queues.bit_map = self.bit_map_of(record)

    def bit_map_of(self, record: ScannedRecord) -> bytes:
        """Return the bits of every consumer of the topic whose expression is true of the record."""
        consumers = self._consumers.of_topic(record.topic)
        if not consumers:
            return b""
        properties = decode_properties(record.properties.decode(errors="replace"))
        bit_map = bytearray(self._consumers.bloom_filter.map_bytes)
        for consumer in consumers:
            if consumer.expression.matches(properties):
                set_bits(bit_map, consumer.positions)
        return bytes(bit_map)

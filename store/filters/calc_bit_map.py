"""Marks each message with the consumers that want it, before its queue entry is made.

consumers = use_bit_maps(store)  # before it is started
data = consumers.register("Orders", "group", "amount > 5")
store.get_message("Orders", 0, 0, wanted=SqlMessageFilter.of_consumer(data))

Source: RocketMQ CommitLogDispatcherCalcBitMap.
"""

from ..formats.properties import decode_properties
from ..formats.scan import ScannedRecord
from ..message_store import MessageStore
from ..queues.dispatch_extended import ExtendedQueueDispatcher
from .bloom_filter import set_bits
from .consumer_filter import ConsumerFilterManager


def use_bit_maps(store: MessageStore) -> ConsumerFilterManager:
    """Have a store mark every message with the SQL consumers that want it; return where these register.

    Call it once, before the store is started. Its queues need their extension (`enable_consume_queue_ext`). In RocketMQ
    the broker does this if its enableCalcFilterBitMap says so.
    """
    assert store.extended is not None, "enable_consume_queue_ext"

    def newest_ms() -> int:
        """Return a time that no message dispatched so far is later than: the clock may have stepped back since."""
        return max(
            store.world.clock.now_ms(),
            store.commit_log.last_store_timestamp_ms,
            store.dispatch.dispatched_store_timestamp_ms,
        )

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

"""SQL filters of consumers: registered expressions and their Bloom filter bit maps.

    consumers = use_bit_maps(store)  # before the store starts
    data = consumers.register("Orders", "group", "amount > 5")
    store.get_message("Orders", 0, 0, wanted=SqlMessageFilter.of_consumer(data))

While a consumer is registered, dispatch evaluates its expression for each message of the topic. If the message matches,
dispatch sets the consumer's bits in the bit map of the message. A pull checks the bit map before it reads the
properties of a message. It ignores bit maps that are older than the registration.

The bit map is a Bloom filter: the text `group#topic` determines a few bits per consumer, as in RocketMQ. Bit n is bit n
mod 8 (0 is the lowest) of byte n div 8. The hash is the first half of 128-bit MurmurHash3 for 64-bit machines: seed 0,
blocks of 16 bytes, little-endian.
Source: RocketMQ ConsumerFilterManager, ConsumerFilterData.isMsgInLive, CommitLogDispatcherCalcBitMap,
ExpressionMessageFilter; BloomFilter.createByFn, calcBitPositions and isHit; BitsArray; ConsumerFilterManager.register.
Austin Appleby, MurmurHash3_x64_128; Guava Hashing.murmur3_128().hashString(text, UTF_8).asLong().
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, e, log
from struct import Struct

from ..errors import CorruptFileError
from ..filters.sql_filter import SqlExpression
from ..formats.consume_queue import ExtUnit
from ..formats.message import check_record
from ..formats.properties import decode_properties
from ..formats.scan import ScannedRecord
from ..message_store import MessageStore
from ..world import Tasks

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_C1 = 0x87C3_7B91_1142_53D5
_C2 = 0x4CF5_AD43_2745_937F
_BLOCK = Struct("<QQ")

ERROR_PERCENT = 20
"""RocketMQ's maxErrorRateOfBloomFilter."""
EXPECTED_CONSUMERS = 32
"""RocketMQ's expectConsumerNumUseFilter."""


def murmur3_64(data: bytes) -> int:
    """Return the first 64 bits of the 128-bit MurmurHash3 as an unsigned number.

    >>> hex(murmur3_64(b"hello"))
    '0xcbd8a7b341bd9b02'
    """
    h1 = h2 = 0
    whole = len(data) // _BLOCK.size * _BLOCK.size
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):
        h1 ^= _murmur_mix_k1(k1)
        h1 = ((_rotate_left(h1, 27) + h2) * 5 + 0x52DC_E729) & _MASK
        h2 ^= _murmur_mix_k2(k2)
        h2 = ((_rotate_left(h2, 31) + h1) * 5 + 0x3849_5AB5) & _MASK
    k1, k2 = _BLOCK.unpack(data[whole:].ljust(_BLOCK.size, b"\0"))
    h1 ^= _murmur_mix_k1(k1) ^ len(data)
    h2 ^= _murmur_mix_k2(k2) ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_murmur_final_mix(h1) + _murmur_final_mix(h2)) & _MASK


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _murmur_mix_k1(k1: int) -> int:
    return _rotate_left(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _murmur_mix_k2(k2: int) -> int:
    return _rotate_left(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _murmur_final_mix(value: int) -> int:
    for factor in (0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53):
        value = (value ^ value >> 33) * factor & _MASK
    return value ^ value >> 33


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """Parameters of a Bloom filter: the length of a bit map, and the number of bits per text."""

    bits: int
    """A multiple of 8."""
    hashes: int

    @classmethod
    def for_error_rate(cls, error_percent: int = ERROR_PERCENT, expected: int = EXPECTED_CONSUMERS) -> "BloomFilter":
        """Return the filter with the given error rate for the expected number of texts.

        >>> BloomFilter.for_error_rate()
        BloomFilter(bits=112, hashes=3)
        """
        assert 1 <= error_percent < 100, error_percent
        assert expected >= 1, expected
        error = error_percent / 100
        # RocketMQ divides natural logarithms; log2 could round differently.
        bits = ceil(expected * (log(1 / error) / log(2)) * (log(e) / log(2)))
        hashes = ceil(log(error) / log(0.5))
        assert bits > 0, (error_percent, expected)
        assert hashes > 0, error_percent
        return cls(-(-bits // 8) * 8, hashes)

    @property
    def map_bytes(self) -> int:
        return self.bits // 8

    def bit_positions(self, text: str) -> tuple[int, ...]:
        assert self.bits > 0, self.bits
        hashed, numbers = murmur3_64(text.encode()), range(1, self.hashes + 1)
        first, second = hashed & 0xFFFF_FFFF, hashed >> 32
        return tuple(_non_negative_int(first + number * second) % self.bits for number in numbers)


def set_bits(bit_map: bytearray, positions: tuple[int, ...]) -> None:
    assert max(positions) < 8 * len(bit_map), (positions, len(bit_map))
    for position in positions:
        bit_map[position // 8] |= 1 << position % 8


def has_bits(bit_map: bytes, positions: tuple[int, ...]) -> bool:
    """Return whether all bits are set. False positives are possible."""
    return all(bit_map[position // 8] >> position % 8 & 1 for position in positions)


def _non_negative_int(value: int) -> int:
    """Invert the low 32 bits if they are a negative Java int."""
    value &= 0xFFFF_FFFF
    return value ^ 0xFFFF_FFFF if value & 0x8000_0000 else value


_NEVER_MS = (1 << 63) - 1
FORGOTTEN_AFTER_MS = 24 * 3600 * 1000
"""Dispatch sets the bits of a consumer for this long after it unregisters, because the consumer may return."""


@dataclass(slots=True, eq=False)
class ConsumerFilterData:
    """The expression of one group for one topic."""

    topic: str
    group: str
    expression: SqlExpression
    client_version: int
    positions: tuple[int, ...]
    map_bytes: int
    born_timestamp_ms: int = _NEVER_MS
    """Dispatch evaluates the expression for all messages stored after this time."""
    dead_timestamp_ms: int | None = None
    """None while the consumer group is registered."""


class ConsumerFilterManager:
    """All registered expressions. Thread-safe; reads need no lock."""

    def __init__(self, tasks: Tasks, now_ms: Callable[[], int]) -> None:
        """`now_ms` must not return a time before the store time of a dispatched message."""
        self.bloom_filter = BloomFilter.for_error_rate()
        self._now_ms = now_ms
        self._lock = tasks.lock("consumer filters")
        self._by_topic: dict[str, tuple[ConsumerFilterData, ...]] = {}

    def register(self, topic: str, group: str, expression: str, client_version: int = 0) -> ConsumerFilterData:
        """Register a group's expression for a topic. Return the valid registration.

        A call with an older client version has no effect. Raises FilterExpressionError.
        """
        parsed = SqlExpression.parse(expression)
        with self._lock:
            self._drop_expired_registrations()
            known = self.find(topic, group)
            if known is not None and self._keeps_registration(known, parsed, client_version):
                return known
            bits = (self.bloom_filter.bit_positions(f"{group}#{topic}"), self.bloom_filter.map_bytes)
            new = ConsumerFilterData(topic, group, parsed, client_version, *bits)
            if known is not None:
                known.born_timestamp_ms = _NEVER_MS  # existing bits belong to the old expression
            others = (each for each in self.filters_of_topic(topic) if each is not known)
            self._by_topic[topic] = (*others, new)
            new.born_timestamp_ms = self._now_ms()  # last, because dispatch evaluates only registered expressions
        return new

    def _keeps_registration(self, known: ConsumerFilterData, expression: SqlExpression, client_version: int) -> bool:
        if client_version < known.client_version:
            return True
        if client_version == known.client_version or expression == known.expression:
            known.client_version = client_version
            known.dead_timestamp_ms = None
            return True
        return False

    def unregister(self, group: str) -> None:
        """Dispatch still sets the group's bits for FORGOTTEN_AFTER_MS."""
        with self._lock:
            now_ms = self._now_ms()
            for topic in sorted(self._by_topic):
                known = self.find(topic, group)
                if known is not None and known.dead_timestamp_ms is None:
                    known.dead_timestamp_ms = now_ms

    def _drop_expired_registrations(self) -> None:
        forgotten_ms = self._now_ms() - FORGOTTEN_AFTER_MS
        for topic, known in sorted(self._by_topic.items()):
            ends_ms = ((each, each.dead_timestamp_ms) for each in known)
            kept = tuple(each for each, end_ms in ends_ms if end_ms is None or end_ms > forgotten_ms)
            if kept != known:
                self._by_topic[topic] = kept

    def filters_of_topic(self, topic: str) -> tuple[ConsumerFilterData, ...]:
        return self._by_topic.get(topic, ())

    def bit_map_of(self, record: ScannedRecord) -> bytes:
        """Return the bits of all consumers with a matching expression. Empty if the topic has no consumers."""
        consumers = self.filters_of_topic(record.topic)
        if not consumers:
            return b""
        properties = decode_properties(record.properties.decode(errors="replace"))
        bit_map = bytearray(self.bloom_filter.map_bytes)
        for consumer in consumers:
            if consumer.expression.matches(properties):
                set_bits(bit_map, consumer.positions)
        return bytes(bit_map)

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        return next((each for each in self.filters_of_topic(topic) if each.group == group), None)


class SqlMessageFilter:
    """Filter of pulls by one consumer's expression."""

    def __init__(self, expression: SqlExpression, consumer: ConsumerFilterData | None = None) -> None:
        assert consumer is None or consumer.expression == expression, "the bit maps belong to the registered expression"
        self._expression = expression
        self._consumer = consumer

    @classmethod
    def of_consumer(cls, consumer: ConsumerFilterData) -> "SqlMessageFilter":
        return cls(consumer.expression, consumer)

    @classmethod
    def parse(cls, expression: str) -> "SqlMessageFilter":
        """Parse an unregistered expression. Raises FilterExpressionError."""
        return cls(SqlExpression.parse(expression))

    @property
    def reads_records(self) -> bool:
        """Always true: a bit map can exclude a record but not prove a match."""
        return True

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None) -> bool:
        """Return False only if dispatch has found that the expression does not match the message."""
        consumer = self._consumer
        if consumer is None or unit is None:
            return True
        # Ignore a bit map that is older than the registration, or has another length because of other settings.
        if unit.store_timestamp_ms <= consumer.born_timestamp_ms or len(unit.bit_map) != consumer.map_bytes:
            return True
        return has_bits(unit.bit_map, consumer.positions)

    def matches_record(self, raw: bytes) -> bool:
        """A corrupt record counts as a record without properties."""
        try:
            bounds = check_record(raw, 0, len(raw), file="commitlog", file_offset=0, check_crc=False)
        except CorruptFileError:
            return self._expression.matches({})
        text = raw[bounds.properties_at : bounds.end].decode(errors="replace")
        return self._expression.matches(decode_properties(text))

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        return self._expression.matches(properties)


def use_bit_maps(store: MessageStore) -> ConsumerFilterManager:
    """Enable bit maps of SQL consumers in a store. Return the registry of these consumers.

    Call this function once, before the store starts. The store needs queue extensions (`enable_consume_queue_ext`).
    RocketMQ's setting is enableCalcFilterBitMap.
    """
    assert store.extended is not None, "enable_consume_queue_ext"

    def newest_ms() -> int:
        """Return the current time, or the latest store time of a dispatched message if the clock has stepped back."""
        stored_ms = store.commit_log.last_store_timestamp_ms
        return max(store.world.clock.now_ms(), stored_ms, store.dispatch.dispatched_store_timestamp_ms)

    consumers = ConsumerFilterManager(store.world.tasks, newest_ms)
    store.extended.bit_map_of = consumers.bit_map_of
    return consumers

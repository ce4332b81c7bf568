"""The bloom filter behind bit maps: a few bits for each consumer of a topic, the same in every broker.

A consumer's bits are those of the text `group#topic`. Bit n is bit n mod 8, from the lowest, of byte n div 8.
Source: RocketMQ BloomFilter.createByFn, calcBitPositions and isHit; BitsArray; ConsumerFilterManager.register.
"""

from dataclasses import dataclass
from math import ceil, e, log

from .murmur3 import murmur3_64

ERROR_PERCENT = 20
"""RocketMQ's maxErrorRateOfBloomFilter."""
EXPECTED_CONSUMERS = 32
"""RocketMQ's expectConsumerNumUseFilter."""


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """How many bits a map has, and how many of them each text sets."""

    bits: int
    """A multiple of 8."""
    hashes: int

    @classmethod
    def of(cls, error_percent: int = ERROR_PERCENT, expected: int = EXPECTED_CONSUMERS) -> "BloomFilter":
        """Return the filter that mistakes a text for another in so many of 100 cases, when so many are set.

        >>> BloomFilter.of()
        BloomFilter(bits=112, hashes=3)
        """
        assert 1 <= error_percent < 100, error_percent
        assert expected >= 1, expected
        error = error_percent / 100
        bits = ceil(expected * _log(2, 1 / error) * _log(2, e))
        return cls(-(-bits // 8) * 8, ceil(_log(0.5, error)))

    @property
    def map_bytes(self) -> int:
        """Return how long a map is."""
        return self.bits // 8

    def positions(self, text: str) -> tuple[int, ...]:
        """Return the numbers of a text's bits."""
        hashed = murmur3_64(text.encode())
        first, second = hashed & 0xFFFF_FFFF, hashed >> 32
        return tuple(
            _not_negative(first + number * second) % self.bits for number in range(1, self.hashes + 1)
        )


def set_bits(bit_map: bytearray, positions: tuple[int, ...]) -> None:
    """Set bits of a map."""
    for position in positions:
        bit_map[position // 8] |= 1 << position % 8


def has_bits(bit_map: bytes, positions: tuple[int, ...]) -> bool:
    """Return whether all of these bits are set: always if they were, now and then if they were not."""
    return all(bit_map[position // 8] >> position % 8 & 1 for position in positions)


def _not_negative(value: int) -> int:
    """Return the low 32 bits as Java's int, its bits flipped if that is negative."""
    value &= 0xFFFF_FFFF
    return value ^ 0xFFFF_FFFF if value & 0x8000_0000 else value


def _log(base: float, value: float) -> float:
    return log(value) / log(base)

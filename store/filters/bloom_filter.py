"""Bloom filter behind bit maps: a few bits for each consumer of a topic, the same in every broker.

A consumer's bits are those of the text `group#topic`. Bit n is bit n mod 8, from the lowest, of byte n div 8. The hash
is the first half of MurmurHash3 of 128 bits in its form for 64-bit machines: seed 0, blocks of 16 bytes, little-endian.
Source: RocketMQ BloomFilter.createByFn, calcBitPositions and isHit; BitsArray; ConsumerFilterManager.register.
Austin Appleby, MurmurHash3_x64_128; Guava Hashing.murmur3_128().hashString(text, UTF_8).asLong().
"""

from dataclasses import dataclass
from math import ceil, e, log
from struct import Struct

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_C1 = 0x87C3_7B91_1142_53D5
_C2 = 0x4CF5_AD43_2745_937F
_BLOCK = Struct("<QQ")

ERROR_PERCENT = 20
"""RocketMQ's maxErrorRateOfBloomFilter."""
EXPECTED_CONSUMERS = 32
"""RocketMQ's expectConsumerNumUseFilter."""


def murmur3_64(data: bytes) -> int:
    """Return the first 64 bits of the hash of data, as an unsigned number.

    >>> hex(murmur3_64(b"hello"))
    '0xcbd8a7b341bd9b02'
    """
    h1 = h2 = 0
    whole = len(data) // _BLOCK.size * _BLOCK.size
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):
        h1 ^= _mix_first(k1)
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DC_E729) & _MASK
        h2 ^= _mix_second(k2)
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x3849_5AB5) & _MASK
    k1, k2 = _BLOCK.unpack(data[whole:].ljust(_BLOCK.size, b"\0"))
    h1 ^= _mix_first(k1) ^ len(data)
    h2 ^= _mix_second(k2) ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return (_finished(h1) + _finished(h2)) & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix_first(k1: int) -> int:
    return _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(k2: int) -> int:
    return _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _finished(value: int) -> int:
    for factor in (0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53):
        value = (value ^ value >> 33) * factor & _MASK
    return value ^ value >> 33


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
        # quotients of natural logarithms, as RocketMQ has them: log2 could round otherwise
        bits = ceil(expected * (log(1 / error) / log(2)) * (log(e) / log(2)))
        return cls(-(-bits // 8) * 8, ceil(log(error) / log(0.5)))

    @property
    def map_bytes(self) -> int:
        """Return how long a map is."""
        return self.bits // 8

    def positions(self, text: str) -> tuple[int, ...]:
        """Return the numbers of a text's bits."""
        hashed, numbers = murmur3_64(text.encode()), range(1, self.hashes + 1)
        first, second = hashed & 0xFFFF_FFFF, hashed >> 32
        return tuple(_not_negative(first + number * second) % self.bits for number in numbers)


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

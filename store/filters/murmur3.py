"""MurmurHash3 of 128 bits in its form for 64-bit machines, of which RocketMQ uses the first half.

Seed 0, blocks of 16 bytes, little-endian.
Source: Austin Appleby, MurmurHash3_x64_128; Guava Hashing.murmur3_128().hashString(text, UTF_8).asLong().
"""

from struct import Struct

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_C1 = 0x87C3_7B91_1142_53D5
_C2 = 0x4CF5_AD43_2745_937F
_BLOCK = Struct("<QQ")


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

"""Consume queue extension: what a queue entry has no room for, in files of units beside the queue. Big-endian.

    offset  bytes  field
    0       2      size            i16  the whole unit, this field included: 20 + B
    2       8      tagsCode        i64  what the entry itself would hold: see consume_queue
    10      8      storeTimestamp  i64  ms, of the record
    18      2      bitMapLength B  i16
    20      B      bitMap               bloom filter bits of the consumers whose SQL expression is true of the record

    end of a file: size -1, where no further unit fits; 4 bytes or more are always left for it

An entry points here by an address in its tagsCode: the unit's offset in the row of files less 2^63. Codes of tags are
hashes of 32 bits, so that nothing at or below -2147483649 can be one. No checksum: believe a unit only if its tagsCode
and storeTimestamp are the record's.
Source: RocketMQ ConsumeQueueExt.java, CqExtUnit, END_BLANK_DATA_LENGTH, MAX_ADDR, decorate.
"""

from struct import Struct
from typing import NamedTuple

from ..errors import CorruptFileError

UNIT_BYTES_MIN = 20
UNIT_BYTES_MAX = 32767
END_BYTES = 4
"""How much of a file is left free for the end mark."""
END_MARK = b"\xff\xff"
NO_ADDRESS = 1
"""What RocketMQ answers instead of an address where a unit cannot be kept."""
ADDRESS_MAX = -0x8000_0001
ADDRESS_TOP = 0x80
"""The first byte of every address of an offset below 2^56, which no row of files reaches; no hash begins with it."""
OFFSET_MAX = (1 << 56) - 1
"""RocketMQ's is 2^63 - 2^31 - 1."""

_HEAD = Struct(">hqqh")
_SIZE = Struct(">h")
assert _HEAD.size == UNIT_BYTES_MIN


class ExtUnit(NamedTuple):
    """What is known of a record beyond its queue entry."""

    tags_code: int
    store_timestamp_ms: int
    bit_map: bytes


def is_ext_address(tags_code: int) -> bool:
    """Return whether an entry's tagsCode is an address in the extension."""
    return tags_code <= ADDRESS_MAX


def address_of(offset: int) -> int:
    """Return the address of the unit that begins at offset.

    >>> address_of(0)
    -9223372036854775808
    """
    assert 0 <= offset <= OFFSET_MAX, offset
    return offset - (1 << 63)


def offset_of(address: int) -> int:
    """Return where the unit with that address begins."""
    return address + (1 << 63)


def encode_unit(unit: ExtUnit) -> bytes:
    """Encode a unit, of UNIT_BYTES_MAX at the most."""
    tags_code, store_timestamp_ms, bit_map = unit
    size_bytes = UNIT_BYTES_MIN + len(bit_map)
    assert size_bytes <= UNIT_BYTES_MAX, size_bytes
    return _HEAD.pack(size_bytes, tags_code, store_timestamp_ms, len(bit_map)) + bit_map


def unit_bytes_at(view: memoryview | bytes, at: int, end: int, *, file: str) -> int:
    """Return how long the unit at position at is; 0 where no more units are: at an end mark, or at zeros.

    Raises CorruptFileError if what is there is none of these, or a unit that reaches past end.
    """
    if end - at < _SIZE.size:
        return 0
    (size_bytes,) = _SIZE.unpack_from(view, at)
    if size_bytes in (0, -1):
        return 0
    if not UNIT_BYTES_MIN <= size_bytes <= end - at:
        raise CorruptFileError(file, at, "size", f"{UNIT_BYTES_MIN} to {end - at}", size_bytes)
    (_, _, _, bit_map_bytes) = _HEAD.unpack_from(view, at)
    if bit_map_bytes != size_bytes - UNIT_BYTES_MIN:
        raise CorruptFileError(file, at + 18, "bitMapLength", size_bytes - UNIT_BYTES_MIN, bit_map_bytes)
    return int(size_bytes)


def decode_unit(view: memoryview | bytes, at: int, end: int, *, file: str) -> ExtUnit:
    """Decode the unit at position at. Raises CorruptFileError, placed at the first field that is wrong."""
    size_bytes = unit_bytes_at(view, at, end, file=file)
    if size_bytes == 0:
        raise CorruptFileError(file, at, "size", f"a unit of {UNIT_BYTES_MIN} bytes or more", "none")
    _, tags_code, store_timestamp_ms, _ = _HEAD.unpack_from(view, at)
    return ExtUnit(tags_code, store_timestamp_ms, bytes(view[at + UNIT_BYTES_MIN : at + size_bytes]))

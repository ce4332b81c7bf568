"""Consume queue: 20-byte entries, and the variable-size units of its extension.

Big-endian. Entry n of a queue is at logic offset 20 * n.

    offset  bytes  field
    0       8      phyOffset  i64  first byte of the record in the commit log
    8       4      size       i32  of the whole record
    12      8      tagsCode   i64  hash of the tag; in the schedule topic the delivery time, ms; or an address

An entry has no checksum and is valid only if the record to which it points matches. An all-zero entry is the end of the
queue. (0, 2^31 - 1, 0) is a blank entry; blank entries fill a rebuilt queue up to its first real entry.

A unit of the extension holds data that does not fit into an entry:

    offset  bytes  field
    0       2      size            i16  of the whole unit: 20 + B
    2       8      tagsCode        i64  the value that the entry would otherwise hold
    10      8      storeTimestamp  i64  of the record, ms
    18      2      bitMapLength B  i16
    20      B      bitMap               bloom filter bits of the consumers whose SQL expression is true of the record

    end of a file: size -1, for which at least 4 bytes are left

If a record has a unit, the tagsCode of its queue entry is the unit's address: the offset in the extension files minus
2^63. Tag hashes have 32 bits, so values of -2147483649 or less are addresses. A unit has no checksum and is valid only
if its tagsCode and storeTimestamp match the record. Source: RocketMQ ConsumeQueue.java, CQ_STORE_UNIT_SIZE,
putMessagePositionInfo, fillPreBlank and recover; MessageExtBrokerInner.tagsString2tagsCode; ConsumeQueueExt.java,
CqExtUnit, END_BLANK_DATA_LENGTH, MAX_ADDR, decorate.
"""

import struct
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from ..errors import CorruptFileError
from .java_hash import java_hash

ENTRY_BYTES = 20
TAGS_CODE_AT = 12
_LAYOUT = struct.Struct(">qiq")
assert _LAYOUT.size == ENTRY_BYTES
_QUEUE_ID_MAX = 2**31 - 1

encode_entry: Callable[[int, int, int], bytes] = _LAYOUT.pack
"""Encode an entry from physical_offset, size_bytes and tags_code."""

UNIT_BYTES_MIN = 20
UNIT_BYTES_MAX = 32767  # RocketMQ CqExtUnit.MAX_EXT_UNIT_SIZE, Short.MAX_VALUE
END_BYTES = 4  # RocketMQ ConsumeQueueExt.END_BLANK_DATA_LENGTH
END_MARK = b"\xff\xff"
NO_ADDRESS = 1
"""The address that RocketMQ returns if it cannot store a unit."""
ADDRESS_MAX = -0x8000_0001  # RocketMQ ConsumeQueueExt.MAX_ADDR: the smallest 32-bit hash minus 1
ADDRESS_TOP = 0x80
"""First byte of the address of every offset below 2^56. No encoded tag hash begins with this byte."""
OFFSET_MAX = (1 << 56) - 1
"""Largest offset of a unit. RocketMQ allows offsets up to 2^63 - 2^31 - 1."""

_HEAD = Struct(">hqqh")
_SIZE = Struct(">h")
assert _HEAD.size == UNIT_BYTES_MIN


class QueueEntry(NamedTuple):
    """Log offset, size and tags code of a record."""

    physical_offset: int
    size_bytes: int
    tags_code: int


BLANK_ENTRY = QueueEntry(0, 0x7FFFFFFF, 0)  # RocketMQ ConsumeQueue.fillPreBlank, with Integer.MAX_VALUE as the size


BLANK_ENTRY_BYTES = _LAYOUT.pack(*BLANK_ENTRY)


def decode_entry(view: memoryview | bytes, at: int) -> QueueEntry:
    """Decode the 20 bytes at `at`, which must exist. `is_valid` checks the result."""
    return QueueEntry._make(_LAYOUT.unpack_from(view, at))


def is_blank(entry: QueueEntry) -> bool:
    return entry == BLANK_ENTRY


def is_valid(entry: QueueEntry) -> bool:
    """Return whether offset and size are possible for a record."""
    return entry.physical_offset >= 0 and entry.size_bytes > 0 and not is_blank(entry)


def tags_code(tags: str) -> int:
    """Return the Java hash of a TAGS value, or 0 for an empty tag. A queue entry contains the sign-extended hash.

    >>> encode_entry(0, 91, tags_code("polygenelubricants"))[12:].hex()
    'ffffffff80000000'
    """
    return java_hash(tags)


def queue_id_of(name: str) -> int | None:
    """Parse a directory name. Returns None unless the name is a queue id in canonical form."""
    if not (name.isascii() and name.isdecimal() and len(name) <= len(str(_QUEUE_ID_MAX))):
        return None
    queue_id = int(name)
    return queue_id if str(queue_id) == name and queue_id <= _QUEUE_ID_MAX else None


class ExtUnit(NamedTuple):
    """Data of a record that does not fit into the record's queue entry."""

    tags_code: int
    store_timestamp_ms: int
    bit_map: bytes


def is_ext_address(tags_code: int) -> bool:
    return tags_code <= ADDRESS_MAX


def ext_address_of(offset: int) -> int:
    """Return the address of the unit at an offset.

    >>> ext_address_of(0)
    -9223372036854775808
    """
    assert 0 <= offset <= OFFSET_MAX, offset
    address = offset - (1 << 63)
    assert is_ext_address(address), (offset, address)
    return address


def ext_offset_of(address: int) -> int:
    assert is_ext_address(address), address
    return address + (1 << 63)


def encode_unit(unit: ExtUnit) -> bytes:
    tags_code, store_timestamp_ms, bit_map = unit
    size_bytes = UNIT_BYTES_MIN + len(bit_map)
    # A longer unit would have a negative size, which readers regard as the end mark.
    assert size_bytes <= UNIT_BYTES_MAX, size_bytes
    return _HEAD.pack(size_bytes, tags_code, store_timestamp_ms, len(bit_map)) + bit_map


def unit_bytes_at(view: memoryview | bytes, at: int, end: int, *, file: str) -> int:
    """Return the length of the unit at `at`, or 0 for an end mark or zeros.

    Raises CorruptFileError for other contents, and for a unit that does not end by `end`.
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
    """Decode the unit at `at`, which must end by `end`. Raises CorruptFileError."""
    size_bytes = unit_bytes_at(view, at, end, file=file)
    if size_bytes == 0:
        raise CorruptFileError(file, at, "size", f"a unit of {UNIT_BYTES_MIN} bytes or more", "none")
    _, tags_code, store_timestamp_ms, _ = _HEAD.unpack_from(view, at)
    return ExtUnit(tags_code, store_timestamp_ms, bytes(view[at + UNIT_BYTES_MIN : at + size_bytes]))

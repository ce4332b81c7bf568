"""Consume queue: a run of 20-byte entries, and its extension, units of variable size beside it. Big-endian.

    Entry n of a queue lies at logic offset 20 * n.
    offset  bytes  field
    0       8      phyOffset  i64  first byte of the record in the commit log
    8       4      size       i32  the whole record, not its body alone
    12      8      tagsCode   i64  hash of the tag; in the schedule topic the delivery time, ms; or an address

No checksum of its own: believe an entry only after reading back the record it points at. An all-zero entry
means "end"; (0, 2^31 - 1, 0) is a blank one, which fills a queue up to the first entry that was rebuilt.

    A unit of the extension, for what an entry has no room for.
    offset  bytes  field
    0       2      size            i16  the whole unit, this field included: 20 + B
    2       8      tagsCode        i64  what the entry itself would hold
    10      8      storeTimestamp  i64  ms, of the record
    18      2      bitMapLength B  i16
    20      B      bitMap               bloom filter bits of the consumers whose SQL expression is true of the record

    end of a file: size -1, where no further unit fits; 4 bytes or more are always left for it

An entry points to its unit by an address in its tagsCode: the unit's offset in the row of files less 2^63. Codes of
tags are hashes of 32 bits, so that nothing at or below -2147483649 can be one. No checksum: believe a unit only if its
tagsCode and storeTimestamp are the record's.
Source: RocketMQ ConsumeQueue.java, CQ_STORE_UNIT_SIZE, putMessagePositionInfo, fillPreBlank and recover;
MessageExtBrokerInner.tagsString2tagsCode; ConsumeQueueExt.java, CqExtUnit, END_BLANK_DATA_LENGTH, MAX_ADDR, decorate.
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
"""Encode one entry: (physical_offset, size_bytes, tags_code). Called for every record dispatched or recovered."""

UNIT_BYTES_MIN = 20
UNIT_BYTES_MAX = 32767  # RocketMQ CqExtUnit.MAX_EXT_UNIT_SIZE, Short.MAX_VALUE
END_BYTES = 4  # RocketMQ ConsumeQueueExt.END_BLANK_DATA_LENGTH
"""How much of a file is left free for the end mark."""
END_MARK = b"\xff\xff"
NO_ADDRESS = 1
"""What RocketMQ answers instead of an address where a unit cannot be kept."""
ADDRESS_MAX = -0x8000_0001  # RocketMQ ConsumeQueueExt.MAX_ADDR: just below the least 32-bit hash
ADDRESS_TOP = 0x80
"""The first byte of every address of an offset below 2^56, which no row of files reaches; no hash begins with it."""
OFFSET_MAX = (1 << 56) - 1
"""RocketMQ's is 2^63 - 2^31 - 1."""

_HEAD = Struct(">hqqh")
_SIZE = Struct(">h")
assert _HEAD.size == UNIT_BYTES_MIN


class QueueEntry(NamedTuple):
    """Where a message's record is, how long it is, and what to filter it by."""

    physical_offset: int
    size_bytes: int
    tags_code: int


BLANK_ENTRY = QueueEntry(0, 0x7FFFFFFF, 0)  # RocketMQ ConsumeQueue.fillPreBlank, with Integer.MAX_VALUE as the size


BLANK_ENTRY_BYTES = _LAYOUT.pack(*BLANK_ENTRY)


def decode_entry(view: memoryview | bytes, at: int) -> QueueEntry:
    """Decode the 20 bytes at position at, which must be there. Any bytes are an entry: ask is_valid."""
    return QueueEntry._make(_LAYOUT.unpack_from(view, at))


def is_blank(entry: QueueEntry) -> bool:
    """Whether the entry only fills space in front of a queue's first real one."""
    return entry == BLANK_ENTRY


def is_valid(entry: QueueEntry) -> bool:
    """Whether the entry can point at a record."""
    return entry.physical_offset >= 0 and entry.size_bytes > 0 and not is_blank(entry)


def tags_code(tags: str) -> int:
    """Return the code of a TAGS value: its Java hash, sign extended when it is written; 0 without a tag.

    >>> encode_entry(0, 91, tags_code("polygenelubricants"))[12:].hex()
    'ffffffff80000000'
    """
    return java_hash(tags)


def queue_id_of(name: str) -> int | None:
    """Return the number that a queue's directory is named by, None if the name is no number as queues have them."""
    if not (name.isascii() and name.isdecimal() and len(name) <= len(str(_QUEUE_ID_MAX))):
        return None
    queue_id = int(name)
    return queue_id if str(queue_id) == name and queue_id <= _QUEUE_ID_MAX else None


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
    address = offset - (1 << 63)
    assert is_ext_address(address), (offset, address)
    return address


def offset_of(address: int) -> int:
    """Return where the unit with that address begins."""
    assert is_ext_address(address), address
    return address + (1 << 63)


def encode_unit(unit: ExtUnit) -> bytes:
    """Encode a unit, of UNIT_BYTES_MAX at the most."""
    tags_code, store_timestamp_ms, bit_map = unit
    size_bytes = UNIT_BYTES_MIN + len(bit_map)
    # A longer unit would have a negative size, which readers take for the end of the file.
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

"""Consume queue: a run of 20-byte big-endian entries, entry n of a queue at logic offset 20 * n.

    offset  bytes  field
    0       8      phyOffset  i64  first byte of the record in the commit log
    8       4      size       i32  the whole record, not its body alone
    12      8      tagsCode   i64  hash of the tag; in the schedule topic the delivery time in ms

No checksum of its own: believe an entry only after reading back the record it points at. An all-zero entry
means "end"; (0, 2^31 - 1, 0) is a blank one, which fills a queue up to the first entry that was rebuilt.
Source: RocketMQ ConsumeQueue.java, CQ_STORE_UNIT_SIZE, putMessagePositionInfo, fillPreBlank and recover;
MessageExtBrokerInner.tagsString2tagsCode.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from .java_hash import java_hash

ENTRY_BYTES = 20
TAGS_CODE_AT = 12
_LAYOUT = struct.Struct(">qiq")
assert _LAYOUT.size == ENTRY_BYTES
_QUEUE_ID_MAX = 2**31 - 1


class QueueEntry(NamedTuple):
    """Where a message's record is, how long it is, and what to filter it by."""

    physical_offset: int
    size_bytes: int
    tags_code: int


BLANK_ENTRY = QueueEntry(0, 0x7FFFFFFF, 0)
BLANK_ENTRY_BYTES = _LAYOUT.pack(*BLANK_ENTRY)


encode_entry: Callable[[int, int, int], bytes] = _LAYOUT.pack
"""Encode one entry: (physical_offset, size_bytes, tags_code). Called for every record dispatched or recovered."""


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

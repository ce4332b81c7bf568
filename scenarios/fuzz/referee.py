"""What a whole record is, read once more from the format's description, with nothing of the store's code.

It shares no helper, no struct and no checksum with what it judges, so that one mistake is not made on both sides.
"""

from typing import NamedTuple
from zlib import crc32

MAGICS = {0xDAA320A7: 1, 0xDAA320AB: 2}
"""Magic number -> bytes of topicLength."""
BLANK = 0xCBD43194
_SECTOR_BYTES = 512


class WholeRecord(NamedTuple):
    """A record that everybody must accept where it lies."""

    size_bytes: int
    topic: bytes
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes
    body: bytes


def is_blank(raw: bytes, at: int, end: int) -> bool:
    """Return whether what is at position at says that no more records follow in this file."""
    return end - at >= 8 and int.from_bytes(raw[at + 4 : at + 8], "big") == BLANK


def whole_record(raw: bytes, at: int, end: int, physical_offset: int) -> WholeRecord | None:
    """Return the record at position at, None unless it is whole, within end, and says it is at physical_offset."""
    size_bytes, magic = _signed(raw, at, 4), int.from_bytes(raw[at + 4 : at + 8], "big")
    topic_length_bytes = MAGICS.get(magic)
    if topic_length_bytes is None or not 91 <= size_bytes <= end - at:
        return None
    record_end, sys_flag = at + size_bytes, _signed(raw, at + 36, 4)
    stored_at = at + (68 if sys_flag & 0x10 else 56)
    body_length_at = stored_at + (40 if sys_flag & 0x20 else 28)
    if _signed(raw, at + 28, 8) != physical_offset or body_length_at + 4 > record_end:
        return None
    body_end = body_length_at + 4 + _signed(raw, body_length_at, 4)
    topic_at = body_end + topic_length_bytes
    if not body_length_at + 4 <= body_end <= topic_at <= record_end:
        return None
    topic_end = topic_at + _signed(raw, body_end, topic_length_bytes)
    if not topic_at < topic_end <= record_end - 2:
        return None
    if topic_end + 2 + _signed(raw, topic_end, 2) != record_end:
        return None
    body = raw[body_length_at + 4 : body_end]
    topic, properties_at = raw[topic_at:topic_end], topic_end + 2
    if crc32(body) & 0x7FFFFFFF != _signed(raw, at + 8, 4) or not _is_name(topic):
        return None
    if _ends_torn(raw, properties_at, record_end):
        return None
    return WholeRecord(
        size_bytes,
        topic,
        _signed(raw, at + 12, 4),
        _signed(raw, at + 20, 8),
        sys_flag,
        _signed(raw, stored_at, 8),
        raw[properties_at:record_end],
        body,
    )


def _signed(raw: bytes, at: int, size_bytes: int) -> int:
    return int.from_bytes(raw[at : at + size_bytes], "big", signed=True)


def _is_name(topic: bytes) -> bool:
    try:
        return "\0" not in topic.decode()
    except UnicodeDecodeError:
        return False


def _ends_torn(raw: bytes, start: int, end: int) -> bool:
    """Return whether what lies in [start, end) has a zero as its last byte in some sector of the file."""
    last = start
    while last < end:
        last = min(end, last - last % _SECTOR_BYTES + _SECTOR_BYTES)
        if raw[last - 1] == 0:
            return True
    return False

"""Where the fields of records are, and how records that were broken get a checksum that is right again."""

from collections.abc import Iterator
from zlib import crc32

from .shape import CHECKSUM, CONSTANT, LENGTH, NUMBER, OFFSET, TEXT, Field, ShapePart

_FIXED = (
    (0, 4, LENGTH),  # totalSize
    (4, 4, CONSTANT),  # magicCode
    (8, 4, CHECKSUM),
    (12, 4, NUMBER),  # queueId
    (20, 8, OFFSET),  # queueOffset
    (28, 8, OFFSET),  # physicalOffset
    (36, 4, NUMBER),  # sysFlag
)
_RECORD_BYTES_MIN = 91
_V2 = 0xDAA320AB


def record_parts(raw: bytes | bytearray) -> Iterator[ShapePart]:
    """Yield where records lie, as far as their lengths lead from one to the next."""
    at = 0
    while at + _RECORD_BYTES_MIN <= len(raw):
        size_bytes = int.from_bytes(raw[at : at + 4], "big", signed=True)
        if not _RECORD_BYTES_MIN <= size_bytes <= len(raw) - at:
            return
        yield ShapePart(at, at + size_bytes)
        at += size_bytes


def record_fields(raw: bytes | bytearray, part: ShapePart) -> Iterator[Field]:
    """Yield the fields of one record, of those with a variable place as far as they lie in it."""
    start, end = part
    for at, size_bytes, kind in _FIXED:
        yield Field(start + at, size_bytes, kind)
    sys_flag = raw[start + 39]
    stored_at = start + (68 if sys_flag & 0x10 else 56)
    yield Field(stored_at, 8, NUMBER)
    body_length_at = stored_at + (40 if sys_flag & 0x20 else 28)
    yield Field(body_length_at, 4, LENGTH)
    body_at, topic_length_bytes = (
        body_length_at + 4,
        2 if int.from_bytes(raw[start + 4 : start + 8], "big") == _V2 else 1,
    )
    body_end = body_at + int.from_bytes(raw[body_length_at:body_at], "big")
    if body_end + topic_length_bytes > end:
        return
    yield Field(body_at, body_end - body_at, TEXT)
    yield Field(body_end, topic_length_bytes, LENGTH)
    topic_at = body_end + topic_length_bytes
    topic_end = topic_at + int.from_bytes(raw[body_end:topic_at], "big")
    if topic_end + 2 > end:
        return
    yield Field(topic_at, topic_end - topic_at, TEXT)
    yield Field(topic_end, 2, LENGTH)
    yield Field(topic_end + 2, end - topic_end - 2, TEXT)


def mend_records(data: bytearray, base_offset: int) -> None:
    """Give each record its place and its body's checksum, as far as lengths lead from one to the next."""
    for start, end in record_parts(data):
        data[start + 28 : start + 36] = (base_offset + start).to_bytes(8, "big")
        sys_flag = data[start + 39]
        body_at = start + 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
        body_end = body_at + int.from_bytes(data[body_at - 4 : body_at], "big")
        if body_end <= end:
            data[start + 8 : start + 12] = (crc32(data[body_at:body_end]) & 0x7FFFFFFF).to_bytes(4, "big")

"""Shapes of inputs: known fields and repeated parts, by file format.

A shape follows the lengths in an input up to the first invalid length, so an input need not be valid. Mutated records
get a correct checksum, so that fuzzing reaches the code after the check.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

LENGTH = "length"
"""The length of the next bytes or of the whole part."""
OFFSET = "offset"
"""An offset in this or another file."""
CONSTANT = "constant"
"""A magic number, a version, a kind."""
CHECKSUM = "checksum"
NUMBER = "number"
"""A count, a time, a flag."""
TEXT = "text"
"""Bytes without a fixed meaning."""


class Field(NamedTuple):
    """A field of an input; integers are big-endian."""

    at: int
    size_bytes: int
    kind: str


class ShapePart(NamedTuple):
    """A record, an entry or a line, which a mutation can remove, repeat or move."""

    start: int
    end: int


class Shape(NamedTuple):
    """The fields and parts of an input before mutation."""

    fields: tuple[Field, ...]
    parts: tuple[ShapePart, ...]


PLAIN = Shape((), ())


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
    """Yield the offset of each record, up to the first invalid length."""
    at = 0
    while at + _RECORD_BYTES_MIN <= len(raw):
        size_bytes = int.from_bytes(raw[at : at + 4], "big", signed=True)
        if not _RECORD_BYTES_MIN <= size_bytes <= len(raw) - at:
            return
        yield ShapePart(at, at + size_bytes)
        at += size_bytes


def record_fields(raw: bytes | bytearray, part: ShapePart) -> Iterator[Field]:
    """Yield the fields of one record, up to the first field after the record's end."""
    start, end = part
    assert start + _RECORD_BYTES_MIN <= end <= len(raw), (part, len(raw))
    for at, size_bytes, kind in _FIXED:
        yield Field(start + at, size_bytes, kind)
    sys_flag = raw[start + 39]
    stored_at = start + (68 if sys_flag & 0x10 else 56)
    yield Field(stored_at, 8, NUMBER)
    body_length_at = stored_at + (40 if sys_flag & 0x20 else 28)
    yield Field(body_length_at, 4, LENGTH)
    body_at = body_length_at + 4
    topic_length_bytes = 2 if int.from_bytes(raw[start + 4 : start + 8], "big") == _V2 else 1
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


def correct_records(data: bytearray, base_offset: int) -> None:
    """Correct the physicalOffset and the body checksum of each record, up to the first invalid length."""
    for start, end in record_parts(data):
        data[start + 28 : start + 36] = (base_offset + start).to_bytes(8, "big")
        sys_flag = data[start + 39]
        body_at = start + 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
        body_end = body_at + int.from_bytes(data[body_at - 4 : body_at], "big")
        if body_end <= end:
            data[start + 8 : start + 12] = (crc32(data[body_at:body_end]) & 0x7FFFFFFF).to_bytes(4, "big")


INDEX_SLOTS = 5
QUEUE_ENTRY_BYTES = 20
INDEX_HEADER_BYTES, INDEX_SLOT_BYTES, INDEX_ENTRY_BYTES = 40, 4, 20
_INDEX_COUNT_AT = 36
_UNIT_BYTES_MIN = 20
_CHECKPOINT_BYTES = 24
_INDEX_HEADER = (
    *(Field(at, 8, NUMBER) for at in (0, 8)),
    *(Field(at, 8, OFFSET) for at in (16, 24)),
    *(Field(at, 4, LENGTH) for at in (32, _INDEX_COUNT_AT)),
)


def log_shape(raw: bytes) -> Shape:
    """Return the records of a log segment, and the blank record after them."""
    parts = tuple(record_parts(raw))
    end = parts[-1].end if parts else 0
    blank = (Field(end, 4, LENGTH), Field(end + 4, 4, CONSTANT))
    fields = [field for part in parts for field in record_fields(raw, part)]
    return Shape((*fields, *blank), parts)


def queue_shape(raw: bytes) -> Shape:
    starts = range(0, len(raw) - QUEUE_ENTRY_BYTES + 1, QUEUE_ENTRY_BYTES)
    fields: list[Field] = []
    for at in starts:
        fields += (Field(at, 8, OFFSET), Field(at + 8, 4, LENGTH), Field(at + 12, 8, NUMBER))
    return Shape(tuple(fields), tuple(ShapePart(at, at + QUEUE_ENTRY_BYTES) for at in starts))


def ext_shape(raw: bytes) -> Shape:
    """Return the units of a queue extension, and the end marker."""
    fields: list[Field] = []
    parts, at = [], 0
    while at + _UNIT_BYTES_MIN <= len(raw):
        size_bytes = int.from_bytes(raw[at : at + 2], "big", signed=True)
        if not _UNIT_BYTES_MIN <= size_bytes <= len(raw) - at:
            break
        fields += [Field(at, 2, LENGTH), Field(at + 2, 8, NUMBER), Field(at + 10, 8, NUMBER)]
        fields += [Field(at + 18, 2, LENGTH), Field(at + 20, size_bytes - 20, TEXT)]
        parts.append(ShapePart(at, at + size_bytes))
        at += size_bytes
    return Shape((*fields, Field(at, 2, CONSTANT)), tuple(parts))


def index_shape(raw: bytes, slots: int) -> Shape:
    """Return the header, the slots, and the entries of an index: the header's number of entries, at least two."""
    entries_at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * slots
    room = (len(raw) - entries_at) // INDEX_ENTRY_BYTES
    count = int.from_bytes(raw[_INDEX_COUNT_AT : _INDEX_COUNT_AT + 4], "big")
    last = entries_at + INDEX_ENTRY_BYTES * min(max(count, 3), room)
    slot_fields = [Field(at, 4, OFFSET) for at in range(INDEX_HEADER_BYTES, entries_at, INDEX_SLOT_BYTES)]
    starts = range(entries_at + INDEX_ENTRY_BYTES, last, INDEX_ENTRY_BYTES)
    entries = [ShapePart(at, at + INDEX_ENTRY_BYTES) for at in starts]
    entry_fields = [
        Field(start + at, size_bytes, kind)
        for start, _ in entries
        for at, size_bytes, kind in ((0, 4, NUMBER), (4, 8, OFFSET), (12, 4, NUMBER), (16, 4, OFFSET))
    ]
    slot_parts = (ShapePart(at, at + size_bytes) for at, size_bytes, _ in slot_fields)
    return Shape((*_INDEX_HEADER, *slot_fields, *entry_fields), (*entries, *slot_parts))


def checkpoint_shape(raw: bytes) -> Shape:
    parts = tuple(ShapePart(end - 8, end) for end in range(8, min(len(raw), _CHECKPOINT_BYTES) + 1, 8))
    return Shape(tuple(Field(start, 8, NUMBER) for start, _ in parts), parts)


def text_shape(raw: bytes) -> Shape:
    """Return lines as parts. Sequences of letters and digits, or of other characters, are fields."""
    fields, at = [], 0
    for here in range(1, len(raw) + 1):
        if here == len(raw) or raw[here : here + 1].isalnum() != raw[here - 1 : here].isalnum():
            fields.append(Field(at, here - at, TEXT))
            at = here
    parts, at = [], 0
    for line in raw.splitlines(keepends=True):
        parts.append(ShapePart(at, at + len(line)))
        at += len(line)
    return Shape(tuple(fields), tuple(parts))


def shape_of_file(path: str, raw: bytes) -> Shape:
    """Return a file's shape. The first component of the path determines the format."""
    shape = _SHAPES.get(path.partition("/")[0])
    return PLAIN if shape is None else shape(raw)


_SHAPES: dict[str, Callable[[bytes], Shape]] = {
    "commitlog": log_shape,
    "consumequeue": queue_shape,
    "consumequeue_ext": ext_shape,
    "index": lambda raw: index_shape(raw, INDEX_SLOTS),
    "checkpoint": checkpoint_shape,
    "config": text_shape,
}

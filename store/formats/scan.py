"""Record scanner: iterates over the records of a log file and checks all of them.

A record is valid if its sizes are consistent, its magic is that of a message, its physicalOffset is its position, the
body matches its CRC, and topic and properties are not torn.

No checksum protects topic and properties. But unwritten bytes are zero, and a disk loses a whole sector or the end of
a sector. So a write was torn if the topic contains a NUL, or if the part of the properties in a 512-byte sector ends
with a NUL. Any other NUL in properties is user data. RocketMQ checks neither torn writes nor physicalOffset. Bit flips
outside the body, sectors with older bytes, and a zero time or host stay undetected. Source: RocketMQ
CommitLog.checkMessageAndReturnSize.

A file begins with a record, and the size of each record gives the start of the next one. After damage, the scanner must
search the next record. A body may contain a copy of a record, so a search can find a wrong start.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from isal.isal_zlib import crc32

from ..errors import CorruptFileError
from .message import (
    BLANK_BYTES,
    BLANK_MAGIC,
    BORN_HOST_V6,
    CRC_MASK,
    HOST_V6_MASK,
    MAGIC_AT,
    MAX_PROPERTIES_BYTES,
    MAX_TOPIC_BYTES,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    RECORD_BYTES_MIN,
    check_record,
    decode_topic,
)

_BLANK = Struct(">ii")
_I64 = Struct(">q")
_CHAINED = Struct(">ii20xq")  # totalSize, magicCode, physicalOffset
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2))
_BLANK_MAGIC = BLANK_MAGIC.to_bytes(4, "big", signed=True)
_SEARCH_BYTES = 1 << 14
"""Size of the first chunk of a search. Each later chunk is twice as long, up to a maximum."""
_SEARCH_BYTES_MAX = 1 << 20
_ZEROS = bytes(_SEARCH_BYTES_MAX + RECORD_BYTES_MIN)
_RECORD_MAGICS = (MESSAGE_MAGIC, MESSAGE_MAGIC_V2)

SECTOR_BYTES = 512
_TOPICS_MAX = 10_000
_PLAIN_TAIL_BYTES_MIN = 1 + 1 + 2
_PLAIN_TAIL_BYTES_MAX = 1 + 1 + 2 + MAX_PROPERTIES_BYTES  # maximum size with the shortest topic

_PLAIN = Struct(">iiii4xqqi16xq20xi")  # totalSize to bodyLength of a record with IPv4 hosts
_FIXED = Struct(">i8xi4xqqi")  # totalSize to sysFlag of any record
_MAGIC = Struct(">i")
_SYS_FLAG_AT = 36
_BODY_AT = RECORD_BYTES_MIN - 3
assert _PLAIN.size == _BODY_AT

_TAILS_MAX = 4096

_topics: dict[bytes, str] = {}  # equal topics share one string
_tails: dict[int, Callable[[memoryview, int], tuple[Any, ...]]] = {}
"""Unpack functions for fields 16 and 17 of V1 records. The key is the size of both fields << 8 | topicLength."""


def record_starts_after(view: memoryview, start: int, end: int, base_offset: int) -> Iterator[int]:
    """Yield the start of each record after the record at `start`, computed from the records' sizes.

    base_offset is the log offset of the view. Stops at a record that does not end by `end`, or has a wrong magic or
    physicalOffset.
    """
    assert 0 <= start <= end <= len(view), (start, end, len(view))
    unpack, at, last = _CHAINED.unpack_from, start, end - RECORD_BYTES_MIN
    while at <= last:
        size_bytes, magic, physical_offset = unpack(view, at)
        if (
            magic not in _RECORD_MAGICS
            or physical_offset != base_offset + at
            or not RECORD_BYTES_MIN <= size_bytes <= end - at
        ):
            return
        at += size_bytes
        yield at


def find_record(view: memoryview, start: int, base_offset: int, segment_bytes: int) -> int | None:
    """Return the first position from `start` on of a blank record, or of a record's magic and physicalOffset."""
    assert start >= 0, start
    overlap_bytes = RECORD_BYTES_MIN
    chunk_at, search_bytes = start, _SEARCH_BYTES
    while chunk_at < len(view):
        chunk = bytes(view[chunk_at : chunk_at + search_bytes + overlap_bytes])
        if chunk != _ZEROS[: len(chunk)]:  # most logs end with zeros
            places = [
                chunk_at + at
                for magic in (*_MAGICS, _BLANK_MAGIC)
                for at in _positions_of_magic(magic, chunk)
                if _begins_record(view, chunk_at + at, base_offset, segment_bytes)
            ]
            if places:
                return min(places)
        chunk_at += search_bytes
        search_bytes = min(2 * search_bytes, _SEARCH_BYTES_MAX)
    return None


def is_closed_at(view: memoryview, at: int, segment_bytes: int) -> bool:
    if len(view) - at < BLANK_BYTES:
        return False
    size_bytes, magic = _BLANK.unpack_from(view, at)
    return bool(magic == BLANK_MAGIC and size_bytes == segment_bytes - at)


def _positions_of_magic(magic: bytes, chunk: bytes) -> list[int]:
    places = []
    found = chunk.find(magic)
    while found >= 0:
        if found >= MAGIC_AT:
            places.append(found - MAGIC_AT)
        found = chunk.find(magic, found + 1)
    return places


def _begins_record(view: memoryview, at: int, base_offset: int, segment_bytes: int) -> bool:
    if is_closed_at(view, at, segment_bytes):
        return True
    if len(view) - at < RECORD_BYTES_MIN or view[at + MAGIC_AT : at + MAGIC_AT + 4] == _BLANK_MAGIC:
        return False
    (physical_offset,) = _I64.unpack_from(view, at + PHYSICAL_OFFSET_AT)
    return bool(physical_offset == base_offset + at)


class ScannedRecord(NamedTuple):
    """The fields of a record that dispatch uses. `properties` is not decoded."""

    physical_offset: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes


def scan_records(
    view: memoryview, start: int, end: int, *, file: str, base_offset: int, check_crc: bool
) -> Iterator[ScannedRecord]:
    """Yield the records of a file from position `start` on. base_offset is the log offset of the file.

    Ends at a blank record, or at `end` if a record ends there. Raises CorruptFileError at a wrong field.
    """
    # This function checks plain records: V1, IPv4 hosts, a known topic, no NUL in the properties. `_scan_any_record`
    # checks all other records.
    assert 0 <= start <= end <= len(view), (start, end, len(view))
    unpack_plain = _PLAIN.unpack_from
    new = tuple.__new__
    known_topic, known_tail = _topics.get, _tails.get
    plain_end = end - RECORD_BYTES_MIN
    at = start
    while at < end:
        if at <= plain_end:
            plain = unpack_plain(view, at)
            size_bytes, magic, crc, queue_id, queue_offset, offset, sys_flag, stored_ms, body_bytes = plain
            body_at = at + _BODY_AT
            body_end = body_at + body_bytes
            next_at = at + size_bytes
            if (
                magic == MESSAGE_MAGIC
                and not sys_flag & HOST_V6_MASK
                # Whole records of older files may follow the end of the log.
                and offset == base_offset + at
                and body_at <= body_end < next_at <= end
                and _PLAIN_TAIL_BYTES_MIN <= next_at - body_end <= _PLAIN_TAIL_BYTES_MAX
                and (not check_crc or crc32(view[body_at:body_end]) & CRC_MASK == crc)
            ):
                topic_bytes = view[body_end]
                shape = next_at - body_end << 8 | topic_bytes
                unpack_tail = known_tail(shape) or _cache_tail_decoder(shape)
                _, raw_topic, properties_bytes, properties = unpack_tail(view, body_end)
                topic = known_topic(raw_topic)
                if (
                    topic is not None
                    and properties_bytes == next_at - body_end - topic_bytes - 3
                    and 0 not in properties
                ):
                    row = offset, size_bytes, topic, queue_id, queue_offset, sys_flag, stored_ms, properties
                    yield new(ScannedRecord, row)
                    at = next_at
                    continue
        if _is_blank(view, at, end):  # a blank record has no offset to check
            return
        scanned = _scan_any_record(view, at, end, file, base_offset, check_crc)
        yield scanned
        at += scanned.size_bytes


def find_record_after_damage(view: memoryview, at: int, base_offset: int) -> int | None:
    """Return the position of the next record after a corrupt record at `at`, or None.

    base_offset is the log offset of the view. If only the CRC is wrong, the corrupt record's size gives the position.
    If another field is wrong, the result is the next position with a magic and a matching physicalOffset.
    """
    records = scan_records(view, at, len(view), file="", base_offset=base_offset, check_crc=False)
    try:
        record = next(records, None)
    except CorruptFileError:
        record = None
    if record is not None:
        assert record.size_bytes > 0, record
        return at + record.size_bytes
    return find_record(view, at + 1, base_offset, len(view))  # + 1 skips the corrupt record, which may match


def _is_blank(view: memoryview, at: int, end: int) -> bool:
    return end - at >= BLANK_BYTES and _MAGIC.unpack_from(view, at + MAGIC_AT) == (BLANK_MAGIC,)


def _scan_any_record(
    view: memoryview, at: int, end: int, file: str, base_offset: int, check_crc: bool
) -> ScannedRecord:
    """Check and decode any record. Raises CorruptFileError."""
    bounds = check_record(view, at, end, file=file, file_offset=0, check_crc=check_crc)
    size_bytes, queue_id, queue_offset, physical_offset, sys_flag = _FIXED.unpack_from(view, at)
    if physical_offset != base_offset + at:
        wrong_at, expected = at + PHYSICAL_OFFSET_AT, base_offset + at
        raise CorruptFileError(file, wrong_at, "physicalOffset", expected, physical_offset)
    topic = bytes(view[bounds.topic_at : bounds.topic_end])
    properties = bytes(view[bounds.properties_at : bounds.end])
    torn = torn_properties(topic, properties, bounds.properties_at)
    if torn == "topic":
        raise CorruptFileError(file, bounds.topic_at, torn, "no zeroed byte", topic.hex())
    if torn is not None:
        raise CorruptFileError(file, bounds.properties_at, torn, "no zeroed sector", properties.hex())
    store_timestamp_ms = store_timestamp_ms_at(view, at)
    name = decode_topic(view, bounds, file=file, file_offset=0)
    place = physical_offset, size_bytes, _cache_topic_name(topic, name), queue_id, queue_offset
    return ScannedRecord(*place, sys_flag, store_timestamp_ms, properties)


def store_timestamp_ms_at(view: memoryview, at: int) -> int:
    """Return the store time of the record at `at`, which must be valid."""
    (sys_flag,) = _MAGIC.unpack_from(view, at + _SYS_FLAG_AT)
    (store_timestamp_ms,) = _I64.unpack_from(view, at + (68 if sys_flag & BORN_HOST_V6 else 56))
    return int(store_timestamp_ms)


def torn_properties(topic: bytes, properties: bytes, properties_at: int) -> str | None:
    """Return "topic" or "properties" if this field contains a torn write, else None.

    properties_at is the position of the properties in the file.
    """
    if 0 in topic:
        return "topic"
    if 0 not in properties:
        return None
    end = properties_at + len(properties)
    sector_ends = range(properties_at // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES)
    is_torn = any(properties[stop - properties_at - 1] == 0 for stop in (*sector_ends, end))
    return "properties" if is_torn else None


def _cache_tail_decoder(shape: int) -> Callable[[memoryview, int], tuple[Any, ...]]:
    if len(_tails) >= _TAILS_MAX:
        _tails.clear()
    room_bytes = (shape >> 8) - 3
    assert room_bytes > 0, shape
    topic_bytes = min(shape & 0xFF, room_bytes)
    layout = Struct(f">B{topic_bytes}sH{room_bytes - topic_bytes}s")
    return _tails.setdefault(shape, layout.unpack_from)


def _cache_topic_name(topic: bytes, name: str) -> str:
    if 0 in topic or len(topic) > MAX_TOPIC_BYTES:
        return name
    if len(_topics) >= _TOPICS_MAX:
        _topics.clear()
    return _topics.setdefault(topic, name)

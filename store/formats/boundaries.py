"""Where records begin: counted from a known beginning, or searched for behind damage.

A body may hold anything, a whole record with the place it lies at among it, so no place of a file looks like a
beginning for certain. What is certain is the chain: a file begins with a record, and each says where the next one does.
"""

from collections.abc import Iterator
from struct import Struct

from .message import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MAGIC_AT,
    MESSAGE_MAGIC,
    MESSAGE_MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    RECORD_BYTES_MIN,
)

_BLANK = Struct(">ii")
_I64 = Struct(">q")
_CHAINED = Struct(">ii20xq")  # totalSize, magicCode, physicalOffset
_MAGICS = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2))
_BLANK_MAGIC = BLANK_MAGIC.to_bytes(4, "big", signed=True)
_SEARCH_BYTES = 1 << 20
_RECORD_MAGICS = (MESSAGE_MAGIC, MESSAGE_MAGIC_V2)


def chain(view: memoryview, start: int, end: int, base_offset: int) -> Iterator[int]:
    """Yield where each record behind the one at start begins, as the sizes of those in front of it say.

    start is where a record is known to begin; base_offset is the log offset of the view's first byte. Ends behind the
    last record that lies within end, has a record's magic and says where it is; no more is looked at of any.
    """
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
    """Return the first position from start on that begins a record, or a blank one, by magic and own place."""
    overlap_bytes = RECORD_BYTES_MIN
    for chunk_at in range(start, len(view), _SEARCH_BYTES):
        chunk = bytes(view[chunk_at : chunk_at + _SEARCH_BYTES + overlap_bytes])
        places = [
            chunk_at + at
            for magic in (*_MAGICS, _BLANK_MAGIC)
            for at in _places_of(magic, chunk)
            if _begins_record(view, chunk_at + at, base_offset, segment_bytes)
        ]
        if places:
            return min(places)
    return None


def is_closed_at(view: memoryview, at: int, segment_bytes: int) -> bool:
    """Return whether the blank record that closes a segment is at position at: one that takes all that is left."""
    if len(view) - at < BLANK_BYTES:
        return False
    size_bytes, magic = _BLANK.unpack_from(view, at)
    return bool(magic == BLANK_MAGIC and size_bytes == segment_bytes - at)


def _places_of(magic: bytes, chunk: bytes) -> list[int]:
    """Return where records would begin whose magics are in the chunk."""
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

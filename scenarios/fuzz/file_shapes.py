"""Where the fields are in each kind of file, as far as its own numbers lead; nothing here needs a valid file."""

from collections.abc import Callable

from .record_shape import record_fields, record_parts
from .shape import CONSTANT, LENGTH, NUMBER, OFFSET, PLAIN, TEXT, Field, Shape, ShapePart

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
    """Return the records of a segment, and the blank one behind them."""
    parts = tuple(record_parts(raw))
    end = parts[-1].end if parts else 0
    blank = (Field(end, 4, LENGTH), Field(end + 4, 4, CONSTANT))
    fields = [field for part in parts for field in record_fields(raw, part)]
    return Shape((*fields, *blank), parts)


def queue_shape(raw: bytes) -> Shape:
    """Return the entries of a consume queue."""
    starts = range(0, len(raw) - QUEUE_ENTRY_BYTES + 1, QUEUE_ENTRY_BYTES)
    fields = [
        field
        for at in starts
        for field in (Field(at, 8, OFFSET), Field(at + 8, 4, LENGTH), Field(at + 12, 8, NUMBER))
    ]
    return Shape(tuple(fields), tuple(ShapePart(at, at + QUEUE_ENTRY_BYTES) for at in starts))


def ext_shape(raw: bytes) -> Shape:
    """Return the units of an extension, and the end mark."""
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
    """Return header, slots, and the entries that the header counts, two at least."""
    entries_at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * slots
    room = (len(raw) - entries_at) // INDEX_ENTRY_BYTES
    count = int.from_bytes(raw[_INDEX_COUNT_AT : _INDEX_COUNT_AT + 4], "big")
    last = entries_at + INDEX_ENTRY_BYTES * min(max(count, 3), room)
    slot_fields = [Field(at, 4, OFFSET) for at in range(INDEX_HEADER_BYTES, entries_at, INDEX_SLOT_BYTES)]
    entries = [
        ShapePart(at, at + INDEX_ENTRY_BYTES)
        for at in range(entries_at + INDEX_ENTRY_BYTES, last, INDEX_ENTRY_BYTES)
    ]
    entry_fields = [
        Field(start + at, size_bytes, kind)
        for start, _ in entries
        for at, size_bytes, kind in ((0, 4, NUMBER), (4, 8, OFFSET), (12, 4, NUMBER), (16, 4, OFFSET))
    ]
    slot_parts = (ShapePart(at, at + size_bytes) for at, size_bytes, _ in slot_fields)
    return Shape((*_INDEX_HEADER, *slot_fields, *entry_fields), (*entries, *slot_parts))


def checkpoint_shape(raw: bytes) -> Shape:
    """Return the three times."""
    ends = range(8, min(len(raw), _CHECKPOINT_BYTES) + 1, 8)
    return Shape(
        tuple(Field(end - 8, 8, NUMBER) for end in ends), tuple(ShapePart(end - 8, end) for end in ends)
    )


def text_shape(raw: bytes) -> Shape:
    """Return runs of letters and digits, and of anything else, as fields; lines as parts."""
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


def shape_of_file(path: str, raw: bytes, index_slots: int) -> Shape:
    """Return the shape of a file of a store's directory, by the first part of its path."""
    kind = path.partition("/")[0]
    if kind == "index":
        return index_shape(raw, index_slots)
    shape = _SHAPES.get(kind)
    return PLAIN if shape is None else shape(raw)


_SHAPES: dict[str, Callable[[bytes], Shape]] = {
    "commitlog": log_shape,
    "consumequeue": queue_shape,
    "consumequeue_ext": ext_shape,
    "checkpoint": checkpoint_shape,
    "config": text_shape,
}

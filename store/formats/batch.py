"""Batch body: decodes the messages of one producer request. Big-endian.

    offset   bytes  field
    0        4      totalSize         the whole unit: 22 + B + P
    4        4      magicCode         0, ignored
    8        4      bodyCRC           0, ignored
    12       4      flag
    16       4      bodyLength B      then B bytes
    20+B     2      propertiesLength  then P bytes, to which the store appends the batch's properties

The store writes one record per unit. A unit has no checksum. RocketMQ ignores totalSize; tornlog requires a correct
value. Source: RocketMQ MessageDecoder.encodeMessage, MessageExtEncoder.encode(MessageExtBatch).
"""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import NamedTuple

from isal.isal_zlib import crc32

from ..errors import CorruptFileError, InvalidMessageError
from .host import Host
from .message import CRC_MASK, MAX_PROPERTIES_BYTES, MESSAGE_MAGIC, head_layout, tail_layout

UNIT_BYTES_MIN = 22
BATCH_FILE = "batch body"  # file name in error messages
_HEAD = Struct(">i8xii")
_PROPERTIES_LENGTH = Struct(">h")
assert _HEAD.size + _PROPERTIES_LENGTH.size == UNIT_BYTES_MIN


class BatchUnit(NamedTuple):
    """The fields of one message in a batch."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(units: Iterable[BatchUnit]) -> bytes:
    parts = []
    for flag, body, properties in units:
        parts.append(_HEAD.pack(UNIT_BYTES_MIN + len(body) + len(properties), flag, len(body)))
        parts.append(body)
        parts.append(_PROPERTIES_LENGTH.pack(len(properties)))
        parts.append(properties)
    return b"".join(parts)


def decode_batch(body: bytes) -> list[BatchUnit]:
    """Decode all units of a batch. Raises CorruptFileError."""
    units = []
    at = 0
    while at < len(body):
        flag, body_at, body_end, properties_at, next_at = decode_unit(body, at)
        units.append(BatchUnit(flag, body[body_at:body_end], body[properties_at:next_at]))
        at = next_at
    return units


def decode_unit(body: bytes, at: int) -> tuple[int, int, int, int, int]:
    """Return the flag of the unit at `at`, begin and end of its body, and begin and end of its properties.

    The next unit begins at the end of the properties. Raises CorruptFileError.
    """
    remaining = len(body) - at
    if remaining < UNIT_BYTES_MIN:
        expected = f"at least {UNIT_BYTES_MIN} bytes"
        raise CorruptFileError(BATCH_FILE, at, "totalSize", expected, f"{remaining} bytes")
    size_bytes, flag, body_bytes = _HEAD.unpack_from(body, at)
    if not UNIT_BYTES_MIN <= size_bytes <= remaining:
        raise CorruptFileError(BATCH_FILE, at, "totalSize", f"{UNIT_BYTES_MIN} to {remaining}", size_bytes)
    if not 0 <= body_bytes <= size_bytes - UNIT_BYTES_MIN:
        expected = f"0 to {size_bytes - UNIT_BYTES_MIN}"
        raise CorruptFileError(BATCH_FILE, at + 16, "bodyLength", expected, body_bytes)
    body_at = at + _HEAD.size
    body_end = body_at + body_bytes
    properties_at = body_end + _PROPERTIES_LENGTH.size
    end = at + size_bytes
    (properties_bytes,) = _PROPERTIES_LENGTH.unpack_from(body, body_end)
    if properties_bytes != end - properties_at:
        expected = f"{end - properties_at}, the rest of the unit"
        raise CorruptFileError(BATCH_FILE, body_end, "propertiesLength", expected, properties_bytes)
    return flag, body_at, body_end, properties_at, end


def join_properties(unit: bytes, batch: bytes) -> bytes:
    if unit and batch and not unit.endswith(b"\x02"):
        return unit + b"\x02" + batch
    return unit + batch


def encode_batch_records(
    units: bytes,
    *,
    topic: bytes,
    shared_properties: bytes,
    queue_id: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Host,
    store_host: Host,
    reconsume_times: int,
    clean: Callable[[bytes], bytes] | None,
) -> tuple[bytearray, tuple[int, ...]]:
    """Encode a batch body as adjacent records. Returns the bytes and the start of each record.

    `place_records` must then write offsets and times. The topic must have 1 to 127 bytes. The IPv6 bits of sys_flag
    must match the hosts. `clean` removes properties that only the store may set. Raises CorruptFileError for an invalid
    body, and InvalidMessageError if the properties do not fit into a record.
    """
    head = head_layout(sys_flag)
    pack_head, fixed_bytes, topic_bytes = head.pack, head.size + 3 + len(topic), len(topic)
    born_address, born_port = born_host
    store_address, store_port = store_host
    view = memoryview(units)
    pieces: list[bytes | memoryview] = []
    starts: list[int] = []
    at = end = 0
    while at < len(units):
        flag, body_at, body_end, properties_at, next_at = decode_unit(units, at)
        properties = join_properties(units[properties_at:next_at], shared_properties)
        if clean is not None:
            properties = clean(properties)
        properties_bytes = len(properties)
        if properties_bytes > MAX_PROPERTIES_BYTES or 0 in properties:
            raise InvalidMessageError(f"properties of the unit at {at}: too long, or contain a NUL")
        body = view[body_at:body_end]
        body_bytes = body_end - body_at
        size_bytes = fixed_bytes + body_bytes + properties_bytes
        pieces += (
            pack_head(
                size_bytes,
                MESSAGE_MAGIC,
                crc32(body) & CRC_MASK,
                queue_id,
                flag,
                0,
                0,
                sys_flag,
                born_timestamp_ms,
                born_address,
                born_port,
                0,
                store_address,
                store_port,
                reconsume_times,
                0,
                body_bytes,
            ),
            body,
            tail_layout(topic_bytes, properties_bytes).pack(topic_bytes, topic, properties_bytes, properties),
        )
        starts.append(end)
        end += size_bytes
        at = next_at
    records = bytearray().join(pieces)
    assert len(records) == end, (len(records), end)
    return records, tuple(starts)

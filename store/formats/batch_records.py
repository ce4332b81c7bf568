"""From a batch body to records: one loop over all units, with what they share worked out before it.

A batch exists to be cheap, so units are checked, joined and encoded in place here, without an object for each;
`decode_batch` and `encode_record` say the same one at a time.
"""

from collections.abc import Callable

from isal.isal_zlib import crc32

from ..errors import InvalidMessageError
from .batch import decode_unit, join_properties
from .host import Host
from .message import CRC_MASK, MAX_PROPERTIES_BYTES, MESSAGE_MAGIC, head_layout, tail_layout


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
    """Return the records of a batch body, back to back and ready to be placed, and where each begins.

    topic has 1 to 127 bytes; sys_flag's IPv6 bits agree with the hosts; clean takes out of a record's properties what
    is not the producer's to say. Raises CorruptFileError for a body that does not decode, InvalidMessageError for
    properties that no record can hold.
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
            raise InvalidMessageError(f"properties of the unit at {at}: too long, or with a NUL")
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
    return bytearray().join(pieces), tuple(starts)

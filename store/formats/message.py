"""Message record: the unit of the commit log. Big-endian, signed.

b and s are the sizes of the two hosts: 8 bytes each, or 20 for IPv6.

    offset   bytes  field
    0        4      totalSize                  of the whole record
    4        4      magicCode                  0xDAA320A7; V2: 0xDAA320AB; blank: 0xCBD43194
    8        4      bodyCRC                    CRC-32 (IEEE) of the body & 0x7FFFFFFF; 0 for an empty body
    12       4      queueId
    16       4      flag                       the user's, opaque
    20       8      queueOffset                index in the queue, assigned under the put lock
    28       8      physicalOffset             log offset of this record, assigned under the put lock
    36       4      sysFlag                    compression, transaction, host families
    40       8      bornTimestamp              ms, the client's clock
    48       b      bornHost                   4 or 16 address bytes, then the port in 4
    48+b     8      storeTimestamp             ms, read under the put lock
    56+b     s      storeHost
    56+b+s   4      reconsumeTimes
    60+b+s   8      preparedTransactionOffset  log offset of a commit's prepared record
    68+b+s   4      bodyLength B               then B bytes
    ...      1      topicLength T              (V2: 2 bytes), then T bytes of UTF-8, at least one
    ...      2      propertiesLength P         then P bytes of UTF-8

    blank: totalSize (all remaining bytes of the file), magicCode, any bytes

totalSize is 91 + B + T + P, plus 12 for each IPv6 host, plus 1 for V2. A blank record of at least 8 bytes closes each
full file. bodyCRC protects the body; no checksum protects header, topic and properties.
Source: RocketMQ CommitLog.calMsgLength, MessageExtEncoder and checkMessageAndReturnSize, MessageSysFlag; V2 from
RocketMQ 5 MessageVersion.
"""

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from isal.isal_zlib import crc32

from ..errors import CorruptFileError, InvalidMessageError
from .host import Host

MESSAGE_MAGIC = 0xDAA320A7 - 0x1_0000_0000
MESSAGE_MAGIC_V2 = 0xDAA320AB - 0x1_0000_0000
BLANK_MAGIC = 0xCBD43194 - 0x1_0000_0000
BLANK_BYTES = 8
RECORD_BYTES_MIN = 91
MAX_TOPIC_BYTES = 127  # topicLength is a signed byte
MAX_PROPERTIES_BYTES = 32767  # propertiesLength is a signed short
CRC_MASK = 0x7FFFFFFF  # RocketMQ UtilAll.crc32 drops the sign bit, so a checksum is never negative

# sysFlag
COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_NONE = 0
TRANSACTION_PREPARED = 4
TRANSACTION_COMMIT = 8
TRANSACTION_ROLLBACK = 12
TRANSACTION_MASK = 12
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
HOST_V6_MASK = BORN_HOST_V6 | STORE_HOST_V6
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE_MASK = 0x700

# positions that do not depend on the hosts
MAGIC_AT = 4
BODY_CRC_AT = 8
PHYSICAL_OFFSET_AT = 28
QUEUE_OFFSET_AT = 20
_SYS_FLAG_AT = 36
_STORE_TIMESTAMP_AT = 56  # position after an IPv4 bornHost
_IPV6_EXTRA_BYTES = 12

_ADDRESS_BYTES = {
    bits: (16 if bits & BORN_HOST_V6 else 4, 16 if bits & STORE_HOST_V6 else 4)
    for bits in (0, BORN_HOST_V6, STORE_HOST_V6, HOST_V6_MASK)
}
_HEADS = {  # layouts of fields 1 to 15; the key is the sysFlag's host bits
    bits: Struct(f">iiiiiqqiq{born}siq{store}siiqi") for bits, (born, store) in _ADDRESS_BYTES.items()
}
_BLANK = Struct(">ii")
_OFFSETS = Struct(">qq")
_I64 = Struct(">q")
_I32 = Struct(">i")
_I16 = Struct(">h")
_I8 = Struct(">b")
assert _HEADS[0].size == RECORD_BYTES_MIN - 3


Raw = bytes | bytearray | memoryview


def records_max_in(log_bytes: int) -> int:
    return log_bytes // RECORD_BYTES_MIN


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A decoded record. In `properties`, undecodable bytes are surrogate escapes."""

    size_bytes: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties: str


class RecordBounds(NamedTuple):
    """Positions of a record's parts in a view."""

    body_at: int
    body_end: int
    topic_at: int
    topic_end: int
    properties_at: int
    end: int


def body_crc(body: Raw) -> int:
    return crc32(body) & CRC_MASK


def head_layout(sys_flag: int) -> Struct:
    """Return the layout of fields 1 to 15, up to bodyLength."""
    return _HEADS[sys_flag & HOST_V6_MASK]


@lru_cache(maxsize=4096)
def tail_layout(topic_bytes: int, properties_bytes: int, length: str = "B") -> Struct:
    """Return the layout of fields 16 and 17. `length` is the format of topicLength: B in V1, H in V2."""
    return Struct(f">{length}{topic_bytes}sH{properties_bytes}s")


def encode_record(
    *,
    topic: bytes,
    properties: bytes,
    body: bytes,
    queue_id: int,
    flag: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Host,
    store_timestamp_ms: int,
    store_host: Host,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
) -> bytearray:
    """Encode a V1 record; `place_records` adds the offsets. The IPv6 bits of sys_flag must match the hosts.

    Raises InvalidMessageError for a topic of 0 or more than 127 bytes, or properties of more than 32767 bytes.
    """
    topic_bytes = len(topic)
    properties_bytes = len(properties)
    if not 0 < topic_bytes <= MAX_TOPIC_BYTES:
        raise InvalidMessageError(f"topic: expected 1 to {MAX_TOPIC_BYTES} bytes, found {topic_bytes}")
    if properties_bytes > MAX_PROPERTIES_BYTES:
        expected = f"at most {MAX_PROPERTIES_BYTES} bytes"
        raise InvalidMessageError(f"properties: expected {expected}, found {properties_bytes}")
    born_address, born_port = born_host
    store_address, store_port = store_host
    host_bits = sys_flag & HOST_V6_MASK
    address_bytes = (len(born_address), len(store_address))
    assert _ADDRESS_BYTES[host_bits] == address_bytes, "sys_flag disagrees with hosts"
    head = _HEADS[host_bits]
    return bytearray().join(
        (
            head.pack(
                head.size + 3 + len(body) + topic_bytes + properties_bytes,
                MESSAGE_MAGIC,
                crc32(body) & CRC_MASK,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp_ms,
                born_address,
                born_port,
                store_timestamp_ms,
                store_address,
                store_port,
                reconsume_times,
                prepared_transaction_offset,
                len(body),
            ),
            body,
            tail_layout(topic_bytes, properties_bytes).pack(topic_bytes, topic, properties_bytes, properties),
        )
    )


def place_records(
    buffer: bytearray,
    starts: tuple[int, ...],
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
    born_host_v6: bool,
) -> None:
    """Write offsets and store time, which are known only under the put lock, into adjacent encoded records.

    queue_offset is that of the first record. physical_offset is the log offset of the buffer. `starts` contains the
    position of each record in the buffer.
    """
    assert physical_offset >= 0, physical_offset
    place, stamp = _OFFSETS.pack_into, _I64.pack_into
    stored_at = _STORE_TIMESTAMP_AT + _IPV6_EXTRA_BYTES if born_host_v6 else _STORE_TIMESTAMP_AT
    for at in starts:
        place(buffer, at + QUEUE_OFFSET_AT, queue_offset, physical_offset + at)
        stamp(buffer, at + stored_at, store_timestamp_ms)
        queue_offset += 1


def encode_message_record(record: MessageRecord) -> bytes:
    """Encode a record with the CRC and sizes that it contains."""
    topic = record.topic.encode()
    properties = record.properties.encode(errors="surrogateescape")
    head = _HEADS[record.sys_flag & HOST_V6_MASK].pack(
        record.size_bytes,
        record.magic,
        record.body_crc,
        record.queue_id,
        record.flag,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag,
        record.born_timestamp_ms,
        *record.born_host,
        record.store_timestamp_ms,
        *record.store_host,
        record.reconsume_times,
        record.prepared_transaction_offset,
        len(record.body),
    )
    length = "H" if record.magic == MESSAGE_MAGIC_V2 else "B"
    tail = tail_layout(len(topic), len(properties), length).pack(len(topic), topic, len(properties), properties)
    raw = b"".join((head, record.body, tail))
    assert len(raw) == record.size_bytes, (len(raw), record.size_bytes)
    return raw


def decode_record(view: Raw, at: int, *, file: str, file_offset: int = 0) -> MessageRecord:
    """Decode the record at `at` and check its CRC. file_offset is the view's position in the file.

    Raises CorruptFileError. Bytes after a wrong length are not read.
    """
    bounds = check_record(view, at, len(view), file=file, file_offset=file_offset, check_crc=True)
    (sys_flag,) = _I32.unpack_from(view, at + _SYS_FLAG_AT)
    head = _HEADS[sys_flag & HOST_V6_MASK].unpack_from(view, at)  # fields 1 to 15; a host is two values
    body = bytes(view[bounds.body_at : bounds.body_end])
    topic = decode_topic(view, bounds, file=file, file_offset=file_offset)
    properties = bytes(view[bounds.properties_at : bounds.end]).decode(errors="surrogateescape")
    hosts = Host(head[9], head[10]), head[11], Host(head[12], head[13])
    fields: tuple[Any, ...] = (*head[:9], *hosts, head[14], head[15], body, topic, properties)
    return MessageRecord(*fields)


def decode_topic(view: Raw, bounds: RecordBounds, *, file: str, file_offset: int) -> str:
    """Decode the topic. Raises CorruptFileError if the topic is not UTF-8."""
    raw = bytes(view[bounds.topic_at : bounds.topic_end])
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise CorruptFileError(file, file_offset + bounds.topic_at, "topic", "UTF-8", raw.hex()) from None


def check_record(view: Raw, at: int, end: int, *, file: str, file_offset: int, check_crc: bool) -> RecordBounds:
    """Check the sizes of the record at `at`, which must end by `end`, and optionally its CRC.

    Raises CorruptFileError. The magicCode of a blank record counts as wrong.
    """

    def corrupt_record_error(position: int, field: str, expected: object, found: object) -> CorruptFileError:
        return CorruptFileError(file, file_offset + position, field, expected, found)

    if end - at < BLANK_BYTES:
        raise corrupt_record_error(at, "totalSize", f"at least {BLANK_BYTES} bytes", f"{end - at} bytes")
    size_bytes, magic = _BLANK.unpack_from(view, at)
    if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2):
        raise corrupt_record_error(at + MAGIC_AT, "magicCode", "daa320a7 or daa320ab", f"{magic & 0xFFFFFFFF:08x}")
    # With length 0 a scan would never end. A large length would be after the file's end.
    if not RECORD_BYTES_MIN <= size_bytes <= end - at:
        raise corrupt_record_error(at, "totalSize", f"{RECORD_BYTES_MIN} to {end - at}", size_bytes)

    record_end = at + size_bytes
    length = _I16 if magic == MESSAGE_MAGIC_V2 else _I8  # layout of topicLength
    (sys_flag,) = _I32.unpack_from(view, at + _SYS_FLAG_AT)
    body_at = at + _HEADS[sys_flag & HOST_V6_MASK].size
    body_bytes_max = record_end - body_at - length.size - _I16.size
    if body_bytes_max < 0:
        expected = f"at least {size_bytes - body_bytes_max} with sysFlag {sys_flag:#x}"
        raise corrupt_record_error(at, "totalSize", expected, size_bytes)
    (body_bytes,) = _I32.unpack_from(view, body_at - _I32.size)
    if not 0 <= body_bytes <= body_bytes_max:
        raise corrupt_record_error(body_at - _I32.size, "bodyLength", f"0 to {body_bytes_max}", body_bytes)
    body_end = body_at + body_bytes
    if check_crc:
        (want,) = _I32.unpack_from(view, at + BODY_CRC_AT)
        got = body_crc(view[body_at:body_end])
        if want != got:
            raise corrupt_record_error(
                at + BODY_CRC_AT, "bodyCRC", f"{got:08x}, the body's", f"{want & 0xFFFFFFFF:08x}"
            )

    topic_at = body_end + length.size
    topic_bytes_max = record_end - topic_at - _I16.size
    (topic_bytes,) = length.unpack_from(view, body_end)
    if not 0 < topic_bytes <= topic_bytes_max:
        raise corrupt_record_error(body_end, "topicLength", f"1 to {topic_bytes_max}", topic_bytes)
    topic_end = topic_at + topic_bytes
    properties_at = topic_end + _I16.size
    (properties_bytes,) = _I16.unpack_from(view, topic_end)
    if not 0 <= properties_bytes <= record_end - properties_at:
        raise corrupt_record_error(
            topic_end, "propertiesLength", f"0 to {record_end - properties_at}", properties_bytes
        )
    if properties_at + properties_bytes != record_end:
        raise corrupt_record_error(at, "totalSize", properties_at + properties_bytes - at, size_bytes)
    return RecordBounds(body_at, body_end, topic_at, topic_end, properties_at, record_end)


def encode_blank(remaining: int) -> bytes:
    """Encode the header of a blank record of `remaining` bytes."""
    assert remaining >= BLANK_BYTES, remaining
    return _BLANK.pack(remaining, BLANK_MAGIC)

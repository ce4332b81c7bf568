"""Oracle reader: decodes logs, and computes queue and index entries.

    a record         its fields, or the error; a zero at the end of a sector in its properties means a torn record
    its keys         UNIQ_KEY, then each word of KEYS between spaces, repetitions included
    a key's hash     Java's hash of `topic#key`, made positive; 0 for -2^31
    a tag's code     Java's hash of TAGS, 0 without a tag

The reader shares no code and constants with the store, so a mistake there is not repeated here.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from zlib import crc32

MAGIC = 0xDAA320A7
_TOPIC_LENGTH_BYTES = {MAGIC: 1, 0xDAA320AB: 2}
"""Magic number -> bytes of topicLength."""
_BLANK = 0xCBD43194
_BLANK_BYTES = 8
_RECORD_BYTES_MIN = 91
SECTOR_BYTES = 512
_BORN_V6, _STORE_V6 = 0x10, 0x20
_TRANSACTION_BITS, _PREPARED, _ROLLED_BACK = 0xC, 0x4, 0xC
_U32 = 0xFFFFFFFF
_HOSTS = {0: (8, 8), _BORN_V6: (20, 8), _STORE_V6: (8, 20), _BORN_V6 | _STORE_V6: (20, 20)}
"""sysFlag's bits -> bytes of bornHost and storeHost, an address and a port each."""
_HEADS = {bits: Struct(f">iIiiiqqiq{born}sq{store}siqi") for bits, (born, store) in _HOSTS.items()}
_SIZE = Struct(">i")
_SYS_FLAG_AT = 36
_MAP_BUCKETS = 16
_KNOWN_MAX = 4_096
"""The maximum size of a cache of decoded records. Only long runs have more records."""


class RecordHead(NamedTuple):
    """The fields of a record without offsets, queue, message and store time. The producer sets all except three."""

    magic: int
    """The store writes only `MAGIC`."""
    body_crc: int
    """The stored CRC, which the reader does not check."""
    flag: int
    born_timestamp_ms: int
    born_host: bytes
    """Address and port, 8 or 20 bytes."""
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    """The log offset of the half message of a committed message."""


class LogRecord(NamedTuple):
    """A complete record."""

    physical_offset: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes
    head: RecordHead


class ReadRecord(NamedTuple):
    """A record and its body."""

    record: LogRecord
    body: bytes


Known = dict[bytes, ReadRecord]
"""Bytes of a complete record -> decoded record. Equal bytes are decoded once."""


class UnreadableError(Exception):
    """Raised for a missing or unreadable record. `offset` is a position in the file."""

    def __init__(
        self, file: str, offset: int, field: str, expected: object, found: object, *, is_torn: bool = False
    ) -> None:
        super().__init__(f"{file} @ {offset}: {field}: expected {expected}, found {found}")
        self.file = file
        self.offset = offset
        self.field = field
        self.expected = str(expected)
        self.found = str(found)
        self.is_torn = is_torn
        """Whether some sectors of the record, in a part without a checksum, were never written."""


# -- records ---------------------------------------------------------------------------------------


def read_records(
    view: memoryview | bytes,
    end: int,
    *,
    file: str,
    base_offset: int,
    known: Known | None = None,
    check_crc: bool = False,
) -> Iterator[ReadRecord]:
    """Yield the records of a log file from its first byte to a position, or to a blank record.

    base_offset: the file's log offset. Raises UnreadableError at the first wrong field; the CRC of bodies is checked
    only with check_crc. known: a cache of decoded records, read and extended.
    """
    at = 0
    sizes = _SIZE.unpack_from
    while at < end:
        if end - at >= _RECORD_BYTES_MIN:
            (size_bytes,) = sizes(view, at)
            if known is not None and _RECORD_BYTES_MIN <= size_bytes <= end - at:
                reading = known.get(raw := bytes(view[at : at + size_bytes]))
                if reading is not None and reading.record.physical_offset == base_offset + at:
                    yield reading
                    at += size_bytes
                    continue
        if is_blank(view, at, end):
            return
        reading = read(view, at, end, file=file, physical_offset=base_offset + at)
        if check_crc and body_crc(reading.body) != reading.record.head.body_crc:
            wanted, found = body_crc(reading.body), reading.record.head.body_crc
            raise UnreadableError(file, at + 8, "bodyCRC", f"{wanted:08x}", f"{found:08x}")
        # With a zero in its properties, the result depends on sector boundaries.
        if known is not None and 0 not in reading.record.properties:
            if len(known) >= _KNOWN_MAX:
                known.clear()
            known[raw] = reading
        yield reading
        at += reading.record.size_bytes
        assert at <= end, (at, end)


def is_blank(view: memoryview | bytes, at: int, end: int) -> bool:
    """Return whether a position has a blank record, after which its file has no record."""
    return end - at >= _BLANK_BYTES and int.from_bytes(view[at + 4 : at + 8], "big") == _BLANK


def read(view: memoryview | bytes, at: int, end: int, *, file: str, physical_offset: int | None = None) -> ReadRecord:
    """Read the record at a position of a file. The record must end before `end` and have the given physical offset.

    physical_offset: None for a record outside its file, as clients receive it. UnreadableError names the wrong field.
    The CRC of the body is not checked.
    """

    def wrong(offset: int, field: str, expected: object, found: object) -> UnreadableError:
        return UnreadableError(file, offset, field, expected, found)

    if end - at < _RECORD_BYTES_MIN:
        raise wrong(at, "totalSize", f"{_RECORD_BYTES_MIN} bytes at least", f"{end - at} bytes")
    size_bytes = int.from_bytes(view[at : at + 4], "big", signed=True)
    magic = int.from_bytes(view[at + 4 : at + 8], "big")
    topic_length_bytes = _TOPIC_LENGTH_BYTES.get(magic)
    if topic_length_bytes is None:
        raise wrong(at + 4, "magicCode", "daa320a7 or daa320ab", f"{magic:08x}")
    if not _RECORD_BYTES_MIN <= size_bytes <= end - at:
        raise wrong(at, "totalSize", f"{_RECORD_BYTES_MIN} to {end - at}", size_bytes)
    record_end = at + size_bytes
    layout = _HEADS[view[at + _SYS_FLAG_AT + 3] & (_BORN_V6 | _STORE_V6)]
    body_at = at + layout.size
    if body_at > record_end:
        raise wrong(at, "totalSize", f"{layout.size} at least", size_bytes)
    fields = layout.unpack_from(view, at)
    crc, queue_id, flag, queue_offset, said_offset, sys_flag, born_ms = fields[2:9]
    born_host, stored_ms, store_host, reconsume_times, prepared_offset, body_bytes = fields[9:]
    if physical_offset is not None and said_offset != physical_offset:
        raise wrong(at + 28, "physicalOffset", physical_offset, said_offset)
    body_end = body_at + body_bytes
    topic_at = body_end + topic_length_bytes
    if not body_at <= body_end <= topic_at <= record_end:
        raise wrong(body_at - 4, "bodyLength", f"0 to {record_end - body_at}", body_bytes)
    topic_bytes = int.from_bytes(view[body_end:topic_at], "big", signed=True)
    topic_end = topic_at + topic_bytes
    properties_at = topic_end + 2
    if not topic_at < topic_end <= record_end - 2:
        raise wrong(body_end, "topicLength", f"1 to {record_end - topic_at - 2}", topic_bytes)
    properties_bytes = int.from_bytes(view[topic_end:properties_at], "big", signed=True)
    if properties_at + properties_bytes != record_end:
        raise wrong(topic_end, "propertiesLength", record_end - properties_at, properties_bytes)
    raw_topic, properties = bytes(view[topic_at:topic_end]), bytes(view[properties_at:record_end])
    if 0 in raw_topic:
        raise UnreadableError(file, topic_at, "topic", "no zeroed byte", raw_topic.hex(), is_torn=True)
    if 0 in properties and _has_zero_at_sector_end(view, properties_at, record_end):
        wanted = "no sector that ends in zeros"
        raise UnreadableError(file, properties_at, "properties", wanted, properties.hex(), is_torn=True)
    topic = _shared_name(raw_topic)
    if topic is None:
        raise wrong(topic_at, "topic", "UTF-8", raw_topic.hex())
    head = RecordHead(magic, crc, flag, born_ms, born_host, store_host, reconsume_times, prepared_offset)
    queue = topic, queue_id, queue_offset
    record = LogRecord(said_offset, size_bytes, *queue, sys_flag, stored_ms, properties, head)
    return ReadRecord(record, bytes(view[body_at:body_end]))


def valid_record_at_position(view: memoryview | bytes, at: int, end: int, physical_offset: int) -> ReadRecord | None:
    """Return the record at a position if it and its CRC are valid."""
    try:
        reading = read(view, at, end, file="", physical_offset=physical_offset)
    except UnreadableError:
        return None
    return reading if body_crc(reading.body) == reading.record.head.body_crc else None


def body_crc(body: bytes) -> int:
    return crc32(body) & 0x7FFFFFFF


@lru_cache(maxsize=1024)
def _shared_name(topic: bytes) -> str | None:
    """Return the same string object for equal names."""
    try:
        return topic.decode()
    except UnicodeDecodeError:
        return None


def _has_zero_at_sector_end(view: memoryview | bytes, start: int, end: int) -> bool:
    last = start
    while last < end:
        last = min(end, last - last % SECTOR_BYTES + SECTOR_BYTES)
        if view[last - 1] == 0:
            return True
    return False


# -- queues ----------------------------------------------------------------------------------------

ENTRY = Struct(">qiq")
"""phyOffset, size, tagsCode."""
ENTRY_BYTES = ENTRY.size
UNIT = Struct(">hqqh")
"""size, tagsCode, storeTimestamp and bitMapLength of a unit of a queue's extension."""
UNIT_OFFSET = 1 << 63
"""An entry's tagsCode is its unit's offset less this number."""
ADDRESS_MAX = -(1 << 31) - 1
"""A larger tagsCode is no address."""
BLANK_ENTRY_SIZE = 0x7FFFFFFF
_BLANK_ENTRY = (0, BLANK_ENTRY_SIZE, 0)


def points_at_record(physical_offset: int, size_bytes: int, code: int) -> bool:
    """Return whether an entry points at a record. Entries without a record mark a queue's end or fill a gap."""
    return physical_offset >= 0 and size_bytes > 0 and (physical_offset, size_bytes, code) != _BLANK_ENTRY


# -- properties, keys and tags ---------------------------------------------------------------------


def property_of(properties: bytes, name: bytes) -> bytes:
    """Return the value of a property; if its name is repeated, the last one with a value counts."""
    value, wanted = b"", name + b"\1"
    if wanted not in properties:
        return value
    for piece in properties.split(b"\2"):
        if piece.startswith(wanted) and len(piece) > len(wanted):
            value = piece[len(wanted) :]
    return value


def properties_of(raw: bytes) -> dict[str, str]:
    """Return all properties with a name and a value. If a name is repeated, the last one counts."""
    pieces = (piece.partition("\1") for piece in raw.decode(errors="surrogateescape").split("\2"))
    return {name: value for name, _, value in pieces if name and value}


def in_java_map_order(properties: Mapping[str, str]) -> bytes:
    r"""Return properties as a broker stores them: in the order of a Java HashMap of 16 buckets.

    >>> in_java_map_order({"WAIT": "true", "KEYS": "k", "TAGS": "A"})
    b'KEYS\x01k\x02WAIT\x01true\x02TAGS\x01A'
    """
    assert 4 * len(properties) <= 3 * _MAP_BUCKETS, properties

    def bucket(name: str) -> int:
        code = java_hash(name) & _U32
        return (code ^ code >> 16) % _MAP_BUCKETS

    return "\2".join(f"{name}\1{properties[name]}" for name in sorted(properties, key=bucket)).encode()


def keys_of(properties: bytes) -> list[bytes]:
    if b"KEY" not in properties:
        return []
    unique = property_of(properties, b"UNIQ_KEY")
    words = [word for word in property_of(properties, b"KEYS").split(b" ") if word]
    return [unique, *words] if unique else words


def indexed_keys(record: LogRecord) -> list[bytes]:
    return keys_of(record.properties) if is_indexed(record.sys_flag) else []


def is_queued(sys_flag: int) -> bool:
    """Return whether a record has a place in its queue: no half message, and no rolled back transaction."""
    return sys_flag & _TRANSACTION_BITS not in (_PREPARED, _ROLLED_BACK)


def is_indexed(sys_flag: int) -> bool:
    """Return whether the index contains the keys of a record: not of a rolled back transaction."""
    return sys_flag & _TRANSACTION_BITS != _ROLLED_BACK


def key_hash(topic: str, key: bytes) -> int:
    """Return the hash of a message's key in the index.

    >>> key_hash("T1", b"k1"), key_hash("TopicTest", b"key")
    (79072524, 85128477)
    """
    h = _hash_of_prefix(topic)
    units = key if key.isascii() else _code_units(key.decode(errors="surrogateescape"))
    for unit in units:
        h = 31 * h + unit & _U32
    return h if h < 0x8000_0000 else 0 if h == 0x8000_0000 else 0x1_0000_0000 - h


@lru_cache(maxsize=1024)
def _hash_of_prefix(topic: str) -> int:
    return java_hash(f"{topic}#") & _U32


@lru_cache(maxsize=1024)
def tag_code(tags: str) -> int:
    """Return the code of a tag in queue entries.

    >>> tag_code(""), tag_code("TagA"), tag_code("polygenelubricants")
    (0, 2598919, -2147483648)
    """
    return java_hash(tags)


def tag_code_of(properties: bytes) -> int:
    return tag_code(property_of(properties, b"TAGS").decode(errors="surrogateescape"))


def java_hash(text: str) -> int:
    """Return Java's hashCode over UTF-16 code units, as a signed number of 32 bits."""
    h = 0
    for unit in _code_units(text):
        h = 31 * h + unit & _U32
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


def _code_units(text: str) -> Iterator[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return (high << 8 | low for high, low in zip(raw[::2], raw[1::2], strict=True))

"""Parts of valid inputs: common and unusual topics, properties, bodies and hosts."""

from functools import cache

from ...store.formats.host import Host
from ...store.formats.message import (
    BORN_HOST_V6,
    COMPRESSED,
    MESSAGE_MAGIC_V2,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    decode_record,
    encode_message_record,
    encode_record,
    place_records,
)
from .mutation import Draw

TOPICS = ("T1", "Orders", "%RETRY%billing", "SCHEDULE_TOPIC_XXXX", "京都", "t" * 127)
TAGS = ("A", "TagA", "polygenelubricants", "ж")
KEYS = ("k1", "k1 k2", " k3  k1 ", "order-1", "鍵")
HOSTS = (
    Host.parse("127.0.0.1|10911"),
    Host.parse("10.0.0.1|40001"),
    Host.parse("255.255.255.255|65535"),
    Host.parse("2001:db8::1|9876"),
)
BORN_MS = 1_600_000_000_000
_SYS_FLAGS = (0, 0, 0, COMPRESSED, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
_BODY_BYTES = (0, 1, 5, 5, 16, 64, 300)


@cache
def random_body(size_bytes: int) -> bytes:
    return bytes((31 * number + size_bytes) & 0xFF for number in range(size_bytes))


def random_properties(draw: Draw) -> bytes:
    """Make a property string, with or without a separator at its end."""
    entries = []
    if draw.chance(0.6):
        entries.append(f"TAGS\x01{draw.choice(TAGS)}")
    if draw.chance(0.5):
        entries.append(f"KEYS\x01{draw.choice(KEYS)}")
    if draw.chance(0.3):
        entries.append("UNIQ_KEY\x010A00000100002A9F0000000000001000")
    if draw.chance(0.2):
        entries.append(f"DELAY\x01{draw.choice(('1', '3', '18', '99', '-1', 'x'))}")
    if draw.chance(0.1):
        entries.append("v\x01a\x01b\0c")
    return "\x02".join(entries).encode() + (b"\x02" if entries and draw.chance(0.2) else b"")


def random_record(draw: Draw, physical_offset: int, queue_offset: int) -> bytes:
    """Make a valid record for a log offset: usually version 1, sometimes version 2."""
    born, stored = draw.choice(HOSTS), draw.choice(HOSTS)
    sys_flag = draw.choice(_SYS_FLAGS)
    sys_flag |= (BORN_HOST_V6 if born.is_ipv6 else 0) | (STORE_HOST_V6 if stored.is_ipv6 else 0)
    made = encode_record(
        topic=draw.choice(TOPICS).encode(),
        properties=random_properties(draw),
        body=random_body(draw.choice(_BODY_BYTES)),
        queue_id=draw.randbelow(3),
        flag=draw.randbelow(4),
        sys_flag=sys_flag,
        born_timestamp_ms=BORN_MS,
        born_host=born,
        store_timestamp_ms=0,
        store_host=stored,
        reconsume_times=draw.randbelow(2),
    )
    place_records(
        made,
        (0,),
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_timestamp_ms=BORN_MS + physical_offset,
        born_host_v6=born.is_ipv6,
    )
    return _as_version_2(made) if draw.chance(0.1) else bytes(made)


def _as_version_2(made: bytes | bytearray) -> bytes:
    """Convert a record to version 2, which RocketMQ 5 writes."""
    fields = decode_record(made, 0, file="")
    values = {name: getattr(fields, name) for name in fields.__slots__}
    values |= {"magic": MESSAGE_MAGIC_V2, "size_bytes": fields.size_bytes + 1}
    return encode_message_record(type(fields)(**values))

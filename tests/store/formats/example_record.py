"""The example record of the specification, and variants of it."""

from typing import Any

from tornlog.store.formats.host import Host
from tornlog.store.formats.message import encode_record

VECTOR = bytes.fromhex(
    "00000070 daa320a7 3610a686 00000003 00000000 00000000 00000007 00000000"
    "00001000 00000000 00000174 876e8000 7f000001 0000c350 00000174 876e807b"
    "0a000001 00002a9f 00000000 00000000 00000000 00000005 68656c6c 6f025431"
    "000e5441 47530141 024b4559 53016b31"
)
"""112 bytes: topic T1, body hello, TAGS=A, KEYS=k1, queue 3, queue offset 7, physical offset 4096."""


def make_record(**changes: Any) -> bytearray:
    """Encode the example record with some fields changed."""
    fields: dict[str, Any] = {
        "topic": b"T1",
        "properties": b"TAGS\x01A\x02KEYS\x01k1",
        "body": b"hello",
        "queue_id": 3,
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp_ms": 1_600_000_000_000,
        "born_host": Host.parse("127.0.0.1|50000"),
        "store_timestamp_ms": 1_600_000_000_123,
        "store_host": Host.parse("10.0.0.1|10911"),
        "queue_offset": 7,
        "physical_offset": 4096,
    }
    return encode_record(**(fields | changes))

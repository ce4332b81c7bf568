"""Message properties: encodes and decodes the property string of a record.

    name 0x01 value 0x02 name 0x01 value ...

RocketMQ 4.9.1 to 4.9.8 writes 0x02 only between entries, and all other versions also after the last entry. Readers
accept both forms, and drop entries without a name or a value. The first 0x01 of an entry ends the name, so a value may
contain 0x01. If a name occurs twice, the later value counts. No other UTF-8 character contains these bytes, so the
rules are the same for bytes and text. No checksum protects properties on disk. Source: RocketMQ
MessageDecoder.messageProperties2String and string2messageProperties.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from .java_hash import java_hash

NAME_SEPARATOR = "\x01"
ENTRY_SEPARATOR = "\x02"

PROPERTY_KEYS = "KEYS"
PROPERTY_TAGS = "TAGS"
PROPERTY_WAIT = "WAIT"
PROPERTY_DELAY = "DELAY"
PROPERTY_UNIQ_KEY = "UNIQ_KEY"
PROPERTY_REAL_TOPIC = "REAL_TOPIC"
PROPERTY_REAL_QID = "REAL_QID"
PROPERTY_TRAN_MSG = "TRAN_MSG"
PROPERTY_PGROUP = "PGROUP"
PROPERTY_RETRY_TOPIC = "RETRY_TOPIC"
PROPERTY_ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
PROPERTY_TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
PROPERTY_TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_CLUSTER = "CLUSTER"
PROPERTY_MSG_REGION = "MSG_REGION"
PROPERTY_TRACE_ON = "TRACE_ON"
PROPERTY_INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
PROPERTY_INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
PROPERTY_TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
PROPERTY_TIMER_DELAY_MS = "TIMER_DELAY_MS"
PROPERTY_TIMER_DELIVER_MS = "TIMER_DELIVER_MS"

KEY_SEPARATOR = " "  # separates the keys in KEYS

_MAP_BUCKETS = 16
_MAP_BUCKETS_SEEN = (_MAP_BUCKETS, 8, 32, 64, 128)


def encode_properties(properties: Mapping[str, str], *, trailing_separator: bool = False) -> str:
    """Encode properties in the order of the mapping. With trailing_separator the text ends with 0x02.

    As in RocketMQ, there are no escapes, and entries that readers drop are written too.

    >>> encode_properties({"TAGS": "A", "KEYS": "k1"})
    'TAGS\\x01A\\x02KEYS\\x01k1'
    """
    text = ENTRY_SEPARATOR.join([f"{name}{NAME_SEPARATOR}{value}" for name, value in properties.items()])
    return text + ENTRY_SEPARATOR if trailing_separator and properties else text


def rebuild_properties(properties: Mapping[str, str], buckets: int = _MAP_BUCKETS) -> str:
    """Encode properties in the order of a Java HashMap, like RocketMQ for a changed property string.

    The number of buckets, at first `buckets`, doubles while there are more entries than 3/4 of this number. Entries are
    ordered by bucket, then by insertion. Source: Java SE, HashMap.hash and resize.
    """
    while 4 * len(properties) > 3 * buckets:
        buckets *= 2
    assert buckets & buckets - 1 == 0, buckets  # `_bucket_of_name` uses it as a mask
    names = _in_map_order(tuple(properties), buckets)
    return encode_properties({name: properties[name] for name in names})


@lru_cache(maxsize=256)
def _in_map_order(names: tuple[str, ...], buckets: int) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: _bucket_of_name(name, buckets)))


def map_buckets(names: Sequence[str]) -> int:
    """Return the bucket count of a Java map with this order of names, or else Java's default."""
    for buckets in _MAP_BUCKETS_SEEN:
        order = [_bucket_of_name(name, buckets) for name in names]
        if 4 * len(names) <= 3 * buckets and order == sorted(order):
            return buckets
    return _MAP_BUCKETS


def _bucket_of_name(name: str, buckets: int) -> int:
    code = java_hash(name) & 0xFFFFFFFF
    return (code ^ code >> 16) & buckets - 1


def decode_properties(text: str) -> dict[str, str]:
    """Decode a property string. Entries without a name or a value are dropped."""
    properties = {}
    for piece in text.split(ENTRY_SEPARATOR):
        name, _, value = piece.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def find_property(raw: bytes, name: bytes) -> bytes | None:
    """Return the value of one property without decoding other entries.

    `name` must not be empty or contain a separator.
    """
    key = name + b"\x01"
    at = raw.rfind(key)
    while at >= 0:
        if at == 0 or raw[at - 1] == 2:
            start = at + len(key)
            end = raw.find(b"\x02", start)
            value = raw[start:] if end < 0 else raw[start:end]
            if value:
                return value
        at = raw.rfind(key, 0, at + len(key) - 1)
    return None

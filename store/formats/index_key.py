"""Index keys: extracts the keys of a message and hashes them.

The keys of a message are the value of UNIQ_KEY and the non-empty parts of KEYS, split at each space. The hash of a key
is the absolute value of Java's hash of `topic#key`, or 0 if Java's hash is -2^31. Source: RocketMQ
IndexService.buildIndex and buildKey, IndexFile.indexKeyHashMethod.
"""

from operator import mul

from .java_hash import index_hash, java_hash
from .message import MAX_TOPIC_BYTES, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from .properties import KEY_SEPARATOR, PROPERTY_KEYS, PROPERTY_UNIQ_KEY, find_property
from .scan import ScannedRecord

MAYBE_KEYED = b"KEY"
"""Bytes that occur in the properties of every record that has a key."""

_KEYS = PROPERTY_KEYS.encode()
_UNIQ_KEY = PROPERTY_UNIQ_KEY.encode()
_KEYS_MARK, _UNIQ_KEY_MARK = _KEYS + b"\x01", _UNIQ_KEY + b"\x01"
_SPACE = KEY_SEPARATOR.encode()
_TOPICS_MAX = 10_000
_PLAIN_KEY_BYTES_MAX = 128
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_PLAIN_KEY_BYTES_MAX + 1)]
_WEIGHTS = [tuple(reversed(_POWERS[:length])) for length in range(_PLAIN_KEY_BYTES_MAX + 1)]
"""Factors of a key's characters in the hash. The index is the key length."""

_topics: dict[str, int] = {}  # cache: topic -> hash of `topic#`


def may_have_keys(record: ScannedRecord) -> bool:
    """Return whether the record may have keys. Rollback records are never indexed."""
    return MAYBE_KEYED in record.properties and record.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def keys_of(properties: bytes) -> list[bytes]:
    """Return the keys, UNIQ_KEY first, duplicates included."""
    keys = []
    if _UNIQ_KEY_MARK in properties:
        unique = find_property(properties, _UNIQ_KEY)
        if unique is not None:
            keys.append(unique)
    # This function parses the common case, in which KEYS comes first and once; `find_property` parses all others.
    user: bytes | None = None
    at = properties.rfind(_KEYS_MARK)
    if at == 0:
        end = properties.find(b"\x02")
        user = properties[len(_KEYS_MARK) :] if end < 0 else properties[len(_KEYS_MARK) : end]
    elif at > 0:
        user = find_property(properties, _KEYS)
    if user:
        user = user.strip(_SPACE)
        if _SPACE in user:
            keys += filter(None, user.split(_SPACE))
        elif user:
            keys.append(user)
    return keys


def key_hash(topic: str, key: bytes) -> int:
    """Return the hash of `topic#key`. Each undecodable byte counts as a surrogate escape.

    >>> key_hash("T1", b"k1"), key_hash("TopicTest", b"key")
    (79072524, 85128477)
    """
    length = len(key)
    if length > _PLAIN_KEY_BYTES_MAX or not key.isascii():
        return index_hash(f"{topic}#{key.decode(errors='surrogateescape')}")
    prefix = _topics.get(topic)
    if prefix is None:
        prefix = _cache_topic_hash(topic)
    h: int = (prefix * _POWERS[length] + sum(map(mul, key, _WEIGHTS[length]))) & 0xFFFFFFFF
    if h < 0x8000_0000:
        return h
    # Math.abs(Integer.MIN_VALUE) is negative. indexKeyHashMethod returns 0 in this case.
    return 0x1_0000_0000 - h if h > 0x8000_0000 else 0


def key_hashes(topic: str, properties: bytes) -> tuple[int, ...]:
    """Return the hashes in the order of `keys_of`."""
    return tuple([key_hash(topic, key) for key in keys_of(properties)])


def _cache_topic_hash(topic: str) -> int:
    h = java_hash(f"{topic}#")
    if len(topic) <= MAX_TOPIC_BYTES:  # longer topics occur only in queries
        if len(_topics) >= _TOPICS_MAX:
            _topics.clear()
        _topics[topic] = h
    return h

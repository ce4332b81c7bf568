"""Delay levels: parses the list of levels and computes the tags codes of queue entries.

Levels are numbered from 1 in the order of `messageDelayLevel`. Messages of level n are in queue n - 1 of the schedule
topic. The tagsCode of their queue entries is the delivery time in ms, not a hash. Source: RocketMQ
ScheduleMessageService.parseDelayLevel and computeDeliverTimestamp, CommitLog.checkMessageAndReturnSize.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from .consume_queue import tags_code
from .java_text import java_integer, java_trim
from .properties import PROPERTY_DELAY, PROPERTY_TAGS, find_property
from .scan import ScannedRecord

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNKNOWN_LEVEL_DELAY_MS = 1000  # RocketMQ ScheduleMessageService.computeDeliverTimestamp

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]+)([smhd])")
_TAGS = PROPERTY_TAGS.encode()
_TAGS_KEY = _TAGS + b"\x01"
_ENTRY_SEPARATOR = 2
_DELAY = PROPERTY_DELAY.encode()
_CODES_MAX = 16_384
_LONG_MAX = (1 << 63) - 1

_codes: dict[bytes, int] = {}  # cache: tag -> code


@lru_cache(maxsize=64)
def parse_delay_levels(text: str) -> Mapping[int, int]:
    """Return the delay of each level in ms. Raises ValueError with the wrong item.

    >>> parse_delay_levels("1s 2h")
    {1: 1000, 2: 7200000}
    """
    levels = {}
    for level, item in enumerate(filter(None, java_trim(text).split(" ")), start=1):
        match = _LEVEL.fullmatch(item)
        if match is None:
            raise ValueError(f"delay level {level}: expected a number and one of s m h d, found {item!r}")
        levels[level] = int(match[1]) * _UNIT_MS[match[2]]
    return levels


def delivery_tags_code(delay: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int | None:
    """Return the delivery time in ms for a DELAY value, or None if the value is not a level.

    Levels above the highest one count as the highest. A value that is not a number is ignored; RocketMQ regards such a
    record as corrupt and ends the log there.
    """
    level = min(_java_int(delay), max(delays, default=0))
    if level <= 0:
        return None
    deliver_at_ms = store_timestamp_ms + delays.get(level, UNKNOWN_LEVEL_DELAY_MS)
    # A negative code would be the address of an extension unit.
    return min(max(deliver_at_ms, 0), _LONG_MAX)


def delay_level(properties: bytes) -> int:
    """Return the value of DELAY, or 0 if DELAY is missing or not a number."""
    delay = find_property(properties, _DELAY)
    return 0 if delay is None else _java_int(delay)


def record_tags_code(record: ScannedRecord, delays: Mapping[int, int]) -> int:
    return entry_tags_code(record.topic, record.properties, record.store_timestamp_ms, delays)


def entry_tags_code(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
    """Return the same as `record_tags_code`, but faster."""
    # This function parses the common case, a single TAGS property; `find_property` parses all others.
    if topic == SCHEDULE_TOPIC:
        delay = find_property(properties, _DELAY)
        if delay is not None:
            deliver_at_ms = delivery_tags_code(delay, store_timestamp_ms, delays)
            if deliver_at_ms is not None:
                return deliver_at_ms
    at = properties.rfind(_TAGS_KEY)
    if at < 0:
        return 0
    tags: bytes | None = None
    if at == 0 or properties[at - 1] == _ENTRY_SEPARATOR:
        start = at + len(_TAGS_KEY)
        end = properties.find(_ENTRY_SEPARATOR, start)
        tags = properties[start:] if end < 0 else properties[start:end]
    if not tags:
        tags = find_property(properties, _TAGS)
        if tags is None:
            return 0
    code = _codes.get(tags)
    return _cache_tags_code(tags) if code is None else code


def _cache_tags_code(tags: bytes) -> int:
    if len(_codes) >= _CODES_MAX:  # producers can use any number of tags
        _codes.clear()
    code = _codes[tags] = tags_code(tags.decode(errors="surrogateescape"))
    return code


def _java_int(text: bytes) -> int:
    """Parse like Java's Integer.parseInt, but return 0 if Java throws an exception."""
    return java_integer(text.decode(errors="replace"), 32) or 0

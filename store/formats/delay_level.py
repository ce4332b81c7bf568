"""Delay levels: how they are spelled, and the tags code of a delayed record's queue entry.

Levels are numbered from 1 in the order of `messageDelayLevel`, and level n waits in queue n - 1 of the
schedule topic. The entry's tagsCode there is not a hash: it is the time of delivery in ms.
Source: RocketMQ ScheduleMessageService.parseDelayLevel and computeDeliverTimestamp,
CommitLog.checkMessageAndReturnSize.
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

_codes: dict[bytes, int] = {}  # of tags seen before


@lru_cache(maxsize=64)
def parse_delay_levels(text: str) -> Mapping[int, int]:
    """Return level -> delay in ms of a list like DEFAULT_DELAY_LEVELS. ValueError names what it cannot read.

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
    """Return the time of delivery in ms for the value of a DELAY property, None if that names no level.

    A level beyond the last counts as the last. RocketMQ takes a value that is no number for a broken record,
    where its log then ends; here it names no level.
    """
    level = min(_java_int(delay), max(delays, default=0))
    if level <= 0:
        return None
    deliver_at_ms = store_timestamp_ms + delays.get(level, UNKNOWN_LEVEL_DELAY_MS)
    # However far off the record's time is: a negative code would be taken for an address in the extension.
    return min(max(deliver_at_ms, 0), _LONG_MAX)


def delay_level(properties: bytes) -> int:
    """Return the level that a DELAY property asks for, 0 if there is none or its value is no number."""
    delay = find_property(properties, _DELAY)
    return 0 if delay is None else _java_int(delay)


def record_tags_code(record: ScannedRecord, delays: Mapping[int, int]) -> int:
    """Return the tagsCode of a record's consume queue entry. delays: level -> ms, see parse_delay_levels."""
    return entry_tags_code(record.topic, record.properties, record.store_timestamp_ms, delays)


def entry_tags_code(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
    """Return what record_tags_code does, for a record in parts: recovery asks this of every record of a log."""
    # An ordinary TAGS property is found in line; find_property knows the whole rule.
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
    return _remember_code(tags) if code is None else code


def _remember_code(tags: bytes) -> int:
    if len(_codes) >= _CODES_MAX:  # clients choose tags: the table must not grow without limit
        _codes.clear()
    code = _codes[tags] = tags_code(tags.decode(errors="surrogateescape"))
    return code


def _java_int(text: bytes) -> int:
    """Read what Java's Integer.parseInt would, 0 where it would throw."""
    return java_integer(text.decode(errors="replace"), 32) or 0

"""tag-code-by-code-point: a tag's code is made of characters, where Java has two code units for some."""

from collections.abc import Mapping
from dataclasses import replace

from ...store.formats.delay_level import SCHEDULE_TOPIC, entry_tags_code
from ...store.formats.properties import find_property
from ...store.log import recovery
from ...store.queues import dispatch
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _tags(properties: bytes) -> str:
    return (find_property(properties, b"TAGS") or b"").decode(errors="surrogateescape")


def _hash(text: str) -> int:
    h = 0
    for character in text:
        h = 31 * h + ord(character) & 0xFFFFFFFF
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


def _code(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
    if topic == SCHEDULE_TOPIC:
        return entry_tags_code(topic, properties, store_timestamp_ms, delays)
    return _hash(_tags(properties))


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, equal_sizes=(False,))


MUTANT = Mutant(
    "tag-code-by-code-point",
    "consume queue",
    "queue entries of tags beyond the BMP have a code that no subscriber asks for",
    (Patch(dispatch, "entry_tags_code", _code), Patch(recovery, "entry_tags_code", _code)),
    _narrow,
    ("CQ-VALID",),
)

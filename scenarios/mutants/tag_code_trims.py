"""tag-code-trims: a tag's code is that of the tag without the spaces around it."""

from collections.abc import Mapping
from dataclasses import replace

from ...store.formats.delay_level import SCHEDULE_TOPIC, entry_tags_code
from ...store.formats.java_hash import java_hash
from ...store.formats.properties import find_property
from ...store.log import recovery
from ...store.queues import dispatch
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _tags(properties: bytes) -> str:
    return (find_property(properties, b"TAGS") or b"").decode(errors="surrogateescape")


def _code(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
    if topic == SCHEDULE_TOPIC:
        return entry_tags_code(topic, properties, store_timestamp_ms, delays)
    return java_hash(_tags(properties).strip())


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, equal_sizes=(False,))


MUTANT = Mutant(
    "tag-code-trims",
    "consume queue",
    "queue entries of tags with spaces around them have the code of another tag",
    (Patch(dispatch, "entry_tags_code", _code), Patch(recovery, "entry_tags_code", _code)),
    _narrow,
    ("CQ-VALID",),
)

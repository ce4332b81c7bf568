"""Message filter: the interface of filters, and the filter by tags.

A filter first checks the queue entry, then the record. A queue contains only hashes of tags, so two tags with the same
hash both match, as in RocketMQ. The client compares the strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ..formats.consume_queue import ExtUnit
from ..formats.java_hash import java_hash
from ..formats.java_text import java_trim

_LOW_32_BITS = 0xFFFF_FFFF  # RocketMQ compares `tagsCode.intValue()`


class MessageFilter(Protocol):
    """Selects messages for a consumer (RocketMQ's MessageFilter)."""

    @property
    def reads_records(self) -> bool:
        """Whether the filter needs `matches_record`."""

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None) -> bool:
        """Return whether the message of a queue entry may match.

        `unit` is the message's extension unit. tags_code is None if the tag is unknown.
        """

    def matches_record(self, raw: bytes) -> bool:
        """Return whether an encoded record matches."""

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message matches, if its queue entry has matched."""


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A tag expression: `*`, empty, or tags joined by `||`."""

    expression: str
    codes: frozenset[int] | None
    """Low 32 bits of each tag's hash, or None if every message matches."""

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Parse a tag expression. The expression None matches every message."""
        if expression is None or expression == "*":  # most consumers
            return _EVERY_MESSAGE
        text = java_trim(expression or "*")
        tags = [tag for tag in map(java_trim, text.split("||")) if tag]  # FilterAPI.buildSubscriptionData
        if text == "*" or not tags:
            return cls(text, None)
        return cls(text, frozenset(java_hash(tag) & _LOW_32_BITS for tag in tags))

    @property
    def reads_records(self) -> bool:
        """Always False: the filter does not compare tag strings."""
        return False

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None = None) -> bool:
        return self.codes is None or tags_code is None or tags_code & _LOW_32_BITS in self.codes

    def matches_record(self, raw: bytes) -> bool:
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        return True


_EVERY_MESSAGE = TagFilter("*", None)

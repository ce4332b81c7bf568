"""Message filter: the interface of filters, and the filter by tags.

A filter is asked about the queue entry first, then about the record. A queue stores only tag hashes, so two tags with
the same hash both match, as in the broker; the client compares the strings.
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
        """Return whether `matches_record` must be called."""

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None) -> bool:
        """Return whether the message of a queue entry may match.

        `unit` is the message's unit in the queue's extension. Without a known tag, tags_code is None.
        """

    def matches_record(self, raw: bytes) -> bool:
        """Return whether a record matches."""

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with these properties matches, given that its queue entry does."""


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A tag expression: `*`, empty, or tags joined by `||`."""

    expression: str
    codes: frozenset[int] | None
    """Hashes of the tags, low 32 bits. None matches everything."""

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Parse an expression. None matches everything."""
        text = java_trim(expression or "*")
        tags = [tag for tag in map(java_trim, text.split("||")) if tag]  # as FilterAPI.buildSubscriptionData
        if text == "*" or not tags:
            return cls(text, None)
        return cls(text, frozenset(java_hash(tag) & _LOW_32_BITS for tag in tags))

    @property
    def reads_records(self) -> bool:
        """Return False: the broker does not compare strings."""
        return False

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None = None) -> bool:
        """Return whether an entry with this tagsCode may match."""
        return self.codes is None or tags_code is None or tags_code & _LOW_32_BITS in self.codes

    def matches_record(self, raw: bytes) -> bool:
        """Return True: the queue entry has decided."""
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return True: the queue entry has decided."""
        return True

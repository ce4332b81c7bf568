"""Message filter: what a pull asks, first about a queue entry, then about the record; and the filter by tags.

A queue distinguishes tags by hash only. Two tags with one hash both pass here, as in the broker; the client compares
the strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ..formats.consume_queue import ExtUnit
from ..formats.java_hash import java_hash
from ..formats.java_text import java_trim

_LOW_32_BITS = 0xFFFF_FFFF  # RocketMQ compares `tagsCode.intValue()`


class MessageFilter(Protocol):
    """Says which messages a consumer wants: RocketMQ's MessageFilter."""

    @property
    def reads_records(self) -> bool:
        """Return whether `matches_record` has anything to say."""

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None) -> bool:
        """Return whether the message of a queue entry may be wanted.

        tags_code is None where it is unknown; unit is what the queue's extension has of the message.
        """

    def matches_record(self, raw: bytes) -> bool:
        """Return whether the message of a record is wanted."""

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with these properties, whose queue entry matches, is wanted."""


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A tag expression: `*`, empty, or tags joined by `||`."""

    expression: str
    codes: frozenset[int] | None
    """Hashes of the tags, low 32 bits; None lets everything pass."""

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Parse an expression; None means everything."""
        text = java_trim(expression or "*")
        tags = [tag for tag in map(java_trim, text.split("||")) if tag]  # as FilterAPI.buildSubscriptionData
        if text == "*" or not tags:
            return cls(text, None)
        return cls(text, frozenset(java_hash(tag) & _LOW_32_BITS for tag in tags))

    @property
    def reads_records(self) -> bool:
        """Return False: the broker compares no strings."""
        return False

    def matches_queue(self, tags_code: int | None, unit: ExtUnit | None = None) -> bool:
        """Return whether an entry with this tagsCode may be one of the wanted."""
        return self.codes is None or tags_code is None or tags_code & _LOW_32_BITS in self.codes

    def matches_record(self, raw: bytes) -> bool:
        """Return True: what a queue entry says is all there is to it."""
        return True

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return True likewise."""
        return True

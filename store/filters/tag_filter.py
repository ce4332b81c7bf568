"""Subscriptions: which tags a consumer wants, as the queue can tell them apart: by hash.

Two tags with one hash both pass here, as in the broker; the client compares the strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..formats.consume_queue_ext import ExtUnit
from ..formats.java_hash import java_hash

_LOW_32_BITS = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A tag expression: `*`, empty, or tags joined by `||`."""

    expression: str
    codes: frozenset[int] | None
    """Hashes of the tags, low 32 bits; None lets everything pass."""

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Parse an expression; None means everything."""
        text = (expression or "*").strip()
        tags = [tag.strip() for tag in text.split("||") if tag.strip()]
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

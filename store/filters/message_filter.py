"""What a pull asks of a filter: first about a queue entry, then, if that is not enough, about the record."""

from collections.abc import Mapping
from typing import Protocol

from ..formats.consume_queue_ext import ExtUnit


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

"""Returned messages: messages that consumers sent back to a broker for a retry.

    sent back    waits for its delay level in the schedule topic; REAL_TOPIC names the group's retry topic
    due          in the retry topic
    hopeless     after too many retries, at once in the dead letter topic

The new record has the body, flag, hosts and born time of the message, and reconsumeTimes greater by one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .reader import LogRecord, property_of

RETURNED = ("%RETRY%", "%DLQ%")
ADDED = ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC", "REAL_QID")
"""Properties that the store adds to the record of a returned message."""
_PREFIXES = tuple(prefix.encode() for prefix in RETURNED)


def is_returned(record: LogRecord) -> bool:
    if record.topic == SCHEDULE_TOPIC:
        return property_of(record.properties, b"REAL_TOPIC").startswith(_PREFIXES)
    return record.topic.startswith(RETURNED)


@dataclass(slots=True, eq=False)
class SentBackMessages:
    """The names of puts that were sent back with answer SUCCESS, and must be stored again."""

    kept: set[str] = field(default_factory=set)
    """Names of puts sent back since the last start, which a power cut may lose."""
    durable: set[str] = field(default_factory=set)
    levels: dict[str, set[int]] = field(default_factory=dict)
    """Name -> the delay levels of all requests, answered or not."""

    def record_request(self, name: str, level: int) -> None:
        self.levels.setdefault(name, set()).add(level)

    @property
    def names_to_store_again(self) -> list[str]:
        return sorted(self.kept | self.durable)

    def note_stop(self) -> None:
        self.durable |= self.kept
        self.kept.clear()

    def note_crash(self, *, keeps_all: bool) -> None:
        """Answers do not contain the new record's log offset, so either all records must survive a crash or none."""
        if not keeps_all:
            self.kept.clear()

    def note_recovery(self, found: Collection[str], *, durable: bool, sync_flush: bool) -> None:
        if durable:
            self.durable = set(found)
        elif sync_flush:
            self.durable |= self.kept
        self.kept.clear()

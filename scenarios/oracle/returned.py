"""Returned messages: messages that consumers sent back to a broker for a retry.

    sent back    waits for its delay level in the schedule topic; REAL_TOPIC names the group's retry topic
    due          in the retry topic
    hopeless     after too many retries, at once in the dead letter topic

The new record has the body, flag, hosts and born time of the message, and reconsumeTimes greater by one. A request
names its message by log offset. A consumer may send the new record back, too, until it is hopeless.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .reader import LogRecord, property_of

RETURNED = ("%RETRY%", "%DLQ%")
ADDED = ("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC", "REAL_QID")
"""Properties that the store adds to the record of a returned message."""
FIRST_LEVEL = 3
"""The delay level that a broker chooses for the first retry."""
_PREFIXES = tuple(prefix.encode() for prefix in RETURNED)


def is_returned(record: LogRecord) -> bool:
    if record.topic == SCHEDULE_TOPIC:
        return property_of(record.properties, b"REAL_TOPIC").startswith(_PREFIXES)
    return record.topic.startswith(RETURNED)


@dataclass(slots=True, eq=False)
class SendBackRequest:
    """A request to deliver a message again."""

    group: str
    delay_level: int
    """0: the broker chooses. Negative: the message is hopeless."""
    retries_max: int
    retry_queues: int = 1
    """Without a queue for retries, the broker answers SUCCESS and stores nothing."""
    is_kept: bool = False
    """Whether the answer was SUCCESS, and no crash since may have lost the new record."""

    def topic_after(self, reconsume_times: int) -> str | None:
        """Return the topic for a message with this number of retries, None if the broker stores nothing."""
        if not self.retry_queues:
            return None
        is_hopeless = self.delay_level < 0 or reconsume_times >= self.retries_max
        return RETURNED[is_hopeless] + self.group

    def level_after(self, reconsume_times: int, levels: int) -> int:
        return min(self.delay_level or FIRST_LEVEL + reconsume_times, levels)


@dataclass(slots=True, eq=False)
class SentBackMessages:
    """The names of puts that were sent back with answer SUCCESS, and must be stored again."""

    kept: set[str] = field(default_factory=set)
    """Names of puts sent back since the last start, which a power cut may lose."""
    durable: set[str] = field(default_factory=set)
    requests: dict[int, list[SendBackRequest]] = field(default_factory=dict)
    """Log offset of a message -> all requests to deliver it again."""

    def add_request(self, log_offset: int, request: SendBackRequest) -> None:
        self.requests.setdefault(log_offset, []).append(request)

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
            for request in (one for each in self.requests.values() for one in each):
                request.is_kept = False

    def note_recovery(self, found: Collection[str], *, durable: bool, sync_flush: bool) -> None:
        if durable:
            self.durable = set(found)
        elif sync_flush:
            self.durable |= self.kept
        self.kept.clear()

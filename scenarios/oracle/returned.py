"""Returned messages: messages that consumers sent back to a broker for a retry.

    sent back    waits for its delay level in the schedule topic; REAL_TOPIC names the group's retry topic
    due          in the retry topic
    dead         after too many retries, at once in the dead letter topic
    own send     a consumer sends the message to the retry topic itself; if dead, the broker delays it all the same

The new record has the body, flag, hosts and born time of the message, and reconsumeTimes greater by one. A request
names its message by log offset. A consumer may send the new record back, too, until it is dead. In its own send,
a consumer sets the number of retries; the record has the born time and host of this send.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .reader import LogRecord, property_of

RETURNED = ("%RETRY%", "%DLQ%")
ADDED = (
    *("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC", "REAL_QID"),
    *("RECONSUME_TIME", "MAX_RECONSUME_TIMES"),
)
"""Properties that the store or an own send adds to the record of a returned message."""
FIRST_LEVEL = 3
"""The delay level that a broker chooses for the first retry."""
_PREFIXES = tuple(prefix.encode() for prefix in RETURNED)


def is_returned(record: LogRecord) -> bool:
    if record.topic == SCHEDULE_TOPIC:
        return property_of(record.properties, b"REAL_TOPIC").startswith(_PREFIXES)
    return record.topic.startswith(RETURNED)


class RetryPlace(NamedTuple):
    """Where the broker stores a message again."""

    topic: str
    is_delayed: bool
    """Whether the record waits in the schedule topic first."""

    @classmethod
    def of_record(cls, record: LogRecord) -> "RetryPlace":
        is_delayed = record.topic == SCHEDULE_TOPIC
        return cls(property_of(record.properties, b"REAL_TOPIC").decode() if is_delayed else record.topic, is_delayed)


def is_due_copy(record: LogRecord) -> bool:
    """Return whether the record was delivered after a delay, so that it names its own topic in REAL_TOPIC.

    The retry topic has no other records.
    """
    return (
        record.topic.startswith(RETURNED[0]) or property_of(record.properties, b"REAL_TOPIC") == record.topic.encode()
    )


@dataclass(slots=True, eq=False)
class SendBackRequest:
    """A request to deliver a message again."""

    group: str
    delay_level: int
    """0: the broker chooses. Negative: the message is dead."""
    retries_max: int
    retry_queues: int = 1
    """Without a queue for retries, the broker answers SUCCESS and stores no record."""
    names_maximum: bool = True
    """Whether a client that can send its maximum of retries does so."""
    is_kept: bool = False
    """Whether the answer was SUCCESS, and no crash since may have lost the new record."""

    def place_after(self, reconsume_times: int) -> RetryPlace | None:
        """Return the place for a message with this number of retries, None if the broker stores no record."""
        if not self.retry_queues:
            return None
        is_dead = self.delay_level < 0 or reconsume_times >= self.retries_max
        return RetryPlace(RETURNED[is_dead] + self.group, is_delayed=not is_dead)

    def level_after(self, reconsume_times: int, levels: int) -> int:
        return min(self.delay_level or FIRST_LEVEL + reconsume_times, levels)


@dataclass(slots=True, eq=False)
class RetrySend(SendBackRequest):
    """A consumer's own send of a message to the retry topic."""

    times: int = 0
    """The number of retries, which the new record has. From the maximum on, the message is dead."""
    born: tuple[int, bytes] = (0, b"")
    """Time in ms and address of the consumer."""

    def place_after(self, reconsume_times: int) -> RetryPlace:
        return RetryPlace(RETURNED[self.times >= self.retries_max] + self.group, is_delayed=True)

    def level_after(self, reconsume_times: int, levels: int) -> int:
        return min(self.delay_level, levels)


@dataclass(slots=True, eq=False)
class SentBackMessages:
    """The names of puts that were sent back with answer SUCCESS, and must be stored again."""

    kept: set[str] = field(default_factory=set)
    """Names of puts sent back since the last start, which a power cut may lose."""
    durable: set[str] = field(default_factory=set)
    requests: dict[int, list[SendBackRequest]] = field(default_factory=dict)
    """Log offset of a message -> all requests to deliver it again."""

    sends: dict[str, list[RetrySend]] = field(default_factory=dict)
    """The name of a put -> all own sends of consumers."""
    queues_max: dict[str, int] = field(default_factory=dict)
    """Retry topic -> the most queues that an operator has given it."""

    def add_request(self, log_offset: int, request: SendBackRequest) -> None:
        self.requests.setdefault(log_offset, []).append(request)

    def add_send(self, name: str, send: RetrySend) -> None:
        self.sends.setdefault(name, []).append(send)

    def has_send(self, name: str, born: tuple[int, bytes]) -> bool:
        """Return whether a consumer sent the put itself at this time from this address."""
        return any(send.born == born for send in self.sends.get(name, ()))

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
            for request in chain(*self.requests.values(), *self.sends.values()):
                request.is_kept = False

    def note_recovery(self, found: Collection[str], *, durable: bool, sync_flush: bool) -> None:
        if durable:
            self.durable = set(found)
        elif sync_flush:
            self.durable |= self.kept
        self.kept.clear()

"""Sent messages: what producers of a run send, where it is for clients, and how to know it again in a record.

A message is known by its body, which begins with its name. It may wait as a half message, or with a delay, before it
comes to the topic it was sent to, and stand in the log once more when a consumer has sent it back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.half_message import GIVEN_UP_TOPIC, HALF_TOPIC
from ...oracle.evidence import Violation
from ...oracle.put_entry import PLAIN, PutContent, differences
from ...oracle.recovered import FoundRecord
from .message_options import PLAIN_OPTIONS, MessageOptions

_OF_HALVES = (HALF_TOPIC, GIVEN_UP_TOPIC)
WAITING = (*_OF_HALVES, SCHEDULE_TOPIC)
"""Where messages are before they come to the topic that they were sent to."""
AGAIN = ("%RETRY%", "%DLQ%")
"""How topics begin where messages are that were sent back: to be given again, or too often by then."""


class MessagePlace(NamedTuple):
    """Where a message is for clients."""

    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id} @ {self.queue_offset}"


@dataclass(slots=True)
class Send:
    """One message, as its producer sends it: maybe several times."""

    name: str
    body: bytes
    answered: int = 0
    """How often it was answered SUCCESS."""
    maybe: int = 0
    """How often it was sent, or its half message committed, and not answered, or not so that anything follows."""
    is_half: bool = False
    """Whether it is sent as a half message."""
    commits: bool = False
    """Whether its producer commits it, then."""
    given: PutContent = PLAIN
    """What it has beside its body, but for the time it was born: each time it is sent that is another."""
    born_ms: list[int] = field(default_factory=list)
    """Those times."""
    options: MessageOptions = PLAIN_OPTIONS
    asked_ns: int | None = None
    """When it was first sent."""
    is_insisted_on: bool = False
    """Whether it was answered when all was well again, so that nothing excuses giving it up."""


def found_places(records: list[FoundRecord]) -> dict[MessagePlace, FoundRecord]:
    """Return the records of users' topics by their places; of two that say the same, the first is there."""
    of_users = [(found, found.record) for found in reversed(records) if is_of_users(found.record.topic)]
    return {MessagePlace(one.topic, one.queue_id, one.queue_offset): found for found, one in of_users}


def topic_of_users(number: int) -> str:
    """Return the name of a topic that producers send to."""
    return f"T{number}"


def is_of_users(topic: str) -> bool:
    """Return whether it is one of those, and none of the broker's own."""
    return topic[:1] == "T" and topic[1:].isdigit()


def is_sent_back(found: FoundRecord) -> bool:
    """Return whether a record is there because a consumer sent its message back."""
    record = found.record
    waits = record.topic == SCHEDULE_TOPIC and any(
        f"REAL_TOPIC\1{prefix}".encode() in record.properties for prefix in AGAIN
    )
    return waits or record.topic.startswith(AGAIN)


def body_of(name: str, size_bytes: int) -> bytes:
    """Return a body that has the message's name and differs from all others."""
    head = f"{name}|".encode()
    return (head * (size_bytes // len(head) + 1))[: max(size_bytes, len(head))]


def name_in(body: bytes) -> str:
    """Return the name of the message that a body is of."""
    return body.partition(b"|")[0].decode("ascii", "replace")


def unsent(place: MessagePlace, body: bytes) -> Violation:
    """Return what is wrong with a body at a place that no producer has sent."""
    summary = f"what is at {place} was never sent"
    return Violation("ONCE", summary, field="body", expected="a body that was sent", found=repr(body[:40]))


def check_unchanged(
    send: Send, found: FoundRecord, store_hosts: Sequence[tuple[bytes, int]], *, tears: bool
) -> Iterator[Violation]:
    """Yield what of a message is not stored as it was sent; of its client's port nobody knows.

    store_hosts: who has stored messages; tears: whether a power cut may tear records where no recovery can see it.
    """
    record, found_head = found.record, found.record.head
    if not send.born_ms:
        return  # nobody says when it was born, nor with what
    born_ms = found_head.born_timestamp_ms
    if born_ms not in send.born_ms:
        born_ms = send.born_ms[-1]
    address, _ = send.given.born_host
    port = int.from_bytes(found_head.born_host[-4:], "big")
    by = (host for host in store_hosts if host[0] + host[1].to_bytes(4, "big") == found_head.store_host)
    given = send.given._replace(
        born_timestamp_ms=born_ms, born_host=(address, port), store_host=next(by, store_hosts[0])
    )
    is_committed = send.is_half and record.topic not in _OF_HALVES
    summary = f"{send.name} is not stored as it was sent"
    head = given.head(send.body)
    for offset, name, expected, there in differences(record, given, head, is_committed=is_committed, tears=tears):
        yield Violation("PREFIX", summary, found.file, found.position + offset, name, expected, there)

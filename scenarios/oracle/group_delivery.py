"""Group delivery: the messages that a consumer group has handled, and those that it may miss.

If a consumer dies before it has handled a message, the group must receive the message again. If a recovery shortens a
queue, a consumer that was past the new end misses the messages that reuse those offsets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .recovered import FoundRecord

Queue = tuple[str, int]
"""A topic and the id of a queue."""


class MessagePlace(NamedTuple):
    """The place of a message for clients."""

    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id} @ {self.queue_offset}"


def is_of_users(topic: str) -> bool:
    """Return whether it is a topic of producers, not one of the broker's own."""
    return topic[:1] == "T" and topic[1:].isdigit()


def user_places(records: Sequence[FoundRecord]) -> Iterator[tuple[MessagePlace, FoundRecord]]:
    """Yield the records of users' topics with their places. Of two with the same place, only the first counts."""
    taken: set[MessagePlace] = set()
    for found in records:
        record = found.record
        place = MessagePlace(record.topic, record.queue_id, record.queue_offset)
        if is_of_users(record.topic) and place not in taken:
            taken.add(place)
            yield place, found


class GroupDelivery:
    """The progress of one group at one broker, and at the slave that takes its place."""

    def __init__(self) -> None:
        self.dealt_with: set[MessagePlace] = set()
        """The handled messages, without those that a crash has lost."""
        self._seen_until: dict[Queue, int] = {}
        self._excused_until: dict[Queue, int] = {}
        self._recovered_ends: list[tuple[int, dict[Queue, int]]] = []
        """For each recovery: the life that it began, and the ends of non-empty queues."""

    def is_owed(self, place: MessagePlace) -> bool:
        """Return whether the group still has to handle the message at a place."""
        return place not in self.dealt_with and place.queue_offset >= self._excused_until.get(place[:2], 0)

    def deal_with(self, places: Iterable[MessagePlace]) -> None:
        """Record that a consumer has handled messages."""
        self.dealt_with.update(places)

    def pass_over(self, queue: Queue, until: int, *, asked_in: int) -> None:
        """Record that a consumer goes on at an offset, by the answer of a life.

        If a later recovery has found a shorter queue, the consumer misses the messages that reuse the offsets.
        """
        self._seen_until[queue] = max(self._seen_until.get(queue, 0), until)
        if any(life > asked_in and ends.get(queue, 0) < until for life, ends in self._recovered_ends):
            self._excuse(queue, until)

    def note_recovery(self, life: int, places: Iterable[MessagePlace], ends: Mapping[Queue, int]) -> dict[Queue, int]:
        """Record the messages that a recovery found, and return the ends of queues.

        ends: of queues, which may be empty because all messages have expired.
        """
        found, ends = set(places), dict(ends)
        for place in found:
            ends[place[:2]] = max(ends.get(place[:2], 0), place.queue_offset + 1)
        self.dealt_with &= found
        self._recovered_ends.append((life, ends))
        for queue, seen_until in self._seen_until.items():
            if seen_until > ends.get(queue, 0):
                self._excuse(queue, seen_until)
        return ends

    def _excuse(self, queue: Queue, until: int) -> None:
        self._excused_until[queue] = max(self._excused_until.get(queue, 0), until)

"""Group delivery: the messages that a consumer group has processed, and those that it may miss.

If a consumer dies before it has processed a message, the group must receive the message again. If a recovery shortens a
queue, new messages reuse offsets, and a consumer at a later offset misses them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .recovered import FoundRecord

Queue = tuple[str, int]
"""Topic and queue id."""


class MessagePlace(NamedTuple):
    """Topic, queue and offset, which identify a message for clients."""

    topic: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return f"queue offset {self.queue_offset} of {self.topic}/{self.queue_id}"


def is_of_users(topic: str) -> bool:
    """Return whether a topic belongs to users. The broker owns all other topics."""
    return topic[:1] == "T" and topic[1:].isdigit()


def user_places(records: Sequence[FoundRecord]) -> Iterator[tuple[MessagePlace, FoundRecord]]:
    """Yield the records of users' topics with topic, queue and offset; the first record if several share these."""
    taken: set[MessagePlace] = set()
    for found in records:
        record = found.record
        place = MessagePlace(record.topic, record.queue_id, record.queue_offset)
        if is_of_users(record.topic) and place not in taken:
            taken.add(place)
            yield place, found


class GroupDelivery:
    """The progress of a group at a broker, and at the slave that replaces it."""

    def __init__(self) -> None:
        self.dealt_with: set[MessagePlace] = set()
        """Processed messages that no crash has lost."""
        self._seen_until: dict[Queue, int] = {}
        self._excused_until: dict[Queue, int] = {}
        self._recovered_ends: list[tuple[int, dict[Queue, int]]] = []
        """For each recovery, the number of the store start, and the ends of non-empty queues."""

    def is_owed(self, place: MessagePlace) -> bool:
        return place not in self.dealt_with and place.queue_offset >= self._excused_until.get(place[:2], 0)

    def record_handled(self, places: Iterable[MessagePlace]) -> None:
        self.dealt_with.update(places)

    def record_position(self, queue: Queue, until: int, *, asked_in: int) -> None:
        """Record the offset at which a consumer continues, as answered after the start `asked_in`."""
        self._seen_until[queue] = max(self._seen_until.get(queue, 0), until)
        if any(life > asked_in and ends.get(queue, 0) < until for life, ends in self._recovered_ends):
            self._excuse_skipped(queue, until)

    def note_recovery(self, life: int, places: Iterable[MessagePlace], ends: Mapping[Queue, int]) -> dict[Queue, int]:
        """Record the messages that a recovery found, and return the ends of queues.

        ends: the known queue ends, also of queues without unexpired messages.
        """
        found, ends = set(places), dict(ends)
        for place in found:
            ends[place[:2]] = max(ends.get(place[:2], 0), place.queue_offset + 1)
        self.dealt_with &= found
        self._recovered_ends.append((life, ends))
        for queue, seen_until in self._seen_until.items():
            if seen_until > ends.get(queue, 0):
                self._excuse_skipped(queue, seen_until)
        return ends

    def _excuse_skipped(self, queue: Queue, until: int) -> None:
        self._excused_until[queue] = max(self._excused_until.get(queue, 0), until)

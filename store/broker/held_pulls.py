"""The pulls that wait, by queue, by connection, and by when their time is over."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeVar

from ..filters.message_filter import MessageFilter
from ..formats.remoting.command import RemotingCommand
from ..queues.dispatch import MessageArrival
from .channel import Channel

Queue = tuple[str, int]
Key = TypeVar("Key")
_LEFTOVERS_MAX = 1024


@dataclass(frozen=True, slots=True, eq=False)
class HeldPull:
    """One pull that waits."""

    request: RemotingCommand
    channel: Channel
    queue: Queue
    """Topic and queue id."""
    offset: int
    wanted: MessageFilter
    due_ns: int
    """When it is answered at the latest, by the monotonic clock."""

    def wants(self, arrival: MessageArrival) -> bool:
        """Return whether a message in its queue ends its wait."""
        return (
            arrival.next_offset > self.offset
            and self.wanted.matches_queue(arrival.tags_code, None)
            and self.wanted.matches_properties(arrival.properties)
        )


class HeldPulls:
    """All of them, in order of arrival wherever several are returned. Belongs to whoever holds the service's lock."""

    def __init__(self) -> None:
        self.count = 0
        self._of_queue: dict[Queue, dict[HeldPull, None]] = {}
        self._of_channel: dict[Channel, dict[HeldPull, None]] = {}
        self._due: list[tuple[int, int, HeldPull]] = []
        """A heap, with some that have been taken since."""
        self._numbers = count()

    def __contains__(self, queue: Queue) -> bool:
        """Return whether any waits for a queue. May be asked without the lock."""
        return queue in self._of_queue

    def add(self, pull: HeldPull) -> None:
        """Let a pull wait."""
        self._of_queue.setdefault(pull.queue, {})[pull] = None
        self._of_channel.setdefault(pull.channel, {})[pull] = None
        heappush(self._due, (pull.due_ns, next(self._numbers), pull))
        self.count += 1

    def take(self, pulls: Iterable[HeldPull]) -> list[HeldPull]:
        """Let pulls wait no more, and return those of them that did."""
        taken = [pull for pull in pulls if _removed(self._of_queue, pull.queue, pull)]
        for pull in taken:
            _removed(self._of_channel, pull.channel, pull)
        self.count -= len(taken)
        if len(self._due) > 2 * self.count + _LEFTOVERS_MAX:
            self._due = [each for each in self._due if each[2] in self._of_queue.get(each[2].queue, ())]
            heapify(self._due)
        return taken

    def of_queue(self, queue: Queue) -> list[HeldPull]:
        """Return those that wait for a queue."""
        return list(self._of_queue.get(queue, ()))

    def of_channel(self, channel: Channel) -> Sequence[HeldPull]:
        """Return those that came over a connection."""
        return list(self._of_channel.get(channel, ()))

    def count_of(self, channel: Channel) -> int:
        """Return how many came over a connection."""
        return len(self._of_channel.get(channel, ()))

    @property
    def queues(self) -> list[Queue]:
        """Return the queues that are waited for."""
        return list(self._of_queue)

    def take_due(self, now_ns: int) -> list[HeldPull]:
        """Let those wait no more whose time is over, and return them."""
        due = []
        while self._due and self._due[0][0] <= now_ns:
            due.append(heappop(self._due)[2])
        return self.take(due)

    def first_due_ns(self, latest_ns: int) -> int:
        """Return when to take the next of them, latest_ns at the latest."""
        return min(self._due[0][0], latest_ns) if self._due else latest_ns


def _removed(table: dict[Key, dict[HeldPull, None]], key: Key, pull: HeldPull) -> bool:
    pulls = table.get(key, {})
    if pull not in pulls:
        return False
    del pulls[pull]
    if not pulls:
        del table[key]
    return True

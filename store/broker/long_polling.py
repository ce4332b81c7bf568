"""Long polling: holds pulls until messages arrive.

If a pull finds no message, the service holds it until a matching message arrives or the pull times out. The broker then
runs the pull again, and sends the result even if it is empty. Every 5 s the service checks all queues with held pulls,
in case it missed an arrival.
Source: RocketMQ PullRequestHoldService, ManyPullRequest, NotifyMessageArrivingListener.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeVar

from ..filters.message_filter import MessageFilter
from ..formats.remoting.command import RemotingCommand
from ..plugins import AnyMessageStore
from ..queues.dispatch import MessageArrival
from ..service import Service
from ..world import World
from .broker_config import BrokerConfig
from .router import Channel

Key = TypeVar("Key")
_LEFTOVERS_MAX = 1024
SCAN_MS = 5_000  # RocketMQ PullRequestHoldService.run
_NS_PER_MS = 1_000_000

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class HeldPull:
    """A held pull."""

    request: RemotingCommand
    channel: Channel
    queue: Queue
    """(topic, queue id)"""
    offset: int
    wanted: MessageFilter
    due_ns: int
    """Deadline on the monotonic clock."""

    def is_ended_by(self, arrival: MessageArrival) -> bool:
        """Return whether the pull wants the message that arrived."""
        return (
            arrival.next_offset > self.offset
            and self.wanted.matches_queue(arrival.tags_code, None)
            and self.wanted.matches_properties(arrival.properties)
        )


class HeldPullTable:
    """All held pulls, the oldest first. The service's lock guards the table.

    Invariant: the table by queue and the table by connection each contain every pull once. `count` is the number of
    pulls.
    """

    def __init__(self) -> None:
        self.count = 0
        self._of_queue: dict[Queue, dict[HeldPull, None]] = {}
        self._of_channel: dict[Channel, dict[HeldPull, None]] = {}
        self._due: list[tuple[int, int, HeldPull]] = []
        """Heap of deadlines, which may contain removed pulls."""
        self._numbers = count()

    def __contains__(self, queue: Queue) -> bool:
        """Needs no lock."""
        return queue in self._of_queue

    def add(self, pull: HeldPull) -> None:
        assert pull not in self._of_queue.get(pull.queue, ()), pull
        self._of_queue.setdefault(pull.queue, {})[pull] = None
        self._of_channel.setdefault(pull.channel, {})[pull] = None
        heap = self._due
        heappush(heap, (pull.due_ns, next(self._numbers), pull))
        self.count = count = self.count + 1
        assert count <= len(heap), (count, len(heap))

    def remove_pulls(self, pulls: Iterable[HeldPull]) -> list[HeldPull]:
        """Return the pulls that were in the table."""
        # First from the table by connection, because `held_pulls_of` needs no lock, and must return no removed pull.
        taken = [pull for pull in pulls if _remove_from_table(self._of_channel, pull.channel, pull)]
        for pull in taken:
            was_held = _remove_from_table(self._of_queue, pull.queue, pull)
            assert was_held, pull
        self.count -= len(taken)
        assert self.count >= len(self._of_queue), (self.count, len(self._of_queue))
        # Rebuild the heap only if most of its pulls are removed, because removing one pull costs as much as a rebuild.
        if len(self._due) > 2 * self.count + _LEFTOVERS_MAX:
            self._due = [each for each in self._due if each[2] in self._of_queue.get(each[2].queue, ())]
            heapify(self._due)
        return taken

    def pulls_of_queue(self, queue: Queue) -> list[HeldPull]:
        return list(self._of_queue.get(queue, ()))

    def pulls_of_channel(self, channel: Channel) -> Sequence[HeldPull]:
        return list(self._of_channel.get(channel, ()))

    def count_of(self, channel: Channel) -> int:
        return len(self._of_channel.get(channel, ()))

    @property
    def queues(self) -> list[Queue]:
        return list(self._of_queue)

    def take_due(self, now_ns: int) -> list[HeldPull]:
        due = []
        while self._due and self._due[0][0] <= now_ns:
            due.append(heappop(self._due)[2])
        return self.remove_pulls(due)

    def first_due_ns(self, latest_ns: int) -> int:
        return min(self._due[0][0], latest_ns) if self._due else latest_ns


def _remove_from_table(table: dict[Key, dict[HeldPull, None]], key: Key, pull: HeldPull) -> bool:
    pulls = table.get(key, {})
    if pull not in pulls:
        return False
    del pulls[pull]
    if not pulls:
        del table[key]
    return True


class PullRequestHoldService(Service):
    """Holds pulls and runs them again. Thread-safe."""

    name = "pull request hold"

    def __init__(self, world: World, store: AnyMessageStore, config: BrokerConfig) -> None:
        super().__init__(world)
        self.answer: Callable[[RemotingCommand, Channel], None] = lambda request, channel: None
        self.last_error: Exception | None = None
        self._store = store
        self._config = config
        self._held = HeldPullTable()
        self._ready: list[HeldPull] = []
        """Pulls to run again."""
        self._is_released = False
        self._lock = world.tasks.lock(self.name)
        self._scan_ns = 0
        """Time of the next check of all queues."""
        self._wake_ns = 0
        """The latest time at which the task wakes up."""

    @property
    def held_count(self) -> int:
        return self._held.count

    def hold_pull(self, pull: HeldPull) -> bool:
        """Return False if the service holds too many pulls or is stopping."""
        config, held = self._config, self._held
        with self._lock:
            if self._is_released or held.count >= config.held_pulls_max:
                return False
            if held.count_of(pull.channel) >= config.held_pulls_of_client_max:
                return False
            held.add(pull)
            # If the wake-up is overdue, the task may have been delayed before its wait, and would wake up later.
            is_first = pull.due_ns < self._wake_ns or self._wake_ns <= self.world.clock.monotonic_ns()
        # A message may have arrived, or the connection may have ended, before the pull was in the table.
        if self._store.get_max_offset_in_queue(*pull.queue) > pull.offset:
            self._schedule_answers([pull])
        elif not pull.channel.is_open:
            self.forget_channel(pull.channel)
        elif is_first:
            self.wake()
        return True

    def awaits(self, topic: str, queue_id: int) -> bool:
        """Return whether the service holds a pull for the queue. `hold_pull` itself checks the queue of a new pull."""
        return (topic, queue_id) in self._held

    def held_pulls_of(self, channel: Channel) -> Sequence[HeldPull]:
        """Return the pulls that a connection waits for. Needs no lock."""
        return self._held.pulls_of_channel(channel)

    def on_arriving(self, arrival: MessageArrival) -> None:
        queue = arrival.topic, arrival.queue_id
        if queue not in self._held:
            return
        with self._lock:
            ended = [pull for pull in self._held.pulls_of_queue(queue) if pull.is_ended_by(arrival)]
        if ended:
            self._schedule_answers(ended)

    def forget_channel(self, channel: Channel) -> None:
        with self._lock:
            self._held.remove_pulls(self._held.pulls_of_channel(channel))

    def release(self) -> None:
        """Answer all held pulls and hold no more, so that no client waits for a stopping broker."""
        with self._lock:
            self._is_released = True
            waiting = [pull for queue in self._held.queues for pull in self._held.pulls_of_queue(queue)]
            self._held.remove_pulls(waiting)
        for pull in waiting:
            self._answer_pull(pull)

    def _schedule_answers(self, pulls: Iterable[HeldPull]) -> None:
        with self._lock:
            self._ready += self._held.remove_pulls(pulls)
        self.wake()

    # -- its task ----------------------------------------------------------------------------------

    def run_once(self) -> None:
        with self._lock:
            self._wake_ns = self._held.first_due_ns(self._scan_ns)
        left_ns = self._wake_ns - self.world.clock.monotonic_ns()
        if left_ns > 0:
            self.signal.wait(-(-left_ns // _NS_PER_MS))  # rounded up, so that the first pull is due at the wake-up
        now_ns = self.world.clock.monotonic_ns()
        if now_ns >= self._scan_ns:
            self._end_due_waits()
            is_long = self._store.config.long_polling_enable
            interval_ms = SCAN_MS if is_long else self._config.short_polling_time_ms
            self._scan_ns = now_ns + interval_ms * _NS_PER_MS
        with self._lock:
            ready, self._ready = self._ready + self._held.take_due(now_ns), []
        for pull in ready:
            if self.is_stopping:
                return
            if pull.channel.is_open:
                self._answer_pull(pull)

    def _end_due_waits(self) -> None:
        with self._lock:
            queues = self._held.queues
        for queue in queues:
            end = self._store.get_max_offset_in_queue(*queue)
            with self._lock:
                ended = [pull for pull in self._held.pulls_of_queue(queue) if end > pull.offset]
                self._ready += self._held.remove_pulls(ended)

    def _answer_pull(self, pull: HeldPull) -> None:
        try:
            self.answer(pull.request, pull.channel)
        except Exception as error:  # the error affects only this client
            self.last_error = error
            pull.channel.close()

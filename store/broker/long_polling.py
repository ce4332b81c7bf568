"""Pulls that wait for messages: RocketMQ's PullRequestHoldService.

A pull that finds nothing new is held until a message arrives that it wants, or its time is over, and is then carried
out again; that time it is answered whatever it finds. Every 5 s all are looked at, for whom no arrival was told of.
Source: RocketMQ PullRequestHoldService, ManyPullRequest, NotifyMessageArrivingListener.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..arrival import MessageArrival
from ..filters.message_filter import MessageFilter
from ..formats.remoting.command import RemotingCommand
from ..message_store_protocol import MessageStoreProtocol
from ..service import Service
from ..world import World
from .broker_config import BrokerConfig
from .channel import Channel

SCAN_MS = 5_000
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class HeldPull:
    """One pull that waits."""

    request: RemotingCommand
    channel: Channel
    topic: str
    queue_id: int
    offset: int
    wanted: MessageFilter
    due_ns: int
    """When it is answered at the latest, by the monotonic clock."""

    @property
    def queue(self) -> tuple[str, int]:
        """Return what it waits for."""
        return self.topic, self.queue_id

    def wants(self, arrival: MessageArrival) -> bool:
        """Return whether a message in its queue ends its wait."""
        return (
            arrival.next_offset > self.offset
            and self.wanted.matches_queue(arrival.tags_code, None)
            and self.wanted.matches_properties(arrival.properties)
        )


class PullRequestHoldService(Service):
    """All pulls that wait, and one task that carries them out again. Any task may call it."""

    name = "pull request hold"

    def __init__(self, world: World, store: MessageStoreProtocol, config: BrokerConfig) -> None:
        super().__init__(world)
        self.answer: Callable[[RemotingCommand, Channel], None] = _nobody
        """Carries a pull out and sends the answer, whatever it is."""
        self.held_count = 0
        self._store = store
        self._config = config
        self._scan_ms = SCAN_MS if store.config.long_polling_enable else config.short_polling_time_ms
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._of_channel: dict[Channel, dict[HeldPull, None]] = {}
        self._ready: list[HeldPull] = []
        self._lock = world.tasks.lock(self.name)
        self._look_ns = 0
        """When to look at all of them again: when the first is due, or it is time for a scan."""

    def hold(self, pull: HeldPull) -> bool:
        """Let a pull wait; False if too many wait already."""
        with self._lock:
            of_channel = self._of_channel.get(pull.channel, {})
            too_many = len(of_channel) >= self._config.held_pulls_of_client_max
            if too_many or self.held_count >= self._config.held_pulls_max:
                return False
            self._held.setdefault(pull.queue, {})[pull] = None
            self._of_channel.setdefault(pull.channel, of_channel)[pull] = None
            self.held_count += 1
            wake = pull.due_ns < self._look_ns
            self._look_ns = min(self._look_ns, pull.due_ns)
        # What arrived since the pull was carried out has told nobody; whoever closed since has forgotten nothing.
        if self._store.get_max_offset_in_queue(pull.topic, pull.queue_id) > pull.offset:
            self._end_waits([pull])
        elif not pull.channel.is_open:
            self.forget(pull.channel)
        elif wake:
            self.wake()
        return True

    def on_arriving(self, arrival: MessageArrival) -> None:
        """End the waits for a message."""
        queue = arrival.topic, arrival.queue_id
        if queue not in self._held:
            return
        with self._lock:
            ended = [pull for pull in self._held.get(queue, ()) if pull.wants(arrival)]
        if ended:
            self._end_waits(ended)

    def forget(self, channel: Channel) -> None:
        """Drop the pulls of a connection that has ended."""
        with self._lock:
            for pull in list(self._of_channel.get(channel, ())):
                self._take(pull)

    def _end_waits(self, pulls: Iterable[HeldPull]) -> None:
        with self._lock:
            self._ready += [pull for pull in pulls if self._take(pull)]
        self.wake()

    def _take(self, pull: HeldPull) -> bool:
        """Hold a pull no more, with the lock held; False if another task has been faster."""
        pulls = self._held.get(pull.queue, {})
        if pull not in pulls:
            return False
        del pulls[pull]
        if not pulls:
            del self._held[pull.queue]
        of_channel = self._of_channel[pull.channel]
        del of_channel[pull]
        if not of_channel:
            del self._of_channel[pull.channel]
        self.held_count -= 1
        return True

    # -- its task ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Wait for a wait to end, and carry out what waits no more."""
        clock = self.world.clock
        left_ns = self._look_ns - clock.monotonic_ns()
        if left_ns > 0:
            self.signal.wait(-(-left_ns // _NS_PER_MS))
        if clock.monotonic_ns() >= self._look_ns:
            self._look()
        with self._lock:
            ready, self._ready = self._ready, []
        for pull in ready:
            if self.is_stopping:
                return
            if pull.channel.is_open:
                self.answer(pull.request, pull.channel)

    def _look(self) -> None:
        """End the waits that are over, or that an arrival should have ended."""
        now_ns = self.world.clock.monotonic_ns()
        with self._lock:
            queues = {queue: list(pulls) for queue, pulls in self._held.items()}
            self._look_ns = now_ns + self._scan_ms * _NS_PER_MS
        ended, first_due_ns = [], self._look_ns
        for (topic, queue_id), pulls in queues.items():
            end = self._store.get_max_offset_in_queue(topic, queue_id)
            for pull in pulls:
                if end > pull.offset or now_ns >= pull.due_ns:
                    ended.append(pull)
                else:
                    first_due_ns = min(first_due_ns, pull.due_ns)
        with self._lock:
            self._look_ns = min(self._look_ns, first_due_ns)
        if ended:
            self._end_waits(ended)


def _nobody(request: RemotingCommand, channel: Channel) -> None:
    """Answer no one."""

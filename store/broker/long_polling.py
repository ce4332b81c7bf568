"""Pulls that wait for messages: RocketMQ's PullRequestHoldService.

A pull that finds nothing new is held until a message arrives that it wants, or its time is over, and is then carried
out again; that time it is answered whatever it finds. Every 5 s all queues that are waited for are looked at, for
messages whose arrival nobody told of.
Source: RocketMQ PullRequestHoldService, ManyPullRequest, NotifyMessageArrivingListener.
"""

from collections.abc import Callable, Iterable

from ..formats.remoting.command import RemotingCommand
from ..message_store_protocol import MessageStoreProtocol
from ..queues.dispatch import MessageArrival
from ..service import Service
from ..world import World
from .broker_config import BrokerConfig
from .channel import Channel
from .held_pulls import HeldPull, HeldPulls

SCAN_MS = 5_000
_NS_PER_MS = 1_000_000


class PullRequestHoldService(Service):
    """All pulls that wait, and one task that carries them out again. Any task may call it."""

    name = "pull request hold"

    def __init__(self, world: World, store: MessageStoreProtocol, config: BrokerConfig) -> None:
        super().__init__(world)
        self.answer: Callable[[RemotingCommand, Channel], None] = _nobody
        """Carries a pull out and sends the answer, whatever it is."""
        self.last_error: Exception | None = None
        """What the last answer that could not be sent met."""
        self._store = store
        self._config = config
        self._held = HeldPulls()
        self._ready: list[HeldPull] = []
        """Those that wait no more, and are to be carried out again."""
        self._is_released = False
        self._lock = world.tasks.lock(self.name)
        self._scan_ns = 0
        """When all queues are looked at again."""
        self._wake_ns = 0
        """Until when the task sleeps at the most."""

    @property
    def held_count(self) -> int:
        """Return how many wait."""
        return self._held.count

    def hold(self, pull: HeldPull) -> bool:
        """Let a pull wait; False if too many wait already, or none is to wait any more."""
        config, held = self._config, self._held
        with self._lock:
            if self._is_released or held.count >= config.held_pulls_max:
                return False
            if held.count_of(pull.channel) >= config.held_pulls_of_client_max:
                return False
            held.add(pull)
            is_first = pull.due_ns < self._wake_ns
        # What arrived since the pull was carried out has told nobody; whoever closed since has forgotten nothing.
        if self._store.get_max_offset_in_queue(*pull.queue) > pull.offset:
            self._end_waits([pull])
        elif not pull.channel.is_open:
            self.forget(pull.channel)
        elif is_first:
            self.wake()
        return True

    def on_arriving(self, arrival: MessageArrival) -> None:
        """End the waits for a message."""
        queue = arrival.topic, arrival.queue_id
        if queue not in self._held:
            return
        with self._lock:
            ended = [pull for pull in self._held.of_queue(queue) if pull.wants(arrival)]
        if ended:
            self._end_waits(ended)

    def forget(self, channel: Channel) -> None:
        """Drop the pulls of a connection that has ended."""
        with self._lock:
            self._held.take(self._held.of_channel(channel))

    def release(self) -> None:
        """Answer all that wait, and let none wait any more: clients would wait on for a broker that stops."""
        with self._lock:
            self._is_released = True
            waiting = [pull for queue in self._held.queues for pull in self._held.of_queue(queue)]
            self._held.take(waiting)
        for pull in waiting:
            self._answer(pull)

    def _end_waits(self, pulls: Iterable[HeldPull]) -> None:
        with self._lock:
            self._ready += self._held.take(pulls)
        self.wake()

    # -- its task ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Wait for a wait to end, and carry out what waits no more."""
        with self._lock:
            self._wake_ns = self._held.first_due_ns(self._scan_ns)
        left_ns = self._wake_ns - self.world.clock.monotonic_ns()
        if left_ns > 0:
            self.signal.wait(-(-left_ns // _NS_PER_MS))
        now_ns = self.world.clock.monotonic_ns()
        if now_ns >= self._scan_ns:
            self._scan()
            self._scan_ns = now_ns + self._scan_interval_ms * _NS_PER_MS
        with self._lock:
            ready, self._ready = self._ready + self._held.take_due(now_ns), []
        for pull in ready:
            if self.is_stopping:
                return
            if pull.channel.is_open:
                self._answer(pull)

    @property
    def _scan_interval_ms(self) -> int:
        if self._store.config.long_polling_enable:
            return SCAN_MS
        return self._config.short_polling_time_ms

    def _scan(self) -> None:
        """End the waits that an arrival should have ended."""
        with self._lock:
            queues = self._held.queues
        for queue in queues:
            end = self._store.get_max_offset_in_queue(*queue)
            with self._lock:
                ended = [pull for pull in self._held.of_queue(queue) if end > pull.offset]
                self._ready += self._held.take(ended)

    def _answer(self, pull: HeldPull) -> None:
        try:
            self.answer(pull.request, pull.channel)
        except Exception as error:  # its client's matter: the others still wait
            self.last_error = error
            pull.channel.close()


def _nobody(request: RemotingCommand, channel: Channel) -> None:
    """Answer no one."""

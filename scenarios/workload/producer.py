"""A producer: sends messages one after another, each until its door is done with it, or it gives the message up."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from ...sim.choices import Stream
from ..claims.plan import Plan
from .drawing import Draft

_RETRY_MS = 50


class PutDoor(Protocol):
    """The way of a producer's messages to a store."""

    def draw(self, stream: Stream, name: str) -> Draft:
        """Draw the message of that name, or a batch."""

    def put(self, draft: Draft) -> bool:
        """Send a draft once, and judge the answer. Return False if it needs another send."""


class Producer:
    """Sends messages. A message that was begun is continued on the next machine."""

    def __init__(self, plan: Plan, stream: Stream, names: Iterable[str] = ()) -> None:
        """Make a producer that sends the messages of those names."""
        self.insists = False
        """Whether it gives no message up any more."""
        self.drawn = 0
        """How many messages it has begun with."""
        self.names = deque(names)
        """The messages that are neither answered nor given up."""
        self._plan = plan
        self._stream = stream
        self._next: Draft | None = None
        """The first of these, if it has been begun with."""

    def produce(self, door: PutDoor, sleep: Callable[[int], None]) -> None:
        """Send all messages, and pause now and then."""
        assert self._next is None or self.names, "a message that was begun is still to be sent"
        while self.names:
            stream = self._stream.within(self.names[0])
            if self._next is None:
                self._next = door.draw(stream, self.names[0])
                self.drawn += 1
            self._send(self._next, door, sleep)
            self.names.popleft()
            self._next = None
            if stream.chance(self._plan.pauses.chance, "pause"):
                sleep(stream.between(1, self._plan.pauses.ms_max, "pause ms"))

    def _send(self, draft: Draft, door: PutDoor, sleep: Callable[[int], None]) -> None:
        sends = 0
        while not door.put(draft):
            sends += 1
            if sends >= self._plan.broker.sends_max and not self.insists:
                return
            sleep(_RETRY_MS)

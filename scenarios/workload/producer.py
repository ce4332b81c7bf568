"""Producer: sends each message until no further send is needed, or gives the message up."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from ...sim.choices import Stream
from ..claims.plan import Plan
from .drawing import Draft

_RETRY_MS, _RETRY_MS_MAX = 50, 500
_RETRIES_AT_PACE = 20
"""After so many retries the pause grows. Otherwise a long refusal that stores each message fills the log."""


class PutSender(Protocol):
    """Sends a producer's messages to a store or to brokers."""

    def draw(self, stream: Stream, name: str) -> Draft:
        """Create the message with the given name, or a batch."""

    def put(self, draft: Draft) -> bool:
        """Send a draft once, and check the answer. Return False if the draft must be sent again."""


class Producer:
    """Sends messages. After its machine dies, the next machine continues with the same message."""

    def __init__(self, plan: Plan, stream: Stream, names: Iterable[str] = ()) -> None:
        self.insists = False
        """Whether the producer may no longer give a message up."""
        self.drawn = 0
        self.names = deque(names)
        """Messages that are neither answered nor given up."""
        self._plan = plan
        self._stream = stream
        self._next: Draft | None = None
        """The draft for the first of `names`; None before the draft exists."""

    def produce(self, sender: PutSender, sleep: Callable[[int], None]) -> None:
        assert self._next is None or self.names, "a message that was begun is still to be sent"
        while self.names:
            stream = self._stream.with_subject(self.names[0])
            if self._next is None:
                self._next = sender.draw(stream, self.names[0])
                self.drawn += 1
            self._send_until_done(self._next, sender, sleep)
            self.names.popleft()
            self._next = None
            if stream.chance(self._plan.pauses.chance, "pause"):
                sleep(stream.randint(1, self._plan.pauses.ms_max, "pause ms"))

    def _send_until_done(self, draft: Draft, sender: PutSender, sleep: Callable[[int], None]) -> None:
        sends = 0
        while not sender.put(draft):
            sends += 1
            if sends >= self._plan.broker.sends_max and not self.insists:
                return
            sleep(min(_RETRY_MS * (1 + sends // _RETRIES_AT_PACE), _RETRY_MS_MAX))

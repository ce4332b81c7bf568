"""Broker producer: sends over a network.

If the machine of a producer dies during a send, the next machine repeats the send.
"""

from collections.abc import Sequence
from functools import partial

from ...workload.drawing import Drawing
from ...workload.producer import Producer
from ...workload.skew import EVEN, Skew
from .broker_user import BrokerUser, UserContext
from .remoting_sender import RemotingSender, SentState, draw_behaviour
from .transaction_listener import TransactionListener

PRODUCERS_NET = 10
"""The last byte of the address of the first producer."""


class ProducerClient(BrokerUser):
    """Producers of one process, which share its machine and connections.

    If there are several, a send goes out before the answer to the last one.
    """

    def __init__(self, run: UserContext, number: int) -> None:
        super().__init__(run, f"producer-{number}", PRODUCERS_NET + number)
        self.answered_us: list[int] = []
        """The duration of each send with answer SUCCESS."""
        lanes = range(1, run.plan.broker.sends_in_flight)
        names = [self.name, *(f"{self.name}/{lane}" for lane in lanes)]
        self._lanes = [Producer(run.plan, run.streams(name)) for name in names]
        self._states = [SentState(number + lane) for lane in range(len(names))]
        self._drawing = Drawing(run.plan, run.streams, EVEN, draw_behaviour if run.plan.transactions.chance else None)
        self.machine.switch_on()

    @property
    def drawn_count(self) -> int:
        return sum(lane.drawn for lane in self._lanes)

    @property
    def unanswered_count(self) -> int:
        return sum(len(lane.names) for lane in self._lanes)

    def insist(self) -> None:
        """Give up no message from now on."""
        for lane in self._lanes:
            lane.insists = True

    def add_messages(self, names: Sequence[str], skew: Skew) -> None:
        """With an even skew, a producer uses its queues in rotation."""
        self._drawing.skew = skew
        for number, (lane, more) in enumerate(zip(self._lanes, self._more, strict=True)):
            lane.names += names[number :: len(self._lanes)]
            more.notify()

    def begin(self) -> None:
        spawn, numbers, listener = self.world.tasks.spawn, range(len(self._lanes)), None
        self._more = [self.world.tasks.signal(f"{self.name}{f'/{lane}' * (lane > 0)}") for lane in numbers]
        if self.plan.transactions.chance:
            listener = TransactionListener(self)
        for lane, producer in enumerate(self._lanes):
            sender = RemotingSender(self, producer, self._drawing, self._states[lane], listener, self.answered_us)
            spawn(f"send{f' {lane}' * (lane > 0)}", partial(self._send, lane, sender))

    def _send(self, lane: int, sender: RemotingSender) -> None:
        producer = self._lanes[lane]
        while True:
            while not producer.names:
                self._more[lane].wait(None)
            producer.produce(sender, self.world.tasks.sleep)

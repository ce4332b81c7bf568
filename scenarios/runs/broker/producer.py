"""Broker producer: sends over a network.

If the machine of a producer dies during a send, the next machine repeats the send.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ....sim.choices import Stream
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...workload.drawing import Drawing, topic_of_users
from ...workload.producer import Producer
from ...workload.skew import EVEN, Skew
from .account import BrokerAccount
from .client_machine import ClientMachine
from .remoting_door import RemotingSender, SentState, draw_behaviour
from .routes import Routes
from .transaction_listener import TransactionListener


class ProducerClient:
    """Producers of one process, which share its machine and connections.

    If there are several, a send goes out before the answer to the last one.
    """

    def __init__(
        self,
        plan: Plan,
        number: int,
        machine: ClientMachine,
        routes: Callable[[World], Routes],
        accounts: Mapping[str, BrokerAccount],
        streams: Callable[[str], Stream],
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        self.answered_us: list[int] = []
        """The duration of each send with answer SUCCESS."""
        names = [f"producer-{number}", *(f"producer-{number}/{lane}" for lane in range(1, plan.broker.sends_in_flight))]
        self._lanes = [Producer(plan, streams(name)) for name in names]
        self._states = [SentState(number + lane) for lane in range(len(names))]
        self._plan = plan
        self._number = number
        self._machine = machine
        self._make_routes = routes
        self._accounts = accounts
        self._report = report
        self._drawing = Drawing(plan, streams, EVEN, draw_behaviour if plan.transactions.chance else None)
        machine.begin = self._begin_on_machine
        machine.switch_on()

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

    def _begin_on_machine(self, world: World) -> None:
        lanes = range(len(self._lanes))
        self._more = [world.tasks.signal(f"producer {self._number}{f'/{lane}' * (lane > 0)}") for lane in lanes]
        routes, listener = self._make_routes(world), None
        if self._plan.transactions.chance:
            assert routes.lone is not None, "half messages are for a lone broker"
            account, settings = self._accounts[routes.lone.broker], self._plan.broker_settings
            times_ms = settings.transaction_timeout_ms, settings.transaction_check_interval_ms
            name = f"producer-{self._number}"
            listener = TransactionListener(world, routes, routes.lone, name, account, self._report, *times_ms)
            listener.start()
        routes.start([topic_of_users(number) for number in range(self._plan.topics)])
        for lane in lanes:
            door = RemotingSender(
                self._plan,
                self._lanes[lane],
                self._drawing,
                self._states[lane],
                world,
                self._machine,
                routes,
                self._accounts,
                listener,
                self._report,
                self.answered_us,
            )
            world.tasks.spawn(f"send{f' {lane}' * (lane > 0)}", partial(self._send, lane, door, world))

    def _send(self, lane: int, door: RemotingSender, world: World) -> None:
        producer = self._lanes[lane]
        while True:
            while not producer.names:
                self._more[lane].wait(None)
            producer.produce(door, world.tasks.sleep)

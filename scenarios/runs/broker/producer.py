"""Broker producer: sends over a network.

If the machine of a producer dies during a send, the next machine repeats the send.
"""

from collections.abc import Callable, Iterable, Mapping

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


class ProducerClient(Producer):
    """A producer with its own machine."""

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
        super().__init__(plan, streams(f"producer-{number}"))
        self.answered_us: list[int] = []
        """The duration of each send with answer SUCCESS."""
        self._number = number
        self._machine = machine
        self._make_routes = routes
        self._accounts = accounts
        self._report = report
        self._drawing = Drawing(plan, streams, EVEN, draw_behaviour if plan.transactions.chance else None)
        self._state = SentState(number)
        machine.begin = self._begin_on_machine
        machine.switch_on()

    def add_messages(self, names: Iterable[str], skew: Skew) -> None:
        """With an even skew, the producer uses its queues in rotation."""
        self.names += names
        self._drawing.skew = skew
        self._more.notify()

    def _begin_on_machine(self, world: World) -> None:
        more = self._more = world.tasks.signal(f"producer {self._number}")
        routes, listener = self._make_routes(world), None
        if self._plan.transactions.chance:
            assert routes.lone is not None, "half messages are for a lone broker"
            listener = TransactionListener(
                world, routes, routes.lone, f"producer-{self._number}", self._accounts[routes.lone.broker], self._report
            )
            listener.start()
        routes.start([topic_of_users(number) for number in range(self._plan.topics)])
        door = RemotingSender(
            self._plan,
            self,
            self._drawing,
            self._state,
            world,
            self._machine,
            routes,
            self._accounts,
            listener,
            self._report,
            self.answered_us,
        )

        def run() -> None:
            while True:
                while not self.names:
                    more.wait(None)
                self.produce(door, world.tasks.sleep)

        world.tasks.spawn("send", run)

"""Route operator: changes the routes of one name server while clients and brokers use it.

    WIPE_WRITE_PERM_OF_BROKER  ADD_WRITE_PERM_OF_BROKER  DELETE_TOPIC_IN_NAMESRV  GET_ROUTEINFO_BY_TOPIC

`watched_routes` checks the routes that name servers answer.
Source: RocketMQ WipeWritePermSubCommand, AddWritePermSubCommand, DeleteTopicSubCommand.
"""

from collections.abc import Sequence

from ....store.broker.requests import RequestCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC
from .broker_user import BrokerUser, UserContext
from .commands import make_request, route_command
from .routes import BrokerAddress

ROUTE_OPERATORS_NET = 116
"""The last byte of the address of the route operator."""
_PAUSES_MS = (1_000, 5_000, 11_000)
_RESTORE_CHANCE, _DELETE_CHANCE = 0.4, 0.5
_LOOKS = 3


class RouteOperator(BrokerUser):
    """Sends requests to one name server after another. At the end it restores every permission."""

    def __init__(self, run: UserContext, name_servers: Sequence[BrokerAddress]) -> None:
        super().__init__(run, "route operator", ROUTE_OPERATORS_NET)
        self._name_servers = name_servers
        self._closed: dict[tuple[BrokerAddress, str], None] = {}
        """Name server and name of each broker that may lack the permission to write."""
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("change routes", self._operate)

    def unfinished_text(self) -> str:
        return f"{len(self._closed)} permissions at name servers" if self._closed else ""

    def _operate(self) -> None:
        stream = self.stream
        while True:
            if self.insists:
                for name_server, broker in [*self._closed]:
                    self._set_writeable(name_server, broker, writeable=True)
                self.world.tasks.sleep(_PAUSES_MS[0])
                continue
            self.rest(stream.choice(_PAUSES_MS, "pause"))
            name_server = stream.choice(self._name_servers, "name server")
            if self._closed and stream.chance(_RESTORE_CHANCE, "restores"):
                name_server, broker = stream.choice([*self._closed], "what to restore")
                self._set_writeable(name_server, broker, writeable=True)
            elif stream.chance(_DELETE_CHANCE, "deletes a topic"):
                topic = stream.choice(self.run.topics, "topic")
                self.ask_name_server(name_server, make_request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=topic))
            else:
                self._set_writeable(name_server, stream.choice(sorted(self.run.accounts), "broker"), writeable=False)
            for _ in range(_LOOKS):
                topic = stream.choice((*self.run.topics, AUTO_CREATE_TOPIC), "route")
                self.ask_name_server(name_server, route_command(topic))
                self.rest(stream.choice(_PAUSES_MS, "pause before a look"))

    def _set_writeable(self, name_server: BrokerAddress, broker: str, *, writeable: bool) -> None:
        self._closed[name_server, broker] = None
        code = RequestCode.ADD_WRITE_PERM_OF_BROKER if writeable else RequestCode.WIPE_WRITE_PERM_OF_BROKER
        if self.ask_name_server(name_server, make_request(code, brokerName=broker)) and writeable:
            del self._closed[name_server, broker]

"""Key operator: sets and deletes keys at name servers, among them those of ordered topics.

    PUT_KV_CONFIG  DELETE_KV_CONFIG  GET_KV_CONFIG  GET_KVLIST_BY_NAMESPACE  UPDATE_NAMESRV_CONFIG  GET_NAMESRV_CONFIG

`watched_keys` checks the answers, and each start the loaded table.
Source: RocketMQ UpdateKvConfigCommand, DeleteKvConfigCommand, UpdateOrderConfCommand, UpdateNamesrvConfigCommand.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ....store.broker.kv_config import ORDER_TOPIC_CONFIG
from ....store.broker.requests import RequestCode
from ....store.formats.remoting.command import RemotingCommand
from .broker_user import BrokerUser, UserContext
from .commands import make_request, route_command
from .routes import BrokerAddress

KEYS_NET = 119
"""The last byte of the key operator's address."""
_PAUSES_MS = (0, 0, 1, 100, 1_000, 10_000, 10_000)
_NAMESPACE, _KEYS = "PLACES", ("north", "south")
_TASKS = 2
_CLEARING_CHANCE = 0.5


class KeyOperator(BrokerUser):
    """Sends changes and queries, up to two at a time."""

    def __init__(self, run: UserContext, name_servers: Sequence[BrokerAddress]) -> None:
        super().__init__(run, "key operator", KEYS_NET)
        self._name_servers = name_servers
        self.machine.switch_on()

    def begin(self) -> None:
        for number in range(_TASKS):
            self.world.tasks.spawn(f"change keys {number}", self._operate)

    def _operate(self) -> None:
        while not self.insists:
            self.rest(self.stream.choice(_PAUSES_MS, "pause"))
            name_server = self.stream.choice(self._name_servers, "name server")
            count = self.stream.choice((1, 1, 1, 2), "requests at once")
            for task in [self.world.tasks.spawn("ask", partial(self._ask, name_server)) for _ in range(count)]:
                task.join(None)

    def _ask(self, name_server: BrokerAddress) -> None:
        request = self._draw_request()
        self.ask_name_server(name_server, request)
        if request.code == RequestCode.DELETE_KV_CONFIG and self.stream.chance(_CLEARING_CHANCE, "deletes all keys"):
            for key in (*self.run.topics, *_KEYS):
                self.ask_name_server(name_server, replace(request, ext_fields={**request.ext_fields, "key": key}))

    def _draw_request(self) -> RemotingCommand:
        stream = self.stream
        namespace = stream.choice((ORDER_TOPIC_CONFIG, _NAMESPACE), "namespace")
        key = stream.choice(_KEYS if namespace == _NAMESPACE else (*self.run.topics, *_KEYS), "key")
        act = stream.choice(("put", "put", "delete", "get", "list", "route", "setting", "settings"), "request")
        if act == "put":
            value = f"broker-a:{stream.randint(1, 4, 'value')}"
            return make_request(RequestCode.PUT_KV_CONFIG, namespace=namespace, key=key, value=value)
        if act == "delete":
            return make_request(RequestCode.DELETE_KV_CONFIG, namespace=namespace, key=key)
        if act == "get":
            return make_request(RequestCode.GET_KV_CONFIG, namespace=namespace, key=key)
        if act == "list":
            return make_request(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace=namespace)
        if act == "route":
            return route_command(stream.choice(self.run.topics, "topic of a route"))
        if act == "settings":
            return RemotingCommand(RequestCode.GET_NAMESRV_CONFIG, 0)
        text = stream.choice(("true", "false"), "orderMessageEnable")
        return RemotingCommand(RequestCode.UPDATE_NAMESRV_CONFIG, 0, body=f"orderMessageEnable={text}\n".encode())

"""Routes: the brokers known to a client, and the choice of a broker for each request.

    send                a master; after a failure another master, if any
    pull                the broker suggested in the last answer, at first the master; another if that has no route
    offset of a group   the master, or a slave while no route has a master

A client begins with a random name server, and queries it until a query fails, then the next one. A client keeps its
routes until a query returns new ones. A client of a single broker has a fixed address and queries no name server.
Source: RocketMQ MQClientInstance.findBrokerAddressInSubscribe, findBrokerAddressInAdmin,
updateTopicRouteInfoFromNameServer, NettyRemotingClient.getAndCreateNameserverChannel.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.remoting_client import Encode, OnRequest, RemotingClient
from ....store.broker.requests import ResponseCode
from ....store.broker.topic_names import AUTO_CREATE_TOPIC, PERM_WRITE
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.frame import encode_frame
from ....store.world import World
from ...oracle.evidence import Violation
from ...oracle.invariants import status
from .commands import route_command

BROKER = "broker-a"
ROUTES_MS = 6_000
"""The interval of route queries. RocketMQ's clients use 30 s."""
NAME_SERVER_MS = 3_000


class BrokerAddress(NamedTuple):
    """The address of one broker. The id distinguishes master and slaves."""

    broker: str
    broker_id: int
    address: str

    @property
    def is_slave(self) -> bool:
        return self.broker_id != MASTER_ID


class Routes:
    """The routes and connections of one machine of a client."""

    def __init__(
        self,
        world: World,
        name_servers: Sequence[str],
        hits: Counter[str],
        *,
        first: int = 0,
        only_broker: BrokerAddress | None = None,
        encode: Encode = encode_frame,
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        """first: the name server to begin with, by its place in `name_servers`.

        only_broker: the only broker, in a run without name servers. hits: counts rare states, see `runs.marks`.
        """
        self.only_broker = only_broker
        self._report = report
        self.on_request: OnRequest | None = None
        """Called with the requests of a broker. A change affects only new connections."""
        self.encode = encode
        self._world = world
        self._hits = hits
        self._name_servers = name_servers
        self._asked = first
        self._addresses: dict[str, dict[int, str]] = {}
        """Broker name -> broker id -> address."""
        self._writeable: dict[str, list[str]] = {}
        """Topic -> names of the brokers that accept sends to it."""
        self._clients: dict[str, RemotingClient] = {}
        if only_broker is not None:
            self._addresses[only_broker.broker] = {only_broker.broker_id: only_broker.address}

    def start(self, topics: Sequence[str]) -> None:
        if self.only_broker is None:
            for topic in topics:
                self._writeable[topic] = []
            self._world.tasks.spawn("routes", self._poll_routes)

    def close(self) -> None:
        """End all connections."""
        for client in self._clients.values():
            client.close()

    @property
    def connects(self) -> int:
        """The number of connections so far."""
        return sum(client.connects for client in self._clients.values())

    def client(self, broker: BrokerAddress) -> RemotingClient:
        return self._client(broker.address)

    def replace_client(self, broker: BrokerAddress) -> RemotingClient | None:
        """Use a new connection to a broker from now on. Return the old one, if any, which the caller closes."""
        return self._clients.pop(broker.address, None)

    def send_request(
        self, broker: BrokerAddress, command: RemotingCommand, timeout_ms: int
    ) -> tuple[RemotingCommand, int]:
        """Return a broker's answer, and the time in ns at which the request was sent, after the connection was made.

        Raises OSError if the broker cannot be reached or does not answer in time.
        """
        invocation = self.client(broker).invoke_async(command, timeout_ms)
        sent_ns = self._world.clock.monotonic_ns()
        return invocation.wait(timeout_ms), sent_ns

    # -- choice of a broker ------------------------------------------------------------------------

    def broker_to_send_to(self, topic: str, turn: int, avoided: str) -> BrokerAddress | None:
        if self.only_broker is not None:
            return self.only_broker
        if not self._masters(topic):
            self._query_route(topic)
        masters = self._masters(topic)
        others = [each for each in masters if each.broker != avoided] or masters
        return others[turn % len(others)] if others else None

    def _masters(self, topic: str) -> list[BrokerAddress]:
        return [
            BrokerAddress(name, MASTER_ID, address)
            for name in self._writeable.get(topic, ())
            if (address := self._addresses.get(name, {}).get(MASTER_ID))
        ]

    def broker_to_pull_from(self, broker: str, topic: str, suggested_id: int) -> BrokerAddress | None:
        """Return the broker to pull from: the suggested broker, else the next slave, else any broker."""
        found = self._choose_broker_to_pull(broker, suggested_id)
        if found is None and self.only_broker is None:
            self._query_route(topic)
            found = self._choose_broker_to_pull(broker, suggested_id)
        return found

    def _choose_broker_to_pull(self, broker: str, suggested_id: int) -> BrokerAddress | None:
        addresses = self._addresses.get(broker, {})
        wanted = [suggested_id]
        if suggested_id != MASTER_ID:
            wanted.append(suggested_id + 1)
        for broker_id in (*wanted, *sorted(addresses)):
            if broker_id in addresses:
                return BrokerAddress(broker, broker_id, addresses[broker_id])
        return None

    def master_of(self, broker: str) -> BrokerAddress | None:
        """Return the present master of a name; None while no route has one."""
        address = self._addresses.get(broker, {}).get(MASTER_ID)
        return None if address is None else BrokerAddress(broker, MASTER_ID, address)

    def slaves_of(self, broker: str) -> list[BrokerAddress]:
        addresses = self._addresses.get(broker, {})
        return [BrokerAddress(broker, number, addresses[number]) for number in sorted(addresses) if number != MASTER_ID]

    def broker_for_offsets(self, broker: str, topic: str) -> BrokerAddress | None:
        """Return the broker for the offsets of a group: the master if it has a route, else a slave."""
        return self.broker_to_pull_from(broker, topic, MASTER_ID)

    # -- name servers ------------------------------------------------------------------------------

    def _poll_routes(self) -> None:
        while True:
            for topic in sorted(self._writeable):
                self._query_route(topic)
            self._world.tasks.sleep(ROUTES_MS)

    def _query_route(self, topic: str) -> None:
        """Query a topic's route. If no master has the topic, query the route for new topics.

        A slave can have a topic that its master lost in a crash before any client received an answer.
        """
        found = self._route_of(topic) or (None if self._masters(topic) else self._route_of(AUTO_CREATE_TOPIC))
        if found is None:
            return
        for each in found["brokerDatas"]:
            self._addresses[each["brokerName"]] = {int(key): value for key, value in each["brokerAddrs"].items()}
        queues = found["queueDatas"]
        self._writeable[topic] = [each["brokerName"] for each in queues if each["perm"] & PERM_WRITE]

    def _route_of(self, topic: str) -> dict[str, Any] | None:
        for _ in self._name_servers:
            address = self._name_servers[self._asked % len(self._name_servers)]
            try:
                response = self._client(address).invoke(route_command(topic), NAME_SERVER_MS)
            except OSError:
                self._asked += 1
                self._hits["name server failover"] += 1
                continue
            if response.code == ResponseCode.SUCCESS:
                route: dict[str, Any] = msgspec.json.decode(response.body)
                return route
            return None
        return None

    def _client(self, address: str) -> RemotingClient:
        if address not in self._clients:
            self._clients[address] = RemotingClient(
                self._world,
                address,
                on_request=self.on_request,
                on_unmatched=lambda response: self._report(status.check_unmatched(address, response.code)),
                encode=self.encode,
            )
        return self._clients[address]

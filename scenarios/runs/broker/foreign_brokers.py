"""Foreign brokers: brokers of other clusters that register with a name server. They are programs without messages.

    REGISTER_BROKER  UNREGISTER_BROKER  QUERY_DATA_VERSION  WIPE_WRITE_PERM_OF_BROKER  ADD_WRITE_PERM_OF_BROKER
    GET_ROUTEINFO_BY_TOPIC  GET_BROKER_CLUSTER_INFO  GET_ALL_TOPIC_LIST_FROM_NAMESERVER  GET_TOPICS_BY_CLUSTER
    GET_UNIT_TOPIC_LIST  GET_HAS_UNIT_SUB_TOPIC_LIST  GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
    GET_SYSTEM_TOPIC_LIST_FROM_NS  DELETE_TOPIC_IN_NAMESRV

They register more often than real brokers, some at the same time, change topics and addresses, replace connections, end
one with a registration in flight, and fall silent. `watched_routes` and `watched_lists` check the answers.
Source: RocketMQ BrokerOuterAPI.registerBroker, needRegister; commands of mqadmin.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.name_server import BROKERS_MAX
from ....store.broker.processors.names import STANDARD_JSON_VERSION
from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import RequestCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from .broker_user import ANSWER_MS, BrokerUser, UserContext
from .commands import make_request, route_command
from .routes import BrokerAddress

FOREIGN_NET = 118
"""The last byte of the foreign brokers' address."""
_NAMES = {"foreign-a": "cluster-1", "foreign-b": "cluster-1", "foreign-c": "cluster-2"}
"""Broker -> cluster."""
_TOPICS = ("foreign-0", "foreign-1", "foreign-2")
_PAUSES_MS = (0, 0, 0, 1, 1, 100, 100, 1_000, 5_000, 5_000, 20_000)
_SILENT_MS = (65_000, 65_000, 65_000, 119_000, 121_000)
_LOOKS_MAX = 3
_BEFORE_MAX = 3
_LINGER_MS = (0, 0, 1, 10)
_WRONG_CHANCE, _FULL_CHANCE, _AT_ONCE_CHANCE = 0.1, 0.015, 0.1
_VERSIONS = (0, STANDARD_JSON_VERSION - 1, STANDARD_JSON_VERSION, STANDARD_JSON_VERSION + 1)
_LISTS = (
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_TOPICS_BY_CLUSTER,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
)


@dataclass(slots=True)
class _Broker:
    """A foreign broker. counter, changed_ms: the version of its topics."""

    name: str
    broker_id: int
    address: str
    counter: int = 1
    changed_ms: int = 0
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    client: RemotingClient | None = None

    @property
    def fields(self) -> dict[str, str]:
        cluster = _NAMES.get(self.name, "cluster-full")
        given = {"brokerName": self.name, "brokerAddr": self.address, "clusterName": cluster}
        return {**given, "brokerId": str(self.broker_id)}

    @property
    def version(self) -> dict[str, int]:
        return {"counter": self.counter, "timestamp": self.changed_ms}


class ForeignBrokers(BrokerUser):
    """Masters in one task, slaves in another. At the end all of them unregister."""

    def __init__(self, run: UserContext, name_servers: Sequence[BrokerAddress]) -> None:
        super().__init__(run, "foreign brokers", FOREIGN_NET)
        self._name_servers = [each.address for each in name_servers]
        self._working = 0
        self.machine.switch_on()

    def begin(self) -> None:
        for ids in ((MASTER_ID,), (1, 2)):
            brokers = [_Broker(name, number, f"10.1.{number}.1:10911") for name in _NAMES for number in ids]
            self._working += 1
            self.world.tasks.spawn(f"foreign {ids[0]}", partial(self._work, brokers))

    def unfinished_text(self) -> str:
        return f"{self._working} tasks with registered brokers" if self._working else ""

    def _work(self, brokers: list[_Broker]) -> None:
        stream, acts = self.stream, (*(self._register,) * 4, self._leave, self._ask_version, self._change_permission)
        while not self.insists:
            self.rest(stream.choice(_PAUSES_MS, "pause"))
            name_server = stream.choice(self._name_servers, "name server")
            if stream.chance(_FULL_CHANCE, "fills the table"):
                self._fill(name_server)
            elif stream.chance(_AT_ONCE_CHANCE, "acts at once"):
                two = [stream.choice(brokers, "one of two") for _ in range(2)]
                each_act = [partial(stream.choice(acts, "act"), name_server, broker) for broker in two]
                for task in [self.world.tasks.spawn("act at once", act) for act in each_act]:
                    task.join(None)
            else:
                stream.choice(acts, "act")(name_server, stream.choice(brokers, "broker"))
            for _ in range(stream.randint(0, _LOOKS_MAX, "looks")):
                self._look(name_server)
        for broker in brokers:
            self._end_connection(broker)
        self._working -= 1

    # -- connections -------------------------------------------------------------------------------

    def _ask(self, broker: _Broker, name_server: str, command: RemotingCommand) -> None:
        try:
            self._client_of(broker, name_server).invoke(command, ANSWER_MS)
        except OSError:
            self._end_connection(broker)

    def _client_of(self, broker: _Broker, name_server: str) -> RemotingClient:
        if broker.client is None or broker.client.address != name_server:
            self._end_connection(broker)
            broker.client = RemotingClient(self.world, name_server)
        return broker.client

    def _end_connection(self, broker: _Broker) -> None:
        if broker.client is not None:
            broker.client.close()
        broker.client = None

    # -- acts --------------------------------------------------------------------------------------

    def _register(self, name_server: str, broker: _Broker) -> None:
        stream = self.stream
        if not broker.topics or stream.chance(0.4, "changes topics"):
            self._change_topics(broker)
        if stream.chance(0.2, "changes its address"):
            broker.address = f"10.1.{broker.broker_id}.{stream.randint(1, 3, 'host')}:10911"
        command = self._registration(broker)
        if stream.chance(_WRONG_CHANCE, "registers wrongly"):
            wrong = stream.choice(({"bodyCrc32": "1"}, {"compressed": "true"}), "mistake")
            command = replace(command, ext_fields={**command.ext_fields, **wrong})
        old = broker.client
        if stream.chance(0.3, "connects again"):
            broker.client = None
        else:
            old = None
        if stream.chance(0.2, "ends the connection meanwhile"):
            self._register_and_end(broker, name_server, command)
        else:
            self._ask(broker, name_server, command)
        if stream.chance(0.15, "is seldom heard"):
            self._register_seldom(name_server, broker, command)
        if old is not None:
            self.rest(stream.choice(_PAUSES_MS, "until the old connection ends"))
            old.close()

    def _register_seldom(self, name_server: str, broker: _Broker, command: RemotingCommand) -> None:
        """Repeat the registration or ask for the version, each after a time near that of the expiry or half of it."""
        is_query = self.stream.chance(0.5, "asks for its version")
        for _ in range(2):
            self.rest(self.stream.choice(_SILENT_MS, "ms of silence"))
            if self.stream.chance(0.8, "is heard again"):
                self._ask(broker, name_server, self._version_query(broker) if is_query else command)
            self._ask_server(name_server, make_request(RequestCode.GET_BROKER_CLUSTER_INFO))

    def _register_and_end(self, broker: _Broker, name_server: str, command: RemotingCommand) -> None:
        """End a connection with a registration in flight, sometimes after further requests."""
        client, query = self._client_of(broker, name_server), make_request(RequestCode.GET_BROKER_CLUSTER_INFO)
        try:
            for _ in range(self.stream.randint(0, _BEFORE_MAX, "requests before")):
                client.invoke_async(query)
            client.invoke_async(command)
        except OSError:
            pass  # the broker registers again later
        self.rest(self.stream.choice(_LINGER_MS, "ms until the connection ends"))
        self._end_connection(broker)

    def _change_topics(self, broker: _Broker) -> None:
        stream = self.stream
        names = [topic for topic in _TOPICS if stream.chance(0.6, "has a topic")]
        perm = partial(stream.choice, (6, 6, 4, 2), "perm of a foreign topic")
        broker.topics = {
            name: {
                "topicName": name,
                "readQueueNums": stream.randint(1, 4, "queues"),
                "writeQueueNums": 2,
                "perm": perm(),
                "topicFilterType": "SINGLE_TAG",
                "order": False,
                "topicSysFlag": stream.randint(0, 3, "unit flags"),
            }
            for name in names
        }
        broker.counter += stream.choice((1, 1, 0), "step of the counter")
        broker.changed_ms = self.world.clock.now_ms()

    def _registration(self, broker: _Broker) -> RemotingCommand:
        tables = {"topicConfigTable": broker.topics, "dataVersion": broker.version}
        body = encode_json_body({"filterServerList": [], "topicConfigSerializeWrapper": tables})
        ha_address = broker.address.replace("10911", "10912")
        fields = {**broker.fields, "haServerAddr": ha_address, "compressed": "false"}
        crc = str(zlib.crc32(body) & 0x7FFFFFFF)
        return make_request(RequestCode.REGISTER_BROKER, body, **fields, bodyCrc32=crc)

    def _leave(self, name_server: str, broker: _Broker) -> None:
        if self.stream.chance(0.7, "unregisters"):
            self._ask(broker, name_server, make_request(RequestCode.UNREGISTER_BROKER, **broker.fields))
        else:
            self._end_connection(broker)

    def _ask_version(self, name_server: str, broker: _Broker) -> None:
        """Ask whether the topics have changed, sometimes with another version that has the same counter."""
        self._ask(broker, name_server, self._version_query(broker, self.stream.choice((0, 0, 1), "other timestamp")))

    def _version_query(self, broker: _Broker, later_ms: int = 0) -> RemotingCommand:
        body = encode_json_body({**broker.version, "timestamp": broker.changed_ms + later_ms})
        return make_request(RequestCode.QUERY_DATA_VERSION, body, **broker.fields)

    def _change_permission(self, name_server: str, broker: _Broker) -> None:
        code = self.stream.choice(
            (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER), "permission to write"
        )
        self._ask(broker, name_server, make_request(code, brokerName=broker.name))

    def _fill(self, name_server: str) -> None:
        """Register more brokers than a name server takes, and repeat the last one. Their connection ends then."""
        broker = _Broker("full", MASTER_ID, "10.1.9.1:10911")
        for number in range(BROKERS_MAX + 1):
            self._ask(broker, name_server, self._registration(replace(broker, name=f"full-{number}")))
        self._ask(broker, name_server, self._registration(replace(broker, name="full-0")))
        self.rest(self.stream.choice(_PAUSES_MS, "pause while the table is full"))
        self._end_connection(broker)

    def _look(self, name_server: str) -> None:
        stream = self.stream
        if stream.chance(0.1, "deletes a topic"):
            command = make_request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=stream.choice(_TOPICS, "topic"))
        elif stream.chance(0.5, "a route"):
            command = route_command(stream.choice(_TOPICS, "topic"))
            if stream.chance(0.3, "an old client"):
                old = make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=command.ext_fields["topic"])
                command = replace(old, version=stream.choice(_VERSIONS, "version"))
        else:
            clusters, code = (*dict.fromkeys(_NAMES.values()), "DefaultCluster"), stream.choice(_LISTS, "list")
            of_cluster = code == RequestCode.GET_TOPICS_BY_CLUSTER
            command = make_request(code, **({"cluster": stream.choice(clusters, "cluster")} if of_cluster else {}))
        self._ask_server(name_server, command)

    def _ask_server(self, name_server: str, command: RemotingCommand) -> None:
        self.ask_name_server(BrokerAddress("", MASTER_ID, name_server), command)

"""Name server, built in: answers clients which broker has which topic.

It knows its own broker at first hand, and others of the cluster, slaves above all, by what they register. One whose
connection has ended, or that has not said anything for two minutes, is gone until it registers again.
Source: RocketMQ RouteInfoManager, BrokerHousekeepingService, DefaultRequestProcessor, TopicRouteData, ClusterInfo,
TopicList, RegisterBrokerBody.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..formats.remoting.command import RemotingCommand
from ..formats.remoting.json_body import decode_json_body
from ..world import World
from .broker_config import MASTER_ID, BrokerConfig
from .parts import BrokerParts
from .requests import ExtFields, RequestRefusedError, ResponseCode, success
from .router import Channel
from .topic_names import PERM_READ_WRITE, PERM_WRITE
from .topics import TopicConfig, TopicConfigManager

BROKER_EXPIRED_MS = 120_000
BROKERS_MAX = 64
_NS_PER_MS = 1_000_000

STANDARD_JSON_VERSION = 401
"""Clients from V4_9_4 on read quoted keys only."""
TOPICS_MAX = 65_536
"""Of one broker that registers."""
_DISTANT_ADDRESS_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """One broker, as it has registered itself."""

    name: str
    cluster: str
    broker_id: int
    address: str
    ha_address: str
    topics: Mapping[str, TopicConfig]
    heard_ns: int
    """When, by the monotonic clock."""
    channel: Channel | None = None
    """Over which; None: this is the name server's own broker."""


class NameServer:
    """Routes of one cluster. Any task may call it."""

    def __init__(self, world: World, config: BrokerConfig, topics: TopicConfigManager) -> None:
        self.ha_address = ""
        """Where this broker's slaves connect to."""
        self._clock = world.clock
        self._config = config
        self._topics = topics
        self._lock = world.tasks.lock("name server")
        self._others: dict[tuple[str, int], RegisteredBroker] = {}
        """By name and id."""
        self._read_only: frozenset[str] = frozenset()
        """Names of brokers that producers are not to send to any more."""

    # -- registering -------------------------------------------------------------------------------

    def register(self, broker: RegisteredBroker) -> RegisteredBroker | None:
        """Note a broker; return the master of its name, None if that is not known. Refused if there are too many."""
        with self._lock:
            self._forget_expired()
            key = broker.name, broker.broker_id
            if key not in self._others and len(self._others) >= BROKERS_MAX:
                raise RequestRefusedError(f"brokers: expected {BROKERS_MAX} or fewer, found one more")
            self._others[key] = broker
        masters = (each for each in self._brokers() if each.broker_id == MASTER_ID)
        return next((each for each in masters if each.name == broker.name), None)

    def unregister(self, name: str, broker_id: int) -> None:
        """Forget a broker."""
        with self._lock:
            self._others.pop((name, broker_id), None)
            self._forget_read_only()

    def channel_closed(self, channel: Channel) -> None:
        """Forget the broker that has registered over a connection which has ended, and over no other since."""
        with self._lock:
            self._others = {key: each for key, each in self._others.items() if each.channel is not channel}
            self._forget_read_only()

    def _forget_expired(self) -> None:
        silent_ns = self._clock.monotonic_ns() - BROKER_EXPIRED_MS * _NS_PER_MS
        self._others = {key: each for key, each in self._others.items() if each.heard_ns > silent_ns}
        self._forget_read_only()

    def _forget_read_only(self) -> None:
        if self._read_only:
            self._read_only &= {self._config.broker_name, *(name for name, _ in self._others)}

    def set_writeable(self, name: str, *, writeable: bool) -> int:
        """Have the routes of a broker's topics say whether they may be sent to; return how many topics it has.

        Producers learn it when they ask for routes again. It holds until it is taken back, the last broker
        of the name has gone, or this name server ends.
        """
        with self._lock:
            self._read_only = self._read_only - {name} if writeable else self._read_only | {name}
            self._forget_read_only()  # it may have gone since it was looked for
        return len({topic for broker in self._brokers() if broker.name == name for topic in broker.topics})

    # -- asking ------------------------------------------------------------------------------------

    def _brokers(self) -> list[RegisteredBroker]:
        """Return all brokers, each name's master first."""
        config = self._config
        own = RegisteredBroker(
            config.broker_name,
            config.broker_cluster_name,
            config.broker_id,
            config.address,
            self.ha_address,
            self._topics.table,
            self._clock.monotonic_ns(),
        )
        with self._lock:
            self._forget_expired()
            others = {**self._others, (own.name, own.broker_id): own}
        return [others[key] for key in sorted(others)]

    @property
    def names(self) -> list[str]:
        """Return the names of all brokers, a master and its slaves having one."""
        return list(dict.fromkeys(broker.name for broker in self._brokers()))

    def route(self, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
        """Return where a topic is, None if no broker has it. quoted_keys: broker ids as JSON has them."""
        having = [broker for broker in self._brokers() if topic in broker.topics]
        if not having:
            return None
        queues = {broker.name: self._queue_data(broker, topic) for broker in reversed(having)}
        brokers = [broker for broker in self._brokers() if broker.name in queues]
        return {
            "brokerDatas": list(_broker_datas(brokers, quoted_keys=quoted_keys).values()),
            "filterServerTable": {},
            "queueDatas": [queues[name] for name in sorted(queues)],
        }

    def _queue_data(self, broker: RegisteredBroker, topic: str) -> dict[str, Any]:
        config = broker.topics[topic]
        perm = config.perm
        if broker.name == self._config.broker_name and self._config.broker_permission != PERM_READ_WRITE:
            perm &= self._config.broker_permission
        if broker.name in self._read_only:
            perm &= ~PERM_WRITE
        return {
            "brokerName": broker.name,
            "perm": perm,
            "readQueueNums": config.read_queue_nums,
            "topicSysFlag": config.sys_flag,
            "writeQueueNums": config.write_queue_nums,
        }

    def cluster_info(self) -> dict[str, Any]:
        """Return all brokers and clusters. Broker ids are keys without quotes, as here they always are."""
        brokers = self._brokers()
        clusters: dict[str, dict[str, None]] = {}
        for broker in brokers:
            clusters.setdefault(broker.cluster, {})[broker.name] = None
        return {
            "brokerAddrTable": _broker_datas(brokers, quoted_keys=False),
            "clusterAddrTable": {cluster: list(names) for cluster, names in sorted(clusters.items())},
        }

    def topics(self, cluster: str | None = None) -> list[str]:
        """Return every topic, or those of a cluster, in order of the alphabet."""
        brokers = [broker for broker in self._brokers() if cluster is None or broker.cluster == cluster]
        return sorted({topic for broker in brokers for topic in broker.topics})

    def forget_topic(self, topic: str) -> None:
        """Forget where a topic is, but for what this broker itself has; a broker that has it will say so again."""
        with self._lock:
            for key, each in self._others.items():
                others = {name: config for name, config in each.topics.items() if name != topic}
                self._others[key] = replace(each, topics=others)


def _broker_datas(brokers: list[RegisteredBroker], *, quoted_keys: bool) -> dict[str, dict[str, Any]]:
    datas: dict[str, dict[str, Any]] = {}
    for broker in brokers:
        made = {"brokerAddrs": {}, "brokerName": broker.name, "cluster": broker.cluster}
        data = datas.setdefault(broker.name, made)
        broker_id = str(broker.broker_id) if quoted_keys else broker.broker_id
        data["brokerAddrs"][broker_id] = broker.address
    return datas


class NameServerProcessor:
    """Answers them."""

    def __init__(self, parts: BrokerParts, name_server: NameServer) -> None:
        self._parts = parts
        self._name_server = name_server

    def route(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return where a topic is."""
        fields = ExtFields(request.ext_fields)
        topic = fields.text("topic")
        quoted = fields.boolean("acceptStandardJsonOnly", False) or request.version >= STANDARD_JSON_VERSION
        found = self._name_server.route(topic, quoted_keys=quoted)
        if found is None:
            remark = f"No topic route info: no broker has topic {topic[:255]!r}"
            raise RequestRefusedError(remark, ResponseCode.TOPIC_NOT_EXIST)
        return success(request, found)

    def cluster_info(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return all brokers and clusters."""
        return success(request, self._name_server.cluster_info())

    def topic_list(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return every topic."""
        return success(request, {"topicList": self._name_server.topics()})

    def topics_of_cluster(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the topics of a cluster."""
        cluster = ExtFields(request.ext_fields).text("cluster")
        return success(request, {"topicList": self._name_server.topics(cluster)})

    def system_topics(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the topics that brokers have for their own purposes, and where the broker is."""
        config = self._parts.config
        topics = [topic for topic in self._name_server.topics() if self._parts.topics.is_system(topic)]
        own = dict.fromkeys((config.broker_cluster_name, config.broker_name))
        topics += [name for name in own if name not in topics]
        return success(request, {"brokerAddr": config.address, "topicList": topics})

    def delete_topic(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Forget where a topic is."""
        self._name_server.forget_topic(ExtFields(request.ext_fields).text("topic"))
        return success(request)

    def wipe_write_perm(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Have producers send to a broker no more."""
        return success(request, wipeTopicCount=self._set_writeable(request, writeable=False))

    def add_write_perm(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Have producers send to a broker again."""
        return success(request, addTopicCount=self._set_writeable(request, writeable=True))

    def _set_writeable(self, request: RemotingCommand, *, writeable: bool) -> int:
        name = ExtFields(request.ext_fields).text("brokerName")
        if name not in self._name_server.names:
            raise RequestRefusedError(f"brokerName: there is no {name[:255]!r}")
        return self._name_server.set_writeable(name, writeable=writeable)

    # -- brokers -----------------------------------------------------------------------------------

    def register(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Note another broker, and answer who its master is."""
        fields, body = ExtFields(request.ext_fields), request.body
        check = fields.int32("bodyCrc32", 0)
        if check and zlib.crc32(body) & 0x7FFFFFFF != check:
            raise RequestRefusedError("bodyCrc32: expected that of the body")
        if fields.boolean("compressed", False):
            remark = "compressed: expected false, found true"
            raise RequestRefusedError(remark, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        broker = RegisteredBroker(
            fields.text("brokerName"),
            fields.text("clusterName"),
            fields.int64("brokerId"),
            fields.text("brokerAddr")[:_DISTANT_ADDRESS_CHARACTERS_MAX],
            fields.text("haServerAddr")[:_DISTANT_ADDRESS_CHARACTERS_MAX],
            _topics_of(body),
            self._parts.world.clock.monotonic_ns(),
            channel,
        )
        master = self._name_server.register(broker)
        if not channel.is_open:  # its end may have been noted before
            self._name_server.channel_closed(channel)
        if master is None or not broker.broker_id:
            return success(request)
        return success(request, haServerAddr=master.ha_address, masterAddr=master.address)

    def unregister(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Forget another broker."""
        fields = ExtFields(request.ext_fields)
        self._name_server.unregister(fields.text("brokerName"), fields.int64("brokerId"))
        return success(request)


def _topics_of(body: bytes) -> dict[str, TopicConfig]:
    if not body:
        return {}
    wrapper = decode_json_body(body).inner("topicConfigSerializeWrapper")
    topics = {name: TopicConfig.of(name, entry) for name, entry in wrapper.inner("topicConfigTable").table()}
    if len(topics) > TOPICS_MAX:
        raise RequestRefusedError(f"topics: expected {TOPICS_MAX} or fewer, found {len(topics)}")
    return topics

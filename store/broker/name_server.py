"""Name server: routes from topics to brokers.

A built-in name server always has routes to its own broker. Other brokers must register. The name server removes a
registered broker when its connection ends, or after two minutes without a request.
Source: RocketMQ RouteInfoManager, BrokerHousekeepingService, TopicRouteData, ClusterInfo.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..world import World
from .broker_config import MASTER_ID, BrokerConfig
from .kv_config import ORDER_TOPIC_CONFIG, KVConfig
from .name_server_settings import NameServerSettings
from .requests import RequestRefusedError
from .router import Channel
from .topic_names import PERM_READ_WRITE, PERM_WRITE, is_system_topic
from .topics import TopicConfig, TopicConfigManager
from .versioned_table import DataVersion

BROKER_EXPIRED_MS = 120_000  # RocketMQ RouteInfoManager.BROKER_CHANNEL_EXPIRED_TIME
BROKERS_MAX = 64  # limited, because any client may register
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """Registration of a broker."""

    name: str
    cluster: str
    broker_id: int
    address: str
    ha_address: str
    topics: Mapping[str, TopicConfig]
    heard_ns: int
    version: DataVersion | None = None
    channel: Channel | None = None
    """Connection of the broker; None for the broker that contains this name server."""


class NameServer:
    """Routes of all brokers. Thread-safe."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig | None = None,
        topics: TopicConfigManager | None = None,
        *,
        kv_path: str | None = None,
    ) -> None:
        """With `config` and `topics`, the name server is built into that broker. kv_path: the file of KV settings."""
        self.ha_address = ""
        self.kv = KVConfig(world, kv_path)
        port = {} if config is None else {"listenPort": str(config.listen_port)}
        self.settings = NameServerSettings({"kvConfigPath": kv_path or "", **port})
        self._clock = world.clock
        self._config = config
        self._topics = topics
        self._lock = world.tasks.lock("name server")
        self._others: dict[tuple[str, int], RegisteredBroker] = {}
        """(name, id) -> registered broker."""
        self._read_only: frozenset[str] = frozenset()
        """Names of brokers to which producers must not send."""

    def register(self, broker: RegisteredBroker) -> RegisteredBroker | None:
        """Register a broker, and return the master of the same name. Refuses more than BROKERS_MAX brokers."""
        with self._lock:
            self._drop_expired_brokers()
            key = broker.name, broker.broker_id
            if key not in self._others and len(self._others) >= BROKERS_MAX:
                raise RequestRefusedError(f"brokers: expected {BROKERS_MAX} or fewer, found one more")
            self._others[key] = broker
        masters = (each for each in self._all_brokers() if each.broker_id == MASTER_ID)
        return next((each for each in masters if each.name == broker.name), None)

    def unregister(self, name: str, broker_id: int) -> None:
        with self._lock:
            self._others.pop((name, broker_id), None)
            self._drop_unused_read_only()

    def channel_closed(self, channel: Channel) -> None:
        """Remove the broker of an ended connection, unless it has registered again over another connection."""
        with self._lock:
            self._others = {key: each for key, each in self._others.items() if each.channel is not channel}
            self._drop_unused_read_only()

    def _drop_expired_brokers(self) -> None:
        silent_ns = self._clock.monotonic_ns() - BROKER_EXPIRED_MS * _NS_PER_MS
        self._others = {key: each for key, each in self._others.items() if each.heard_ns > silent_ns}
        self._drop_unused_read_only()

    def _drop_unused_read_only(self) -> None:
        if self._read_only:
            own = () if self._config is None else (self._config.broker_name,)
            self._read_only &= {*own, *(name for name, _ in self._others)}

    def set_writeable(self, name: str, *, writeable: bool) -> int:
        """Set or clear write permission in the routes of a broker. Return the broker's number of topics.

        Producers see the change in their next route query. The change is lost when the last broker of that name is
        removed, or when this name server stops.
        """
        with self._lock:
            self._read_only = self._read_only - {name} if writeable else self._read_only | {name}
            self._drop_unused_read_only()  # the last broker of this name may already be removed
        return len({topic for broker in self._all_brokers() if broker.name == name for topic in broker.topics})

    def _all_brokers(self) -> list[RegisteredBroker]:
        own = self._own_broker()
        with self._lock:
            self._drop_expired_brokers()
            brokers = dict(self._others) if own is None else {**self._others, (own.name, own.broker_id): own}
        return [brokers[key] for key in sorted(brokers)]

    def _own_broker(self) -> RegisteredBroker | None:
        config, topics = self._config, self._topics
        if config is None or topics is None:
            return None
        identity = config.broker_name, config.broker_cluster_name, config.broker_id, config.address
        now_ns = self._clock.monotonic_ns()
        return RegisteredBroker(*identity, self.ha_address, topics.table, now_ns, topics.version)

    def version_of(self, name: str, broker_id: int) -> DataVersion | None:
        """Return the version of the broker's topics. The query also postpones the broker's expiry."""
        with self._lock:
            broker = self._others.get((name, broker_id))
            if broker is None:
                return None
            self._others[name, broker_id] = replace(broker, heard_ns=self._clock.monotonic_ns())
        return broker.version

    @property
    def names(self) -> list[str]:
        """A master and its slaves have the same name."""
        return list(dict.fromkeys(broker.name for broker in self._all_brokers()))

    def route(self, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
        """Return the route of a topic. `quoted_keys`: write broker ids as strings, as JSON requires."""
        everyone = self._all_brokers()
        with_topic = [broker for broker in everyone if topic in broker.topics]
        if not with_topic:
            return None
        # Iterate in reverse, so that the master's entry replaces those of its slaves, which can be 10 s old.
        queues = {broker.name: self._queue_data(broker, topic) for broker in reversed(with_topic)}
        brokers = [broker for broker in everyone if broker.name in queues]
        return {
            "brokerDatas": list(_broker_datas(brokers, quoted_keys=quoted_keys).values()),
            "filterServerTable": {},
            "orderTopicConf": self.kv.get(ORDER_TOPIC_CONFIG, topic) if self.settings.order_message_enable else None,
            "queueDatas": [queues[name] for name in sorted(queues)],
        }

    def _queue_data(self, broker: RegisteredBroker, topic: str) -> dict[str, Any]:
        config, own = broker.topics[topic], self._config
        perm = config.perm
        if own is not None and broker.name == own.broker_name and own.broker_permission != PERM_READ_WRITE:
            perm &= own.broker_permission
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
        """Return all brokers and clusters. As in RocketMQ, broker ids are not quoted."""
        brokers = self._all_brokers()
        clusters: dict[str, dict[str, None]] = {}
        for broker in brokers:
            clusters.setdefault(broker.cluster, {})[broker.name] = None
        return {
            "brokerAddrTable": _broker_datas(brokers, quoted_keys=False),
            "clusterAddrTable": {cluster: list(names) for cluster, names in sorted(clusters.items())},
        }

    def topics(self, cluster: str | None = None) -> list[str]:
        brokers = [broker for broker in self._all_brokers() if cluster is None or broker.cluster == cluster]
        return sorted({topic for broker in brokers for topic in broker.topics})

    def topics_with_unit_flag(self, *, having: int, lacking: int = 0) -> list[str]:
        """Return topics that on at least one broker have all flags in `having` and none in `lacking`."""
        flags = ((topic, config.sys_flag) for each in self._all_brokers() for topic, config in each.topics.items())
        return sorted({topic for topic, flag in flags if flag & having == having and not flag & lacking})

    def system_topics(self) -> tuple[list[str], str]:
        """Return system topics, and the address of a broker that can list its own."""
        brokers = self._all_brokers()
        is_system = is_system_topic if self._topics is None else self._topics.is_system
        topics = [topic for topic in self.topics() if is_system(topic)]
        names = dict.fromkeys(name for broker in brokers for name in (broker.cluster, broker.name))
        topics += [name for name in names if name not in topics]
        return topics, brokers[0].address if brokers else ""

    def forget_topic(self, topic: str) -> None:
        """Forget a topic until a broker registers it again."""
        with self._lock:
            for key, each in self._others.items():
                others = {name: config for name, config in each.topics.items() if name != topic}
                self._others[key] = replace(each, topics=others)


def _broker_datas(brokers: list[RegisteredBroker], *, quoted_keys: bool) -> dict[str, dict[str, Any]]:
    datas: dict[str, dict[str, Any]] = {}
    for broker in brokers:
        data = datas.setdefault(broker.name, {"brokerAddrs": {}, "brokerName": broker.name, "cluster": broker.cluster})
        broker_id = str(broker.broker_id) if quoted_keys else broker.broker_id
        data["brokerAddrs"][broker_id] = broker.address
    return datas

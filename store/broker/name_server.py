"""The built-in name server: tells clients which broker has which topic.

It knows its own broker at first hand, and others of the cluster, slaves above all, by what they register. One that has
not said anything for two minutes is gone.
Source: RocketMQ RouteInfoManager, DefaultRequestProcessor, TopicRouteData, ClusterInfo.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..world import World
from .broker_config import MASTER_ID, BrokerConfig
from .permissions import PERM_READ_WRITE, PERM_WRITE
from .topics import TopicConfig, TopicConfigManager

BROKER_EXPIRED_MS = 120_000
BROKERS_MAX = 64
_NS_PER_MS = 1_000_000


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


class NameServer:
    """Routes of one cluster. Any task may call it."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        topics: TopicConfigManager,
    ) -> None:
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
        """Note a broker; return the master of its name, None if that is not known. ValueError if there are too many."""
        with self._lock:
            self._forget_expired()
            key = broker.name, broker.broker_id
            if key not in self._others and len(self._others) >= BROKERS_MAX:
                raise ValueError(f"brokers: expected {BROKERS_MAX} or fewer, found one more")
            self._others[key] = broker
        return next((each for each in self._brokers() if each.name == broker.name and _is_master(each)), None)

    def unregister(self, name: str, broker_id: int) -> None:
        """Forget a broker."""
        with self._lock:
            self._others.pop((name, broker_id), None)
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
        return sorted(set(self._topics_of(cluster)))

    def _topics_of(self, cluster: str | None) -> Iterator[str]:
        for broker in self._brokers():
            if cluster is None or broker.cluster == cluster:
                yield from broker.topics

    def forget_topic(self, topic: str) -> None:
        """Forget where a topic is, but for what this broker itself has; a broker that has it will say so again."""
        with self._lock:
            self._others = {
                key: replace(
                    each, topics={name: config for name, config in each.topics.items() if name != topic}
                )
                for key, each in self._others.items()
            }


def _is_master(broker: RegisteredBroker) -> bool:
    return broker.broker_id == MASTER_ID


def _broker_datas(brokers: list[RegisteredBroker], *, quoted_keys: bool) -> dict[str, dict[str, Any]]:
    datas: dict[str, dict[str, Any]] = {}
    for broker in brokers:
        data = datas.setdefault(
            broker.name, {"brokerAddrs": {}, "brokerName": broker.name, "cluster": broker.cluster}
        )
        broker_id = str(broker.broker_id) if quoted_keys else broker.broker_id
        data["brokerAddrs"][broker_id] = broker.address
    return datas

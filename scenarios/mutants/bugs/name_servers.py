"""Bugs of name servers: permissions and keys that operators change, and topics and slaves in routes."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

from ....store.broker.kv_config import KVConfig
from ....store.broker.name_server import BROKER_EXPIRED_MS, NameServer, RegisteredBroker
from ....store.broker.outer_api import BrokerRegistration
from ....store.broker.processors.names import NameServerProcessor
from ....store.broker.remoting_client import RemotingClient
from ....store.broker.router import Channel
from ....store.broker.topic_names import PERM_READ_WRITE, PERM_WRITE
from ....store.broker.topics import TopicConfigManager
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

# Key operators change marks of topics, and so may be drawn only without operators and slaves.
_ROUTES = SCENARIOS["name-server-routes"].ranges.replace(broker={"key_operators": (0,)})
_PERMISSIONS = _ROUTES.replace(broker={"route_operators": (1,)})
_KEYS = _ROUTES.replace(cluster={"slaves": (0,)}, broker={"key_operators": (1,), "operators": (0,)})
_SETTINGS = _ROUTES.replace(
    broker={"settings_operators": (1,)},
    disturbances={"paused_task_chance": (0.0,), "paused_machine_chance": (0.0,)},
    network={"late_chance": (0.0,)},
)
_TAKEOVER = SCENARIOS["client-failover"].ranges.replace(
    heals=(True,), cluster={"slaves": (1,)}, broker={"slave_takes_over": (True,)}
)
_OPERATED = SCENARIOS["operator-changes"].ranges.replace(cluster={"slaves": (1,)})


# RocketMQ up to 4.4: apache/rocketmq issue 1377.
@bug("registration-restores-permission", NameServer, "register", found_by=("QUIET",))
@needs(_PERMISSIONS)
def register_and_restore(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """The next registration of a broker restores the permission to write that an operator has removed."""
    with self._lock:
        bit(broker.name in self._read_only)
        self._read_only -= {broker.name}
    return register_and_restore.original(self, broker)


@bug("slave-end-restores-permission", NameServer, "channel_closed", found_by=("QUIET",))
@needs(_PERMISSIONS, cluster={"slaves": (1,)})
def close_and_restore(self: NameServer, channel: Channel) -> None:
    """The end of a slave's connection restores the permission to write of its master."""
    with self._lock:
        gone = {key[0] for key, each in self._others.items() if each.channel is channel}
    close_and_restore.original(self, channel)
    with self._lock:
        bit(bool(gone & self._read_only))
        self._read_only -= gone


# RocketMQ sets the permission of each topic to 6: apache/rocketmq issue 313.
@bug("restored-permission-opens-topics", NameServer, "_queue_data", found_by=("QUIET",))
@needs(_SETTINGS, broker={"route_operators": (1,)})
def queue_data_of_opened(self: NameServer, broker: RegisteredBroker, topic: str) -> dict[str, Any]:
    """After an operator has restored the permission to write of a broker, its read-only topics may be written, too."""
    data = queue_data_of_opened.original(self, broker, topic)
    if broker.name in vars(self).get("_opened", ()) and bit(not data["perm"] & PERM_WRITE):
        data["perm"] |= PERM_WRITE
    return data


@queue_data_of_opened.also(NameServer, "set_writeable")
def _note_opened(self: NameServer, name: str, *, writeable: bool) -> int:
    opened: set[str] = vars(self).setdefault("_opened", set())
    (opened.add if writeable else opened.discard)(name)
    return _note_opened.original(self, name, writeable=writeable)


@bug("closed-broker-leaves-routes", NameServer, "route", found_by=("QUIET",))
@needs(_PERMISSIONS)
def route_to_writeable(self: NameServer, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
    """A broker without the permission to write is in no route, so consumers do not find it."""
    found = route_to_writeable.original(self, topic, quoted_keys=quoted_keys)
    if found is None:
        return None
    queues = [each for each in found["queueDatas"] if not bit(not each["perm"] & PERM_WRITE)]
    names = {each["brokerName"] for each in queues}
    brokers = [each for each in found["brokerDatas"] if each["brokerName"] in names]
    return {**found, "queueDatas": queues, "brokerDatas": brokers}


@bug("permission-kept-after-broker", NameServer, "_drop_unused_read_only", found_by=("QUIET",))
@needs(_PERMISSIONS, endings=("stop",))
def keep_read_only(self: NameServer) -> None:
    """A removed permission to write also applies to a broker that stops and registers again."""
    before = self._read_only
    keep_read_only.original(self)
    bit(before != self._read_only)
    self._read_only = before


# The name server has no other source: it does not ask a broker for its settings.
@bug("registered-without-permission", TopicConfigManager, "permitted_json_members", found_by=("META",))
@needs(_SETTINGS)
def register_all_permissions(self: TopicConfigManager, broker_permission: int) -> dict[str, Any]:
    """A broker registers its topics with all permissions, although an operator has changed brokerPermission."""
    bit(broker_permission != PERM_READ_WRITE)
    return self.json_members


@bug("route-lacks-young-slave", NameServer, "route", found_by=("QUIET",))
@needs(_ROUTES, cluster={"slaves": (1,)})
def route_to_brokers_with_topic(self: NameServer, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
    """A route names a slave only after the slave has copied the topic."""
    found = route_to_brokers_with_topic.original(self, topic, quoted_keys=quoted_keys)
    if found is None:
        return None
    having = {(each.name, each.address) for each in self._all_brokers() if topic in each.topics}
    brokers = [{**each, "brokerAddrs": _addresses_in(each, having)} for each in found["brokerDatas"]]
    bit(brokers != found["brokerDatas"])
    return {**found, "brokerDatas": brokers}


def _addresses_in(data: Mapping[str, Any], having: set[tuple[str, str]]) -> dict[str, str]:
    return {key: at for key, at in data["brokerAddrs"].items() if (data["brokerName"], at) in having}


@bug("topic-deleted-at-one-broker", NameServer, "forget_topic", found_by=("QUIET",))
@needs(_PERMISSIONS, cluster={"slaves": (1,)})
def forget_at_first(self: NameServer, topic: str) -> None:
    """A name server deletes a topic only from the first broker that has it."""
    with self._lock:
        having = [key for key, each in self._others.items() if topic in each.topics]
        bit(len(having) > 1)
        for key in having[:1]:
            topics = {name: each for name, each in self._others[key].topics.items() if name != topic}
            self._others[key] = replace(self._others[key], topics=topics)


@bug("route-of-slave-table", NameServer, "route", found_by=("QUIET", "META"))
@needs(_OPERATED)
def route_of_last_table(self: NameServer, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
    """A route has the queues and the permission of a slave's table, which can be older than its master's."""
    found = route_of_last_table.original(self, topic, quoted_keys=quoted_keys)
    if found is None:
        return None
    queues = {each.name: self._queue_data(each, topic) for each in self._all_brokers() if topic in each.topics}
    wrong = [queues.get(each["brokerName"], each) for each in found["queueDatas"]]
    bit(wrong != found["queueDatas"])
    return {**found, "queueDatas": wrong}


# apache/rocketmq issues 288, 7052 and 7884.
@bug("deleted-topic-stays-in-routes", NameServer, "register", found_by=("QUIET", "META"))
@needs(_ROUTES, broker={"operators": (1,)})
def register_and_add(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A registration adds topics of a broker, but removes none, so producers still get the route to a deleted topic."""
    known = self._others.get((broker.name, broker.broker_id))
    if known is not None and bit(bool(known.topics.keys() - broker.topics.keys())):
        broker = replace(broker, topics={**known.topics, **broker.topics})
    return register_and_add.original(self, broker)


# RocketMQ 5 compares versions in this way: RouteInfoManager.registerBroker.
@bug("successor-not-listed", NameServer, "register", found_by=("QUIET", "LIVE"))
@needs(_TAKEOVER)
def register_newer(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A slave that replaces its lost master is not in the routes until the lost master expires, because both have the
    same version of the topics."""
    known, version = self._others.get((broker.name, broker.broker_id)), broker.version
    if known is not None and known.address != broker.address and known.version is not None and version is not None:
        is_listed = known.heard_ns > self._clock.monotonic_ns() - BROKER_EXPIRED_MS * 1_000_000
        if bit(is_listed and version <= known.version):
            return next((each for each in self._all_brokers() if (each.name, each.broker_id) == (broker.name, 0)), None)
    return register_newer.original(self, broker)


# apache/rocketmq issue 4522.
@bug("known-version-restores-no-topic", NameServer, "register", found_by=("QUIET",))
@needs(_PERMISSIONS)
def register_changed_topics(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A topic that an operator deletes at a name server returns only after its broker has changed some topic."""
    with self._lock:
        known = self._others.get((broker.name, broker.broker_id))
    if known is not None and (known.address, known.version) == (broker.address, broker.version):
        bit(dict(known.topics) != dict(broker.topics))
        broker = replace(broker, topics=known.topics)
    return register_changed_topics.original(self, broker)


# A broker changes no mark without a table in the answer, also after its restart.
@bug("last-ordered-topic-stays-ordered", NameServerProcessor, "register", found_by=("META",))
@needs(_KEYS)
def register_without_empty_table(
    self: NameServerProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand:
    """After an operator deletes the last key of ORDER_TOPIC_CONFIG, brokers keep the topic marked as ordered."""
    response = register_without_empty_table.original(self, request, channel)
    return replace(response, body=b"") if bit(response.body == b'{"table":{}}') else response


@bug("empty-namespace-dropped", KVConfig, "delete", found_by=("META",))
@needs(_KEYS)
def delete_and_drop(self: KVConfig, namespace: str, key: str) -> None:
    """The deletion of a namespace's last key removes the namespace, so brokers get no table, and keep their marks."""
    delete_and_drop.original(self, namespace, key)
    with self._lock:
        if bit(self._namespaces.get(namespace) == {}):
            self._store_namespaces({name: each for name, each in self._namespaces.items() if name != namespace})


# Two name servers with different keys then cause registrations without end.
@bug("marks-are-registered", TopicConfigManager, "mark_ordered", found_by=("LIVE",))
@needs(_KEYS, broker={"masters": (3,)})
def mark_and_register(self: TopicConfigManager, find_ordered: Callable[[], Container[str]]) -> None:
    """A broker registers at once with all name servers after the answer of one has changed the marks of its topics."""
    version = self.version
    mark_and_register.original(self, find_ordered)
    if bit(self.version != version) and self.on_changed is not None:
        self.on_changed()


@bug("registration-never-unmarks", BrokerRegistration, "_register_broker", found_by=("META",))
@needs(_KEYS)
def register_and_keep_marks(self: BrokerRegistration, client: RemotingClient) -> None:
    """A broker marks topics by the answer of its name server, and never removes a mark."""
    topics = self._parts.topics
    before = {name for name, each in topics.table.items() if each.order}
    register_and_keep_marks.original(self, client)
    ordered = {name for name, each in topics.table.items() if each.order}
    if bit(bool(before - ordered)):
        topics.mark_ordered(lambda: before | ordered)

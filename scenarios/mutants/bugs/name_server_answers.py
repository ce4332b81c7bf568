"""Bugs of a name server's answers: expiry, ended connections, lists, versions, limits and keys."""

import zlib
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.kv_config import ORDER_TOPIC_CONFIG, KVConfig
from ....store.broker.name_server import BROKER_EXPIRED_MS, BROKERS_MAX, NameServer, RegisteredBroker
from ....store.broker.processors.names import NameServerProcessor
from ....store.broker.requests import ExtFields, RequestRefusedError, success_response
from ....store.broker.router import Channel
from ....store.broker.topics import TopicConfig, TopicConfigManager
from ....store.broker.versioned_table import DataVersion
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import decode_json_body
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_ANSWERS = SCENARIOS["name-server-answers"].ranges
_KEYS = _ANSWERS.replace(broker={"key_operators": (1,)})


# apache/rocketmq issue 11043.
@bug("registration-over-ended-connection", NameServer, "register", found_by=("QUIET",))
@needs(_ANSWERS)
def register_as_open(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A broker stays listed if its connection has ended before the name server reads the registration."""
    channel = broker.channel
    if channel is not None and bit(not channel.is_open):
        broker = replace(broker, channel=_Successor(channel))
    return register_as_open.original(self, broker)


class _Successor:
    """Stands for an ended connection, and does not end."""

    def __init__(self, channel: Channel) -> None:
        self.remote_address = channel.remote_address
        self.local_address = channel.local_address
        self.is_open = True
        self.send = channel.send
        self.close: Callable[[], None] = channel.close


@bug("end-removes-brokers-of-its-host", NameServer, "channel_closed", found_by=("QUIET",))
@needs(_ANSWERS)
def close_by_host(self: NameServer, channel: Channel) -> None:
    """The end of a connection removes all brokers of its host, also those that registered over a newer connection."""
    host = _host_of(channel)
    with self._lock:
        before = self._others
        self._others = {
            key: each for key, each in before.items() if each.channel is None or _host_of(each.channel) != host
        }
        gone = before.keys() - self._others.keys()
        bit(any(before[key].channel is not channel for key in gone))
        self._drop_unused_read_only()


def _host_of(channel: Channel) -> str:
    return channel.remote_address.rpartition(":")[0]


@bug("unregistering-removes-the-name", NameServer, "unregister", found_by=("QUIET",))
@needs(_ANSWERS)
def unregister_all_ids(self: NameServer, name: str, broker_id: int) -> None:
    """A broker that unregisters takes along its master or its slaves."""
    with self._lock:
        bit(any(key[0] == name and key[1] != broker_id for key in self._others))
        self._others = {key: each for key, each in self._others.items() if key[0] != name}
        self._drop_unused_read_only()


@bug("unregistering-without-effect", NameServer, "unregister", found_by=("QUIET",))
@needs(_ANSWERS)
def unregister_none(self: NameServer, name: str, broker_id: int) -> None:
    """A broker that unregisters stays listed until its connection ends."""
    bit((name, broker_id) in self._others)


@bug("known-version-does-not-postpone-expiry", NameServer, "register", found_by=("QUIET",))
@needs(_ANSWERS)
def register_same(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A broker whose topics do not change is removed every two minutes, although it registers all the time."""
    known = self._others.get((broker.name, broker.broker_id))
    if known is not None and (known.version, known.address) == (broker.version, broker.address):
        bit(known.heard_ns < broker.heard_ns)
        broker = replace(broker, heard_ns=known.heard_ns)
    return register_same.original(self, broker)


@bug("version-query-does-not-postpone-expiry", NameServer, "version_of", found_by=("QUIET",))
@needs(_ANSWERS)
def read_version(self: NameServer, name: str, broker_id: int) -> DataVersion | None:
    """A broker that only asks whether its topics have changed is removed after two minutes."""
    with self._lock:
        broker = self._others.get((name, broker_id))
    bit(broker is not None)
    return None if broker is None else broker.version


@bug("silent-broker-stays-listed", NameServer, "_drop_expired_brokers", found_by=("QUIET",))
@needs(_ANSWERS, broker={"idle_ms_max": (400_000,)})
def drop_none(self: NameServer) -> None:
    """A broker that hangs stays listed for as long as its connection is open."""
    silent_ns = self._clock.monotonic_ns() - BROKER_EXPIRED_MS * 1_000_000
    bit(any(each.heard_ns <= silent_ns for each in self._others.values()))


@bug("versions-compared-by-counter", NameServerProcessor, "query_version", found_by=("QUIET",))
@needs(_ANSWERS)
def query_by_counter(self: NameServerProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """Topics count as unchanged if only the timestamp of their version differs, as after a broker got a new disk."""
    fields = ExtFields(request.ext_fields)
    theirs = DataVersion.from_json_members(decode_json_body(request.body))
    known = self._name_server.version_of(fields.text("brokerName"), fields.int64("brokerId"))
    is_changed = known is None or known.counter != theirs.counter
    bit(is_changed != (known != theirs))
    return success_response(request, None if known is None else known.json_members, changed=str(is_changed).lower())


@bug("full-table-refuses-known-brokers", NameServer, "register", found_by=("QUIET",))
@needs(_ANSWERS)
def register_below_limit(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """While the maximum number of brokers is registered, none of them can register again."""
    with self._lock:
        is_known = (broker.name, broker.broker_id) in self._others
        if len(self._others) >= BROKERS_MAX:
            bit(is_known)
            raise RequestRefusedError(f"brokers: expected {BROKERS_MAX} or fewer, found one more")
    return register_below_limit.original(self, broker)


@bug("slave-gets-first-address-of-master", NameServer, "register", found_by=("QUIET",))
@needs(_ANSWERS)
def answer_first_master(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A slave that registers gets the first address of its master, also after the master has moved."""
    master = answer_first_master.original(self, broker)
    if master is None:
        return None
    first: RegisteredBroker = vars(self).setdefault("_first", {}).setdefault(master.name, master)
    bit(broker.broker_id != MASTER_ID and first.address != master.address)
    return first


@bug("broker-in-cluster-of-another", NameServer, "cluster_info", found_by=("QUIET",))
@needs(_ANSWERS)
def cluster_of_first(self: NameServer) -> dict[str, Any]:
    """With several clusters, all brokers are listed in the first one."""
    found = cluster_of_first.original(self)
    clusters: dict[str, list[str]] = found["clusterAddrTable"]
    bit(len(clusters) > 1)
    every = [name for names in clusters.values() for name in names]
    return {**found, "clusterAddrTable": dict.fromkeys([*clusters][:1], every)}


@bug("topics-of-every-cluster", NameServer, "topics", found_by=("QUIET",))
@needs(_ANSWERS)
def topics_of_all(self: NameServer, cluster: str | None = None) -> list[str]:
    """The list of a cluster's topics has the topics of all clusters."""
    found = topics_of_all.original(self, None)
    bit(cluster is not None and found != topics_of_all.original(self, cluster))
    return found


@bug("unit-topics-by-one-flag", NameServer, "topics_with_unit_flag", found_by=("QUIET",))
@needs(_ANSWERS)
def topics_with_flag(self: NameServer, *, having: int, lacking: int = 0) -> list[str]:
    """The list of topics with unit subscriptions outside units has topics of units, too."""
    found = topics_with_flag.original(self, having=having)
    bit(found != topics_with_flag.original(self, having=having, lacking=lacking))
    return found


@bug("registration-with-wrong-crc", NameServerProcessor, "register", found_by=("QUIET",))
@needs(_ANSWERS)
def register_any_crc(self: NameServerProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A name server registers topics from a damaged body."""
    crc = request.ext_fields.get("bodyCrc32", "0")
    bit(crc not in ("0", str(zlib.crc32(request.body) & 0x7FFFFFFF)))
    fields = {**request.ext_fields, "bodyCrc32": "0"}
    return register_any_crc.original(self, replace(request, ext_fields=fields), channel)


@bug("topic-deletion-unbinds-brokers", NameServer, "forget_topic", found_by=("QUIET",))
@needs(_ANSWERS)
def forget_and_unbind(self: NameServer, topic: str) -> None:
    """After a topic was deleted at the name server, a broker stays listed when its connection ends."""
    forget_and_unbind.original(self, topic)
    with self._lock:
        bit(bool(self._others))
        self._others = {key: replace(each, channel=None) for key, each in self._others.items()}


@bug("permission-ends-with-master", NameServer, "_drop_unused_read_only", found_by=("QUIET",))
@needs(_ANSWERS)
def drop_without_master(self: NameServer) -> None:
    """A removed permission to write is restored when a master restarts, although its slave stayed registered."""
    drop_without_master.original(self)
    if self._read_only:
        own = () if self._config is None else (self._config.broker_name,)
        left = self._read_only & {*own, *(name for name, broker_id in self._others if broker_id == MASTER_ID)}
        bit(left != self._read_only)
        self._read_only = left


@bug("old-client-gets-quoted-ids", NameServer, "route", found_by=("QUIET",))
@needs(_ANSWERS)
def route_quoted(self: NameServer, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
    """A route for an old client has broker ids in quotes."""
    bit(not quoted_keys)
    return route_quoted.original(self, topic, quoted_keys=True)


@bug("route-without-unit-flags", NameServer, "_queue_data", found_by=("QUIET",))
@needs(_ANSWERS)
def queue_data_without_flags(self: NameServer, broker: RegisteredBroker, topic: str) -> dict[str, Any]:
    """A route does not say that a topic belongs to a unit."""
    data = queue_data_without_flags.original(self, broker, topic)
    bit(data["topicSysFlag"] != 0)
    return {**data, "topicSysFlag": 0}


@bug("topics-counted-per-broker", NameServer, "set_writeable", found_by=("QUIET",))
@needs(_ANSWERS)
def count_of_each(self: NameServer, name: str, *, writeable: bool) -> int:
    """The number of topics of a changed permission counts a topic of master and slave twice."""
    once = count_of_each.original(self, name, writeable=writeable)
    every = sum(len(each.topics) for each in self._all_brokers() if each.name == name)
    bit(every != once)
    return every


@bug("system-topics-lack-other-clusters", NameServer, "system_topics", found_by=("QUIET",))
@needs(_ANSWERS)
def system_topics_of_first(self: NameServer) -> tuple[list[str], str]:
    """The list of system topics has the names of the first broker and its cluster only."""
    topics, address = system_topics_of_first.original(self)
    brokers = self._all_brokers()
    others = {name for each in brokers for name in (each.name, each.cluster)}
    others -= {name for each in brokers[:1] for name in (each.name, each.cluster)}
    bit(bool(others))
    return [topic for topic in topics if topic not in others], address


# Only a restart shows the key again.
@bug("deleted-key-returns", KVConfig, "delete", found_by=("META",))
@needs(_KEYS, lives=(2,))
def delete_in_memory(self: KVConfig, namespace: str, key: str) -> None:
    """A deleted key is back after a restart of the name server."""
    with self._lock:
        values = self._namespaces.get(namespace, {})
        if not bit(key in values):
            return
        self._namespaces = {**self._namespaces, namespace: {one: each for one, each in values.items() if one != key}}
    self.on_changed(namespace)


@bug("key-deletion-clears-namespace", KVConfig, "delete", found_by=("META",))
@needs(_KEYS)
def delete_namespace(self: KVConfig, namespace: str, key: str) -> None:
    """The deletion of a key removes its whole namespace."""
    with self._lock:
        values = self._namespaces.get(namespace, {})
        if key not in values:
            return
        bit(len(values) > 1)
        self._store_namespaces({name: each for name, each in self._namespaces.items() if name != namespace})
    self.on_changed(namespace)


@bug("topic-stays-ordered", TopicConfigManager, "mark_ordered", found_by=("META",))
@needs(_KEYS)
def mark_only(self: TopicConfigManager, find_ordered: Callable[[], Container[str]]) -> None:
    """A topic stays ordered after its value in ORDER_TOPIC_CONFIG was deleted."""

    def marked(table: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
        ordered = find_ordered()
        bit(any(each.order and name not in ordered for name, each in table.items()))
        return {name: replace(each, order=each.order or name in ordered) for name, each in table.items()}

    self.change(marked)


@bug("order-in-every-route", NameServer, "route", found_by=("META",))
@needs(_KEYS)
def route_with_order(self: NameServer, topic: str, *, quoted_keys: bool) -> dict[str, Any] | None:
    """A route has the value of ORDER_TOPIC_CONFIG although orderMessageEnable is off."""
    found = route_with_order.original(self, topic, quoted_keys=quoted_keys)
    if found is None:
        return None
    order = self.kv.get(ORDER_TOPIC_CONFIG, topic)
    bit(order != found["orderTopicConf"])
    return {**found, "orderTopicConf": order}

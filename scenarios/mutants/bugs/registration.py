"""Bugs of registration: name servers, consumer group members, and copied tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....store.broker import name_server
from ....store.broker.broker import Broker
from ....store.broker.clients import ClientChannelInfo
from ....store.broker.name_server import NameServer, RegisteredBroker
from ....store.broker.outer_api import BrokerRegistration, SlaveSynchronize
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.requests import RequestCode, refuse_request_if, success_response
from ....store.broker.router import Channel
from ....store.broker.subscriptions import HeartbeatData
from ....store.broker.versioned_table import DataVersion, Entry, VersionedTable
from ....store.delivery.schedule import decoded_offsets
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import JsonMembers, decode_json_body
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_CLUSTER = BROKER.replace(
    heals=(True,),
    sync_flush=(True,),
    lives=(2, 3),
    consumers=(1, 2),
    cluster={"slaves": (1,)},
    broker={"slaves_are_read": (True,), "off_ms_max": (10_000, 30_000)},
)


@bug("registers-once", BrokerRegistration, "run_once", found_by=("QUIET", "LIVE"))
@needs(_CLUSTER)
def register_at_start(self: BrokerRegistration) -> None:
    """A broker registers only at its start, so a restarted name server does not know the broker."""
    if not self.registered:
        register_at_start.original(self)
        return
    bit()
    self.signal.wait(self._parts.config.register_name_server_period_ms)


@bug("registered-over-first-connection", NameServer, "register", found_by=("QUIET", "LIVE"))
@needs(
    SCENARIOS["name-server-routes"].ranges,
    network={"late_chance": (0.2, 0.5)},
    disturbances={"paused_task_chance": (0.0,), "paused_machine_chance": (0.0,)},
    broker={"off_ms_max": (10, 1_000), "idle_ms_max": (20_000,)},
)
def register_on_first_channel(self: NameServer, broker: RegisteredBroker) -> RegisteredBroker | None:
    """A broker that registers again over a new connection stays bound to its old one. When that ends late, no route
    leads to the broker until its next registration."""
    known = self._others.get((broker.name, broker.broker_id))
    if bit(known is not None and known.channel is not broker.channel) and known is not None:
        broker = replace(broker, channel=known.channel)
    return register_on_first_channel.original(self, broker)


# The slave then loses the messages and offsets of clients.
@bug("slave-listed-as-master", name_server, "_broker_datas", found_by=("META", "LIVE", "QUIET", "READ"))
@needs(_CLUSTER)
def counted(brokers: list[RegisteredBroker], *, quoted_keys: bool) -> dict[str, dict[str, Any]]:
    """A route without the master lists the first slave as the master."""
    datas: dict[str, dict[str, Any]] = {}
    for broker in brokers:
        made = {"brokerAddrs": {}, "brokerName": broker.name, "cluster": broker.cluster}
        addresses = datas.setdefault(broker.name, made)["brokerAddrs"]
        bit(len(addresses) != broker.broker_id)
        addresses[str(len(addresses)) if quoted_keys else len(addresses)] = broker.address
    return datas


@bug("slave-keeps-its-progress", SlaveSynchronize, "synchronize", found_by=("REP",))
@needs(_CLUSTER)
def synchronize_without_progress(self: SlaveSynchronize) -> None:
    """A slave never copies the offsets of its master's groups."""
    parts = self._parts
    parts.topics.replace(decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_TOPIC_CONFIG)))
    bit()
    parts.own_store.schedule.take_over(
        decoded_offsets(self._request_body_from_master(RequestCode.GET_ALL_DELAY_OFFSET), "the master")
    )
    parts.groups.replace(decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)))
    self.synchronized += 1


# The loss of tables is visible when the slave restarts as the master.
@bug("slave-tables-in-memory", VersionedTable, "replace", found_by=("REP",))
@needs(_CLUSTER, broker={"slave_takes_over": (True,)})
def replace_in_memory(self: VersionedTable, members: JsonMembers) -> bool:  # type: ignore[type-arg]
    """A slave that becomes the master has lost its copied topics and groups."""
    version, table = self._parse_members(members)
    with self._lock:
        if not bit(version != self.version):
            return False
        self._state = version, table
    if self.on_changed is not None:
        self.on_changed()
    return True


# For two minutes no consumer reads the dead client's queues.
@bug("heartbeat-of-the-dead", ClientManageProcessor, "heartbeat", found_by=("LIVE",))
@needs(SCENARIOS["slave-reads"].ranges)
def heartbeat_without_second_look(
    self: ClientManageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand:
    """A client stays a member of its groups if its connection ends during the heartbeat."""
    parts = self._parts
    heartbeat = HeartbeatData.decode(request.body)
    for consumer in heartbeat.consumers:
        refuse_request_if(parts.group_name_fault(consumer.group))
    now_ns = parts.world.clock.monotonic_ns()
    who = (channel, heartbeat.client_id, request.language, request.version, now_ns)
    for consumer in heartbeat.consumers:
        self._register_consumer(consumer, ClientChannelInfo(*who))
    for group in heartbeat.producer_groups:
        parts.producers.register(group, ClientChannelInfo(*who))
    bit(not channel.is_open)
    return success_response(request)


# The slave changes the table's version in memory before it writes the table.
@bug("version-ahead-of-its-table", VersionedTable, "_store_table", found_by=("REP",))
@needs(SCENARIOS["slave-reads"].ranges)
def store_version_first(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    """A table counts as copied although the slave's disk failed during the copy."""
    bit(table != self.table)
    self._state = version, self._state[1]
    self.file.store(self._encode_table(version, table))
    self._state = version, table


@bug("table-lags-one-change", VersionedTable, "_store_table", found_by=("META",))
@needs(broker={"serves": (True,)}, consumers=(1,))
def store_before_change(self: VersionedTable[Entry], version: DataVersion, table: Mapping[str, Entry]) -> None:
    """The newest topic or group reaches the disk only with the next new topic or group."""
    self.file.store(self._encode_table(*self._state))
    bit()
    self._state = version, dict(table)


# apache/rocketmq issue 7884.
@bug("new-topic-registered-late", Broker, "_register_again", found_by=("META", "LIVE"))
@needs(SCENARIOS["name-server-routes"].ranges, broker={"operators": (1,), "key_operators": (0,)})
def register_at_intervals(self: Broker) -> None:
    """Clients get no route to a new topic until the broker's next regular registration."""
    bit(bool(self.registrations))


# apache/rocketmq issue 10435.
@bug("groups-share-heartbeats", ClientManageProcessor, "heartbeat", found_by=("LIVE",))
@needs(SCENARIOS["group-members"].ranges, broker={"leave_chance": (0.4,)})
def heartbeat_for_all_groups(
    self: ClientManageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand:
    """A client stays a member of a group without heartbeats as long as it sends heartbeats for another group."""
    parts = self._parts
    heartbeat = HeartbeatData.decode(request.body)
    named = {consumer.group for consumer in heartbeat.consumers}
    response: RemotingCommand = heartbeat_for_all_groups.original(self, request, channel)
    for name in parts.consumers.member_count_by_group():
        info = parts.consumers.find_group(name)
        known = None if info is None else info.clients.get(channel)
        if known is not None and bit(name not in named):
            known.heartbeat_ns = parts.world.clock.monotonic_ns()
    return response

"""Bugs of a broker's answers to operators, and of name servers: topics, groups, permissions, offsets, routes."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ....store.broker.client_calls import ClientPushes
from ....store.broker.clients import ClientChannelInfo
from ....store.broker.name_server import NameServer
from ....store.broker.outer_api import BrokerRegistration
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.group_admin import GroupAdminProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import RequestCode, success_response
from ....store.broker.router import Channel
from ....store.broker.sending import SendChecks, SendRequest
from ....store.broker.subscriptions import ConsumerData
from ....store.broker.topic_names import retry_topic
from ....store.broker.topics import SubscriptionGroupConfig, TopicConfig, unit_sys_flag
from ....store.broker.versioned_table import DataVersion, Entry, VersionedTable
from ....store.formats.remoting.command import RemotingCommand
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_OPERATED = SCENARIOS["operator-changes"].ranges.replace(broker={"group_members": (2,), "rest_ms_max": (15_000,)})


@bug("deleted-entry-returns", VersionedTable, "remove", found_by=("META",))
@needs(_OPERATED, lives=(2,))
def remove_from_memory(self: VersionedTable[Entry], name: str) -> None:
    """A topic or group that an operator deletes returns at the next start."""
    with self._lock:
        version, table = self._state
        bit(name in table)
        self._state = version, {key: value for key, value in table.items() if key != name}


# Apache Pulsar: apache/pulsar issue 21545.
@bug("send-replaces-new-topic", VersionedTable, "get_or_create_entry", found_by=("META", "QUIET"))
@needs(_OPERATED, broker_settings={"auto_create_topic_enable": (True,)})
def create_unlooked(self: VersionedTable[Entry], name: str, make: Callable[[], Entry]) -> Entry:
    """The automatic creation of a topic or group replaces an entry that an operator creates at the same time."""
    found = self._state[1].get(name)
    if found is None:

        def with_entry(table: dict[str, Entry]) -> dict[str, Entry]:
            entry = make()
            bit(table.get(name, entry) != entry)
            return {**table, name: entry}

        found = self.change(with_entry)[name]
    return found


@bug("changed-entry-not-stored", VersionedTable, "put", found_by=("META",))
@needs(_OPERATED, lives=(2,))
def put_in_memory(self: VersionedTable[Entry], name: str, entry: Entry) -> None:
    """A topic or group that exists gets its new settings only in memory."""
    if not bit(name in self._state[1]):
        put_in_memory.original(self, name, entry)
        return
    with self._lock:
        version, table = self._state
        self._state = DataVersion(version.timestamp_ms, version.counter + 1), {**table, name: entry}


@bug("existing-entry-not-changed", VersionedTable, "put", found_by=("META", "STATUS"))
@needs(_OPERATED)
def put_missing_only(self: VersionedTable[Entry], name: str, entry: Entry) -> None:
    """An operator's change of a topic or group that exists is answered with SUCCESS and has no effect."""
    bit(self.get(name) not in (None, entry))
    self.add_missing_entries([(name, entry)])


@bug("change-keeps-version", VersionedTable, "_store_table", found_by=("META", "REP", "QUIET"))
@needs(_OPERATED)
def store_with_old_version(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    """A change of a table keeps the table's version, so slaves and name servers do not copy the change."""
    bit(table.keys() == self._state[1].keys())
    is_same = table.keys() == self._state[1].keys()
    store_with_old_version.original(self, self.version if is_same else version, table)


@bug("pull-ignores-permission", PullMessageProcessor, "_require_queue", found_by=("STATUS",))
@needs(_OPERATED)
def require_any_queue(self: PullMessageProcessor, topic: str, queue_id: int) -> None:
    """Consumers pull from a topic after its permission to read was removed."""
    bit(not self._parts.require_topic(topic).perm & 4)


@bug("disabled-group-consumes", PullMessageProcessor, "_require_readable_group", found_by=("STATUS",))
@needs(_OPERATED)
def require_any_group(self: PullMessageProcessor, name: str) -> SubscriptionGroupConfig:
    """A group that an operator has disabled can still pull."""
    group = self._parts.require_group(name)
    bit(not group.consume_enable)
    return group


@bug("reset-sent-to-one-member", ClientPushes, "push", found_by=("LIVE",))
@needs(_OPERATED)
def push_reset_once(
    self: ClientPushes, channel: Channel, code: RequestCode, fields: Mapping[str, str], body: bytes = b""
) -> bool:
    """A broker sends the offsets that an operator has reset only to some members of the group."""
    if bit(code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET and self._opaques.get() % 2 == 1):
        self._opaques.add(1)
        return True
    return push_reset_once.original(self, channel, code, fields, body)


@bug("clone-succeeds-without-effect", GroupAdminProcessor, "clone_offset", found_by=("META",))
@needs(_OPERATED)
def clone_nothing(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """The offsets of a group are not cloned although the broker answers SUCCESS."""
    bit()
    return success_response(request)


@bug("dead-broker-keeps-routes", NameServer, "channel_closed", found_by=("QUIET",))
@needs(SCENARIOS["name-server-routes"].ranges)
def keep_routes(self: NameServer, channel: Channel) -> None:
    """A name server lists a broker after the end of its connection."""
    bit(any(each.channel is channel for each in self._others.values()))


@bug("broker-registers-once", BrokerRegistration, "_register_broker", found_by=("QUIET",))
@needs(SCENARIOS["name-server-routes"].ranges)
def register_once(self: BrokerRegistration, client: RemotingClient) -> None:
    """A broker does not register again at a name server that has lost it."""
    if not bit(self.registered > 0):
        register_once.original(self, client)


@bug("reset-moves-group-on", GroupAdminProcessor, "reset_offset", found_by=("META", "LIVE"))
@needs(_OPERATED)
def reset_to_end(self: GroupAdminProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """An operator that moves a group back in time moves it to the ends of its queues."""
    bit()
    fields = {**request.ext_fields, "timestamp": "-1", "isForce": "true"}
    return reset_to_end.original(self, replace(request, ext_fields=fields), channel)


@bug("missing-queue-accepted", SendChecks, "find_or_create_topic", found_by=("STATUS", "PREFIX"))
@needs(_OPERATED)
def find_topic_only(self: SendChecks, send: SendRequest) -> TopicConfig:
    """A broker stores a message in a queue that its topic does not have, where no consumer looks."""
    topic = self._parts.topics.get(send.topic)
    bit(topic is not None and send.queue_id >= topic.queue_nums)
    return find_topic_only.original(self, send._replace(queue_id=0))


# RocketMQ's ConsumerOffsetManager.removeOffset tests whether the key contains the name.
@bug("deleted-group-matches-substring", ConsumerOffsetManager, "remove_group", found_by=("META", "REDEL", "LIVE"))
@needs(_OPERATED)
def remove_containing(self: ConsumerOffsetManager, group: str) -> None:
    """The removal of a group's offsets also removes those of groups with its name in theirs."""
    with self._lock:
        for table in (self._offsets, self._light_offsets):
            for key in [key for key in table if group in key]:
                bit(not key.endswith(f"@{group}"))
                del table[key]


# After apache/rocketmq issue 3953, in which an operator changes the queues of a retry topic.
@bug("heartbeat-replaces-retry-topic", ClientManageProcessor, "_register_consumer", found_by=("META",))
@needs(_OPERATED)
def register_and_put_retry_topic(
    self: ClientManageProcessor, consumer: ConsumerData, client: ClientChannelInfo
) -> None:
    """Each heartbeat gives the retry topic of its group the settings of a new one, whatever an operator has set."""
    parts, group = self._parts, self._parts.groups.find(consumer.group)
    if group is not None:
        name, queues = retry_topic(consumer.group), group.retry_queue_nums
        topic = TopicConfig(name, queues, queues, sys_flag=unit_sys_flag(has_unit_sub=consumer.unit_mode))
        bit(parts.topics.get(name) not in (None, topic))
        parts.topics.put(name, topic)
    parts.consumers.register(consumer, client, notify=self._should_notify_members(group))

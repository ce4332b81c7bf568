"""Bugs of a broker's slaves: copied tables, redirects of consumers, routes, and lookups."""

from collections.abc import Mapping
from dataclasses import replace

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.name_server import NameServer
from ....store.broker.outer_api import BrokerRegistration, SlaveSynchronize
from ....store.broker.parts import BrokerParts
from ....store.broker.processors import pull
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import ExtFields, RequestCode, ResponseCode, success_response
from ....store.broker.router import Channel
from ....store.broker.subscriptions import TAG, SubscriptionData
from ....store.broker.topics import SubscriptionGroupConfig
from ....store.broker.versioned_table import VersionedTable
from ....store.config import BrokerRole
from ....store.delivery.schedule import ScheduleMessageService, decoded_offsets
from ....store.formats.messages import GetMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import JsonMembers, decode_json_body
from ....store.index.key_query import QueryMessageResult
from ....store.message_store import MessageStore
from ....store.services.consumer_offsets import ConsumerOffsetManager, decoded_consumer_offsets
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_READS = SCENARIOS["slave-reads"].ranges
_ROUTES = SCENARIOS["name-server-routes"].ranges.replace(cluster={"slaves": (1,)}, broker={"key_operators": (0,)})
_LOOKUPS = SCENARIOS["broker-lookups"].ranges.replace(
    sync_flush=(True,), memory={"transient_pool": (False,)}, retention=None, cluster={"slaves": (1,)}
)
_RETRIES = SCENARIOS["consumer-retry"].ranges.replace(sync_flush=(True,), cluster={"slaves": (1,)})


@bug("slave-ignores-registered-filter", PullMessageProcessor, "_registered_subscription", found_by=("READ", "PREFIX"))
@needs(_READS, broker={"registers_filters": (True,), "slaves_are_read": (True,)}, consuming={"filtered": (True,)})
def subscribe_to_everything(
    self: PullMessageProcessor, group: SubscriptionGroupConfig, topic: str, version: int
) -> SubscriptionData:
    """A slave gives a group every message, although the group has registered an expression with it."""
    found = subscribe_to_everything.original(self, group, topic, version)
    return (
        SubscriptionData(topic, "*", TAG, version) if bit(self._parts.is_slave and found.expression != "*") else found
    )


@bug("slave-registers-no-consumers", ClientManageProcessor, "heartbeat", found_by=("LIVE", "REDEL", "PREFIX"))
@needs(_READS, broker={"registers_filters": (True,), "slaves_are_read": (True,)}, heals=(True,))
def heartbeat_at_master(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A slave ignores heartbeats, so that it refuses each pull by a registered subscription."""
    if bit(self._parts.is_slave):
        return success_response(request)
    return heartbeat_at_master.original(self, request, channel)


# The slave's broker has the offsets until its next start, so only its file shows the mistake.
@bug("slave-delay-offsets-in-memory", ScheduleMessageService, "take_over", found_by=("REP",))
@needs(_RETRIES)
def take_over_in_memory(self: ScheduleMessageService, offsets: Mapping[int, int]) -> None:
    """A slave that becomes the master delivers all delayed messages again."""
    bit(self.offsets != offsets)
    self.offsets = dict(offsets)


@bug("slave-offsets-persisted-late", SlaveSynchronize, "synchronize", found_by=("REP",))
@needs(_READS)
def synchronize_without_persist(self: SlaveSynchronize) -> None:
    """A slave writes its master's consumer offsets to disk only after a later interval."""
    parts = self._parts
    parts.topics.replace(decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_TOPIC_CONFIG)))
    raw = self._request_body_from_master(RequestCode.GET_ALL_CONSUMER_OFFSET)
    parts.offsets.replace(raw, self.master_address)
    bit()
    parts.own_store.schedule.take_over(
        decoded_offsets(self._request_body_from_master(RequestCode.GET_ALL_DELAY_OFFSET), self.master_address)
    )
    parts.groups.replace(decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)))
    self.synchronized += 1


@bug("slave-groups-not-copied", SlaveSynchronize, "synchronize", found_by=("REP",))
@needs(_READS)
def synchronize_without_groups(self: SlaveSynchronize) -> None:
    """A slave never copies the settings of its master's groups."""
    parts = self._parts
    parts.topics.replace(decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_TOPIC_CONFIG)))
    parts.offsets.replace(self._request_body_from_master(RequestCode.GET_ALL_CONSUMER_OFFSET), self.master_address)
    parts.offsets.persist()
    parts.own_store.schedule.take_over(
        decoded_offsets(self._request_body_from_master(RequestCode.GET_ALL_DELAY_OFFSET), self.master_address)
    )
    bit()
    self.synchronized += 1


@bug("slave-keeps-own-table", VersionedTable, "replace", found_by=("REP",))
@needs(_READS, broker={"slave_disk_reuse_chance": (1.0,)})
def replace_if_newer(self: VersionedTable, members: JsonMembers) -> bool:  # type: ignore[type-arg]
    """A slave ignores its master's topics and groups if its own tables had more changes."""
    version, _ = self._parse_members(members)
    if bit(version.counter <= self.version.counter and version != self.version):
        return False
    return replace_if_newer.original(self, members)


@bug("slave-suggested-without-lag", PullMessageProcessor, "_suggested_broker", found_by=("READ",))
@needs(_READS)
def suggest_slave(self: PullMessageProcessor, result: GetMessageResult, group: SubscriptionGroupConfig) -> int:
    """A broker sends every consumer to a slave, and none comes back to the master."""
    if not self._parts.config.slave_read_enable:
        return MASTER_ID
    bit(not result.suggest_pulling_from_slave)
    return group.which_broker_when_consume_slowly


@bug("slave-never-suggested", PullMessageProcessor, "_suggested_broker", found_by=("READ",))
@needs(_READS)
def suggest_master(self: PullMessageProcessor, result: GetMessageResult, group: SubscriptionGroupConfig) -> int:
    """A master never sends a lagging consumer to a slave."""
    bit(self._parts.config.slave_read_enable and result.suggest_pulling_from_slave)
    return group.broker_id


# The master's queue is longer, so the consumer skips messages that the slave does not have yet.
@bug("slave-moves-consumer", pull, "_make_pull_response", found_by=("READ",))
@needs(_READS)
def respond_with_bound(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    """A slave without the next message sends the consumer to the end of its own queue."""
    if code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY) and not result.records:
        bit(result.next_begin_offset > result.max_offset)
        result.next_begin_offset = min(result.next_begin_offset, result.max_offset)
    return respond_with_bound.original(request, code, broker_id, result)


@bug("slave-redirects-after-found", PullMessageProcessor, "_redirect_to_master", found_by=("READ",))
@needs(_READS, broker={"slaves_are_read": (False,)}, endings=("crash at rest",))
def redirect_after_found(
    self: PullMessageProcessor, request: RemotingCommand, queue: tuple[str, int], offset: int
) -> RemotingCommand:
    """A slave that may not be read sends a consumer to the master, at the offset after the messages that it has."""
    found = self._parts.store.get_message(*queue, offset, pull.MESSAGES_MAX)
    has_scanned = found.status in pull._SCANNED
    bit(has_scanned and found.next_begin_offset > offset)
    return redirect_after_found.original(self, request, queue, found.next_begin_offset if has_scanned else offset)


@bug("slave-stop-removes-master", NameServer, "unregister", found_by=("QUIET",))
@needs(_ROUTES, endings=("stop",))
def unregister_name(self: NameServer, name: str, broker_id: int) -> None:
    """When a slave stops, the name server removes its master, too, until the master's next registration."""
    for key in [key for key in self._others if key[0] == name and bit(key[1] != broker_id)]:
        unregister_name.original(self, *key)
    unregister_name.original(self, name, broker_id)


@bug("dead-slave-in-routes", NameServer, "channel_closed", found_by=("QUIET",))
@needs(_ROUTES, endings=("crash at rest",))
def drop_masters(self: NameServer, channel: Channel) -> None:
    """After the connection of a slave ends, its name server lists the slave for two minutes."""
    slaves = {key: each for key, each in self._others.items() if key[1] and each.channel is channel}
    drop_masters.original(self, channel)
    bit(len(slaves) > 0)
    self._others |= slaves


# Found by the lookups at slaves: for up to 10 s, tornlog's slave answered the offset 0.
@bug("slave-queue-needs-its-topic", BrokerParts, "has_queue", found_by=("READ",))
@needs(_LOOKUPS)
def has_copied_topic(self: BrokerParts, topic: str, queue_id: int) -> bool:
    """Until a slave has copied a topic, it answers that the queue of the topic is empty."""
    config = self.topics.get(topic)
    bit(config is None and self.own_store.queues.find(topic, queue_id) is not None)
    return config is not None and 0 <= queue_id < config.queue_nums


@bug("slave-finds-no-key", MessageStore, "query_message", found_by=("IDX",))
@needs(_LOOKUPS)
def query_at_masters(
    self: MessageStore, topic: str, key: str, max_messages: int, begin_ms: int, end_ms: int
) -> QueryMessageResult:
    """A slave finds no message by key, also after its master has died."""
    found = query_at_masters.original(self, topic, key, max_messages, begin_ms, end_ms)
    is_slave = self.config.broker_role is BrokerRole.SLAVE
    return QueryMessageResult() if bit(is_slave and bool(found.records)) else found


@bug("slave-offsets-merged", ConsumerOffsetManager, "replace", found_by=("REP",))
@needs(_READS, broker={"slave_disk_reuse_chance": (1.0,)})
def merge_offsets(self: ConsumerOffsetManager, raw: bytes, sender: str) -> None:
    """A slave keeps the offsets of groups that its master does not have, such as deleted ones."""
    offsets, light_offsets = decoded_consumer_offsets(raw, sender)
    with self._lock:
        bit(not self._offsets.keys() <= offsets.keys())
        for key, table in offsets.items():
            self._offsets.setdefault(key, {}).update(table)
        self._light_offsets.update(light_offsets)


@bug("slave-groups-copied-with-topics", SlaveSynchronize, "synchronize", found_by=("REP",))
@needs(_READS)
def synchronize_groups_with_topics(self: SlaveSynchronize) -> None:
    """A slave copies the groups of its master only if the topics have changed."""
    parts = self._parts
    has_changed = parts.topics.replace(
        decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_TOPIC_CONFIG))
    )
    parts.offsets.replace(self._request_body_from_master(RequestCode.GET_ALL_CONSUMER_OFFSET), self.master_address)
    parts.offsets.persist()
    parts.own_store.schedule.take_over(
        decoded_offsets(self._request_body_from_master(RequestCode.GET_ALL_DELAY_OFFSET), self.master_address)
    )
    groups = decode_json_body(self._request_body_from_master(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    if has_changed:
        parts.groups.replace(groups)
    else:
        bit(parts.groups._parse_members(groups)[0] != parts.groups.version)
    self.synchronized += 1


@bug("slave-compares-counters", VersionedTable, "replace", found_by=("REP",))
@needs(_READS, broker={"slave_disk_reuse_chance": (1.0,)})
def replace_other_counter(self: VersionedTable, members: JsonMembers) -> bool:  # type: ignore[type-arg]
    """A slave compares the counters of two versions and not their times, and keeps the tables of another cluster."""
    version, _ = self._parse_members(members)
    if bit(version.counter == self.version.counter and version != self.version):
        return False
    return replace_other_counter.original(self, members)


@bug("slave-entries-merged", VersionedTable, "replace", found_by=("REP",))
@needs(_READS, broker={"slave_disk_reuse_chance": (1.0,)})
def merge_entries(self: VersionedTable, members: JsonMembers) -> bool:  # type: ignore[type-arg]
    """A slave keeps topics and groups that its master does not have, such as deleted ones."""
    version, table = self._parse_members(members)
    with self._lock:
        if version == self.version:
            return False
        bit(not self.table.keys() <= table.keys())
        self._store_table(version, {**self.table, **table})
    if self.on_changed is not None:
        self.on_changed()
    return True


@bug("slave-delays-never-go-back", ScheduleMessageService, "take_over", found_by=("REP", "QUIET"))
@needs(_READS, broker={"slave_disk_reuse_chance": (1.0,)})
def take_over_higher(self: ScheduleMessageService, offsets: Mapping[int, int]) -> None:
    """A slave keeps a delay offset that is higher than its master's, and skips these messages as the new master."""
    levels = sorted({*self.offsets, *offsets})
    higher = {level: max(self.offsets.get(level, 0), offsets.get(level, 0)) for level in levels}
    bit(higher != offsets)
    take_over_higher.original(self, higher)


# apache/rocketmq issue 2181.
@bug("slave-without-queue-moves-consumer", PullMessageProcessor, "_pull", found_by=("READ",))
@needs(_READS)
def pull_from_empty_queue(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A slave that has no message of a queue yet sends the consumer to offset 0."""
    response = pull_from_empty_queue.original(self, request, channel, may_hold=may_hold)
    fields = ExtFields(request.ext_fields)
    topic, queue_id, offset = fields.text("topic"), fields.int32("queueId"), fields.int64("queueOffset")
    is_empty = self._parts.is_slave and self._parts.store.get_max_offset_in_queue(topic, queue_id) == 0
    if response is None or not bit(is_empty and offset > 0 and "nextBeginOffset" in response.ext_fields):
        return response
    return replace(response, ext_fields={**response.ext_fields, "nextBeginOffset": "0"})


# apache/rocketmq issue 8509.
@bug("slave-copies-no-light-offsets", ConsumerOffsetManager, "replace", found_by=("REP", "REDEL", "QUIET"))
@needs(_READS, light_queues={"chance": (0.3,)}, broker={"tailing_consumers": (1, 2)})
def replace_usual_offsets(self: ConsumerOffsetManager, raw: bytes, sender: str) -> None:
    """A slave does not copy the offsets of light queues from its master."""
    offsets, light_offsets = decoded_consumer_offsets(raw, sender)
    with self._lock:
        bit(light_offsets != self._light_offsets)
        self._offsets = offsets


# RocketMQ: BrokerController.doRegisterBrokerAll, and a comment in apache/rocketmq issue 6153.
@bug("slave-forgets-master", BrokerRegistration, "_register_broker", found_by=("REP",))
@needs(_READS)
def register_and_forget(self: BrokerRegistration, client: RemotingClient) -> None:
    """A slave that registers with a name server without its master copies nothing until a name server names one."""
    known, self.on_master = self.on_master, lambda address, ha_address: named.append((address, ha_address))
    named: list[tuple[str, str]] = []
    try:
        register_and_forget.original(self, client)
    finally:
        self.on_master = known
    if self._parts.is_slave:
        bit(not named)
        known(*(named[0] if named else ("", "")))

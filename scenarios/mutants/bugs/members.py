"""Bugs of brokers: who counts as a member of a group, and what a slave takes for its master's settings."""

from ....store.broker.clients import ClientChannelInfo
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.requests import refuse_if, success
from ....store.broker.router import Channel
from ....store.broker.subscriptions import HeartbeatData
from ....store.broker.versioned_table import DataVersion, VersionedTable
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs


# Nobody looks whether the connection is still there when its client has been noted. Until two minutes have passed, what
# is its share of the queues is given to nobody.
@bug("heartbeat-of-the-dead", ClientManageProcessor, "heartbeat", found_by=("LIVE",))
@needs(SCENARIOS["slaves-give-what-their-master-has"].ranges)
def heartbeat_without_second_look(
    self: ClientManageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand:
    """A client whose connection ends while its heartbeat is dealt with stays a member of its groups, with its share."""
    parts = self._parts
    heartbeat = HeartbeatData.decode(request.body)
    for consumer in heartbeat.consumers:
        refuse_if(parts.group_fault(consumer.group))
    now_ns = parts.world.clock.monotonic_ns()
    who = (channel, heartbeat.client_id, request.language, request.version, now_ns)
    for consumer in heartbeat.consumers:
        self._register(consumer, ClientChannelInfo(*who))
    for group in heartbeat.producer_groups:
        parts.producers.register(group, ClientChannelInfo(*who))
    bit(not channel.is_open)
    return success(request)


# The version moves first. If the disk then fails, the table of that version is never taken.
@bug("version-ahead-of-its-table", VersionedTable, "_store", found_by=("REP",))
@needs(SCENARIOS["slaves-give-what-their-master-has"].ranges)
def store_version_first(self: VersionedTable, version: DataVersion, table: dict) -> None:  # type: ignore[type-arg]
    """A slave whose disk failed once while it copied a table takes it for copied."""
    bit(table != self.table)
    self._state = version, self._state[1]
    self.file.store(self._encoded(version, table))
    self._state = version, table

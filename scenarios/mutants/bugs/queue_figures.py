"""Bugs of the figures of queues that operators read."""

from typing import Any

from ....store.broker.processors import figures
from ....store.broker.processors.broker_admin import BrokerAdminProcessor
from ....store.broker.requests import ExtFields, success_response
from ....store.broker.router import Channel
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue
from ....store.queues.consume_queue import ConsumeQueue
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_LOOKING = SCENARIOS["broker-lookups"].ranges.replace(broker={"rest_ms_max": (15_000,)})


@bug("topic-status-has-first-time", BrokerAdminProcessor, "topic_stats", found_by=("READ",))
@needs(_LOOKING)
def topic_stats_with_first_time(
    self: BrokerAdminProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand:
    """The status of a topic has the store time of each queue's first message, not of its last one."""
    parts, topic, table = self._parts, ExtFields(request.ext_fields).text("topic"), {}
    for queue_id in range(parts.require_topic(topic).write_queue_nums):
        first, end = parts.min_offset(topic, queue_id), parts.max_offset(topic, queue_id)
        bit(first < end - 1)
        table[MessageQueue(topic, parts.config.broker_name, queue_id)] = {
            "lastUpdateTimestamp": max(0, parts.store_time(topic, queue_id, first)),
            "maxOffset": end,
            "minOffset": first,
        }
    return success_response(request, {"offsetTable": table})


@bug("queue-entries-from-the-begin", figures, "_raw_entries", found_by=("READ",))
@needs(_LOOKING)
def entries_from_begin(queue: ConsumeQueue, index: int, count: int) -> list[dict[str, Any]]:
    """An operator who lists the entries of a queue from an offset gets the first ones."""
    bit(queue.min_offset < index < queue.max_offset)
    return entries_from_begin.original(queue, queue.min_offset, count)


@bug("newest-queue-entry-unlisted", figures, "_raw_entries", found_by=("READ",))
@needs(_LOOKING)
def entries_without_newest(queue: ConsumeQueue, index: int, count: int) -> list[dict[str, Any]]:
    """An operator who lists the entries of a queue does not get the newest one."""
    newest = queue.max_offset - 1
    return entries_without_newest.original(queue, index, min(count, newest - index) if bit(index <= newest) else count)

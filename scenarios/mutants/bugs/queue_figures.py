"""Bugs of the figures of queues and groups that operators read."""

import json
from dataclasses import replace
from typing import Any

from ....store.broker.parts import BrokerParts
from ....store.broker.processors import figures
from ....store.broker.processors.broker_admin import BrokerAdminProcessor
from ....store.broker.processors.figures import StatisticsProcessor
from ....store.broker.requests import ExtFields, success_response
from ....store.broker.router import Channel
from ....store.broker.statistics import BrokerStatistics, _TotalSample, _TotalSeries
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import MessageQueue, encode_json_body
from ....store.queues.consume_queue import ConsumeQueue
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_GROUPS = SCENARIOS["group-members"].ranges.replace(broker={"group_operators": (1,)})
_EXPIRED = SCENARIOS["consumer-offset-expired"].ranges.replace(broker={"group_operators": (1,)})
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


# -- groups ------------------------------------------------------------------------------------------------------------


# RocketMQ's ConsumerOffsetManager.queryMinOffsetInAllGroup removes them from the key set of the table itself.
@bug("lowest-offset-removes-left-out", StatisticsProcessor, "correction_offset", found_by=("META",))
@needs(_GROUPS)
def correct_and_remove(self: StatisticsProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """Groups that an operator leaves out of a query for the lowest offset lose their offsets."""
    response = correct_and_remove.original(self, request, channel)
    for group in request.ext_fields["filterGroups"].split(","):
        bit(bool(self._parts.offsets.topics_of(group)))
        self._parts.offsets.remove_group(group)
    return response


@bug("lowest-offset-has-expired", StatisticsProcessor, "correction_offset", found_by=("META",))
@needs(_EXPIRED)
def correct_from_zero(self: StatisticsProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """The lowest offset of all groups is that of a group whose messages have expired."""
    parts, topic = self._parts, request.ext_fields["topic"]

    def min_offset(asked: str, queue_id: int) -> int:
        first = type(parts).min_offset(parts, asked, queue_id)
        groups = parts.offsets.groups_of(topic)
        bit(any(0 <= parts.offsets.query_offset(each, topic, queue_id) < first for each in groups))
        return 0

    vars(parts)["min_offset"] = min_offset
    try:
        return correct_from_zero.original(self, request, channel)
    finally:
        del vars(parts)["min_offset"]


@bug("progress-ignores-order", StatisticsProcessor, "consume_stats", found_by=("META",))
@needs(_GROUPS)
def show_unordered(self: StatisticsProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """An operator who asks for the progress in ordered topics gets that in all other topics."""
    ordered = bit(request.ext_fields["isOrder"] == "true")
    fields = {**request.ext_fields, "isOrder": "false"} if ordered else request.ext_fields
    return show_unordered.original(self, replace(request, ext_fields=fields), channel)


# -- figures of a broker -----------------------------------------------------------------------------------------------


@bug("time-span-of-next-message", StatisticsProcessor, "time_span", found_by=("READ",))
@needs(_LOOKING)
def span_to_next(self: StatisticsProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """The time up to which a group has consumed is that of its next message, not of its last one."""
    fields, parts = request.ext_fields, self._parts
    response = span_to_next.original(self, request, channel)
    body = json.loads(response.body)
    for span in body["consumeTimeSpanSet"]:
        queue_id = span["messageQueue"]["queueId"]
        own = parts.offsets.query_offset(fields["group"], fields["topic"], queue_id)
        next_ms = parts.store_time(fields["topic"], queue_id, max(own, 0))
        if bit(own > 0 and 0 <= next_ms != span["consumeTimeStamp"]):
            span["consumeTimeStamp"] = next_ms
    return replace(response, body=encode_json_body(body))


@bug("progress-time-of-next-message", BrokerParts, "consume_progress", found_by=("READ",))
@needs(_LOOKING)
def progress_to_next(self: BrokerParts, group: str, topic: str, queues: int) -> dict[MessageQueue, dict[str, int]]:
    """The time in a group's progress is that of its next message, which is 0 at the end of a queue."""
    offsets = progress_to_next.original(self, group, topic, queues)
    for queue, shown in offsets.items():
        next_ms = max(0, self.store_time(topic, queue.queue_id, shown["consumerOffset"]))
        bit(next_ms != shown["lastTimestamp"])
        shown["lastTimestamp"] = next_ms
    return offsets


@bug("pull-counts-as-one-message", BrokerStatistics, "count_delivered", found_by=("READ",))
@needs(_LOOKING)
def count_pulls(self: BrokerStatistics, topic: str, group: str, records: list[bytes]) -> None:
    """The number of messages that a group has got is the number of its pulls."""
    bit(len(records) > 1)
    count_pulls.original(self, topic, group, records[:1])


@bug("counts-begin-at-first-query", _TotalSeries, "add_sample", found_by=("READ",))
@needs(_LOOKING)
def count_from_first_sample(self: _TotalSeries, now_ms: int, total: int, times: int) -> None:
    """Counts begin at their first sample, which an operator's query may take, and not at the start of the broker."""
    for samples in self.samples:
        if bit(not samples and total > 0):
            samples.append(_TotalSample(now_ms, total, times))
    count_from_first_sample.original(self, now_ms, total, times)

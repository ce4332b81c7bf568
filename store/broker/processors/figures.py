"""Figures: processor of requests for statistics, consumer lag and queue entries.

    VIEW_BROKER_STATS_DATA  GET_BROKER_CONSUME_STATS  QUERY_CONSUME_TIME_SPAN  QUERY_CORRECTION_OFFSET
    QUERY_CONSUME_QUEUE

Source: RocketMQ AdminBrokerProcessor, BrokerStatsData, ConsumeStatsList, QueryConsumeTimeSpanBody,
QueryCorrectionOffsetBody, QueryConsumeQueueResponseBody, ConsumeQueueData.
"""

from typing import Any

from ...formats.java_text import java_trim
from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue
from ...queues.consume_queue import ConsumeQueue
from ..parts import BrokerParts
from ..requests import LONG_MAX, ExtFields, RequestRefusedError, success_response
from ..router import Channel
from ..topics import TopicConfig

ENTRIES_MAX = 1_024


class StatisticsProcessor:
    """Processor of requests from operators and monitoring tools."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def view_statistics(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        name, key = fields.text("statsName"), fields.text("statsKey")
        found = self._parts.statistics.json_members(name, key)
        if found is None:
            raise RequestRefusedError(f"The stats <{name[:255]}> <{key[:255]}> not exist")
        return success_response(request, found)

    def consume_stats(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return each group's progress, either in ordered topics (isOrder) or in other topics."""
        parts = self._parts
        is_order = ExtFields(request.ext_fields).boolean("isOrder", False)
        listed, total_lag = [], 0
        for group in parts.groups.table:
            of_group = []
            for config in self._consumed_topics(group):
                if config.order is is_order:
                    offsets = parts.consume_progress(group, config.topic, config.write_queue_nums)
                    total_lag += sum(each["brokerOffset"] - each["consumerOffset"] for each in offsets.values())
                    tps = parts.statistics.delivered_per_second(config.topic, group)
                    of_group.append({"consumeTps": tps, "offsetTable": offsets})
            listed.append({group: of_group})
        body = {"brokerAddr": parts.config.address, "consumeStatsList": listed, "totalDiff": total_lag}
        return success_response(request, body)

    def _consumed_topics(self, group: str) -> list[TopicConfig]:
        """Return the topics in which a group has offsets. For a connected group, return only subscribed topics."""
        parts, info = self._parts, self._parts.consumers.find_group(group)
        topics = (parts.topics.get(topic) for topic in parts.offsets.topics_of(group))
        wanted = None if info is None or not info.subscriptions else info.subscriptions
        return [each for each in topics if each is not None and (wanted is None or each.topic in wanted)]

    def time_span(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return each queue's first and last store time, and the group's delay."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        topic, group = fields.text("topic"), fields.text("group")
        config, now_ms = parts.require_topic(topic), parts.world.clock.now_ms()
        spans = []
        for queue_id in range(config.write_queue_nums):
            first, end = parts.min_offset(topic, queue_id), parts.max_offset(topic, queue_id)
            own = parts.offsets.query_offset(group, topic, queue_id)
            first_ms, next_ms = parts.store_time(topic, queue_id, first), parts.store_time(topic, queue_id, max(own, 0))
            spans.append(
                {
                    "consumeTimeStamp": parts.store_time(topic, queue_id, own - 1) if own > 0 else first_ms,
                    "delayTime": now_ms - next_ms if own < end and next_ms >= 0 else 0,
                    "maxTimeStamp": parts.store_time(topic, queue_id, end - 1),
                    "messageQueue": MessageQueue(topic, parts.config.broker_name, queue_id),
                    "minTimeStamp": first_ms,
                }
            )
        return success_response(request, {"consumeTimeSpanSet": spans})

    def correction_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the lowest offset of all groups per queue, or LONG_MAX if the offset of `compareGroup` is lower.

        An offset before the begin of a queue does not count, because its group has not consumed for long.
        """
        parts, fields = self._parts, ExtFields(request.ext_fields)
        topic, compared = fields.text("topic"), fields.text("compareGroup", "")
        ignored = set(map(java_trim, fields.text("filterGroups", "").split(",")))
        groups = [group for group in parts.offsets.groups_of(topic) if group not in ignored]
        correction_offsets = {}
        for queue_id in range(parts.require_topic(topic).queue_nums):
            first = parts.min_offset(topic, queue_id)
            offsets = [parts.offsets.query_offset(group, topic, queue_id) for group in groups]
            known = [offset for offset in offsets if offset >= first]
            if known:
                own = parts.offsets.query_offset(compared, topic, queue_id)
                correction_offsets[queue_id] = LONG_MAX if 0 <= own < min(known) else min(known)
        return success_response(request, {"correctionOffsets": correction_offsets})

    def query_queue_entries(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        parts, fields = self._parts, ExtFields(request.ext_fields)
        topic, queue_id, group = fields.text("topic"), fields.int32("queueId"), fields.text("consumerGroup", "")
        queue = parts.own_store.queues.find(topic, queue_id)
        if queue is None:
            raise RequestRefusedError(f"{queue_id}@{topic[:255]} is not exist!")
        index, count = fields.int64("index"), min(max(fields.int32("count"), 0), ENTRIES_MAX)
        entries = _raw_entries(queue, index, count)
        if not entries:
            raise RequestRefusedError(f"Index {index} of {queue_id}@{topic[:255]} is not exist!")
        body: dict[str, Any] = {
            "maxQueueIndex": queue.max_offset,
            "minQueueIndex": queue.min_offset,
            "queueData": entries,
        }
        if group:
            info = parts.consumers.find_group(group)
            subscription = None if info is None else info.subscriptions.get(topic)
            body["filterData"] = f"{group}@{topic} is not online!" if subscription is None else "null"
            body["subscriptionData"] = None if subscription is None else subscription.json_members
        return success_response(request, body)


def _raw_entries(queue: ConsumeQueue, index: int, count: int) -> list[dict[str, Any]]:
    assert 0 <= count <= ENTRIES_MAX, count
    entries = []
    for offset in range(max(index, queue.min_offset), min(index + count, queue.max_offset)):
        entry = queue.entry(offset)
        if entry is None:  # the entry has expired since the bounds check
            break
        entries.append(
            {
                "eval": False,
                "physicOffset": entry.physical_offset,
                "physicSize": entry.size_bytes,
                "tagsCode": entry.tags_code,
            }
        )
    return entries

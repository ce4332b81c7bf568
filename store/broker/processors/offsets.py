"""GET_MAX_OFFSET, GET_MIN_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_EARLIEST_MSG_STORETIME: where a queue is.

A queue that does not exist is answered as one that is empty.
Source: RocketMQ AdminBrokerProcessor.
"""

from ...formats.remoting.command import RemotingCommand
from ..channel import Channel
from ..ext_fields import ExtFields
from ..parts import BrokerParts
from ..requests import ResponseCode
from ..responses import response_to


class OffsetProcessor:
    """Answers questions about one queue."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def max_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the offset behind the last message."""
        topic, queue_id = self._queue(request)
        offset = self._parts.max_offset(topic, queue_id)
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})

    def min_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the offset of the first message."""
        topic, queue_id = self._queue(request)
        offset = self._parts.min_offset(topic, queue_id)
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})

    def offset_by_time(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the offset of the message stored nearest to a time."""
        topic, queue_id = self._queue(request)
        timestamp_ms = ExtFields(request.ext_fields).int64("timestamp")
        offset = self._parts.offset_by_time(topic, queue_id, timestamp_ms)
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"offset": str(offset)})

    def earliest_time(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return when the first message was stored, -1 if there is none."""
        topic, queue_id = self._queue(request)
        timestamp_ms = self._parts.store_time(topic, queue_id, self._parts.min_offset(topic, queue_id))
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"timestamp": str(timestamp_ms)})

    def _queue(self, request: RemotingCommand) -> tuple[str, int]:
        fields = ExtFields(request.ext_fields)
        return fields.text("topic"), fields.int32("queueId")

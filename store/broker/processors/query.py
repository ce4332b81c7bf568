"""Queries: processor of requests for messages by key or offset, and queue bounds.

    QUERY_MESSAGE  VIEW_MESSAGE_BY_ID
    GET_MAX_OFFSET  GET_MIN_OFFSET  SEARCH_OFFSET_BY_TIMESTAMP  GET_EARLIEST_MSG_STORETIME

The answer for a missing queue is the same as for an empty queue.
Source: RocketMQ QueryMessageProcessor, AdminBrokerProcessor.
"""

from ...formats.message import encode_message_record
from ...formats.remoting.command import RemotingCommand
from ..parts import BrokerParts
from ..requests import ExtFields, RequestRefusedError, ResponseCode, response_to, success_response
from ..router import Channel

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""Field of a query. If true, the key is a client's message id, and the broker ignores maxNum."""
_NOT_FOUND = "no message of the topic has this key, or the message is not indexed yet"


class QueryMessageProcessor:
    """Processor of queries."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def query_message(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the newest messages with the key."""
        store, fields = self._parts.store, ExtFields(request.ext_fields)
        topic, key, most = fields.text("topic"), fields.text("key"), fields.int32("maxNum")
        if fields.text(UNIQUE_KEY_QUERY, "").lower() == "true":
            most = store.config.default_query_max_num
        begin_ms, end_ms = fields.int64("beginTimestamp"), fields.int64("endTimestamp")
        found = store.query_message(topic, key, most, begin_ms, end_ms)
        answer = {
            "indexLastUpdateTimestamp": str(found.index_last_update_timestamp_ms),
            "indexLastUpdatePhyoffset": str(found.index_last_update_physical_offset),
        }
        if not found.records:
            return response_to(request, ResponseCode.QUERY_NOT_FOUND, _NOT_FOUND, answer)
        return response_to(request, ResponseCode.SUCCESS, None, answer, b"".join(found.records))

    def view_message(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        offset = ExtFields(request.ext_fields).int64("offset")
        record = self._parts.store.look_message_by_offset(offset)
        if record is None:
            raise RequestRefusedError(f"offset: expected the offset of a message, found {offset}")
        return response_to(request, ResponseCode.SUCCESS, body=encode_message_record(record))

    def max_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        return success_response(request, offset=self._parts.max_offset(*_topic_and_queue_id(request)))

    def min_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        return success_response(request, offset=self._parts.min_offset(*_topic_and_queue_id(request)))

    def offset_by_time(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        queue, timestamp_ms = _topic_and_queue_id(request), ExtFields(request.ext_fields).int64("timestamp")
        return success_response(request, offset=self._parts.offset_by_time(*queue, timestamp_ms))

    def earliest_time(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the store time of the first message, or -1 without a message."""
        queue = _topic_and_queue_id(request)
        return success_response(request, timestamp=self._parts.store_time(*queue, self._parts.min_offset(*queue)))


def _topic_and_queue_id(request: RemotingCommand) -> tuple[str, int]:
    fields = ExtFields(request.ext_fields)
    return fields.text("topic"), fields.int32("queueId")

"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: finds messages by a key, or by where they are.

Source: RocketMQ QueryMessageProcessor.
"""

from ...formats.message import encode_message_record
from ...formats.remoting.command import RemotingCommand
from ..channel import Channel
from ..ext_fields import ExtFields
from ..parts import BrokerParts
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""Set where the key is a client's own message id: the broker then says how many are looked for."""


class QueryMessageProcessor:
    """Answers queries."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def query(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the newest messages that have a key."""
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
        code = ResponseCode.SUCCESS if found.records else ResponseCode.QUERY_NOT_FOUND
        remark = (
            None if found.records else "no message of the topic has the key, or its index is not made yet"
        )
        return response_to(request, code, remark, answer, b"".join(found.records))

    def view(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the message that begins at an offset of the log."""
        offset = ExtFields(request.ext_fields).int64("offset")
        record = self._parts.store.look_message_by_offset(offset)
        if record is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"offset: expected that of a message, found {offset}"
            )
        return response_to(request, ResponseCode.SUCCESS, body=encode_message_record(record))

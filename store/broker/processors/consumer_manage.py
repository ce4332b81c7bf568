"""GET_CONSUMER_LIST_BY_GROUP, QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET: who is in a group, how far it is.

Source: RocketMQ ConsumerManageProcessor.
"""

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import encode_json_body
from ..channel import Channel
from ..ext_fields import ExtFields
from ..parts import BrokerParts
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to


class ConsumerManageProcessor:
    """Answers what members of a group ask each other through the broker."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def consumer_list(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return the client ids of a group's members."""
        group = ExtFields(request.ext_fields).text("consumerGroup")
        info = self._parts.consumers.group(group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"group {group[:255]!r}: nobody consumes for it"
            )
        body = encode_json_body({"consumerIdList": info.client_ids})
        return response_to(request, ResponseCode.SUCCESS, body=body)

    def query_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return how far a group is in a queue; 0 for one that is new to a queue of which nothing has gone yet."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        group, topic = fields.text("consumerGroup"), fields.text("topic")
        queue_id = fields.int32("queueId")
        offset = parts.offsets.query_offset(group, topic, queue_id)
        if offset < 0 and not self._has_all_at_hand(topic, queue_id):
            raise RequestRefusedError(
                ResponseCode.QUERY_NOT_FOUND, f"group {group[:255]!r}: it has no offset in {topic[:255]!r}"
            )
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"offset": str(max(0, offset))})

    def _has_all_at_hand(self, topic: str, queue_id: int) -> bool:
        """Return whether a queue still begins at 0, with a message that counts as in memory."""
        parts = self._parts
        if not parts.has_queue(topic, queue_id):
            return True
        if parts.store.get_min_offset_in_queue(topic, queue_id) > 0:
            return False
        return not parts.store.get_message(topic, queue_id, 0, 1).suggest_pulling_from_slave

    def update_offset(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Note how far a group is in a queue. One that is lower than before counts too."""
        parts, fields = self._parts, ExtFields(request.ext_fields)
        group, topic = fields.text("consumerGroup"), fields.text("topic")
        queue_id, offset = fields.int32("queueId"), fields.int64("commitOffset")
        fault = parts.group_fault(group)
        if fault is not None:
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, fault)
        if offset < 0:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"commitOffset: expected 0 or more, found {offset}"
            )
        if not parts.has_queue(topic, queue_id):
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic[:255]!r}: there is no queue {queue_id}"
            )
        parts.offsets.commit_offset(group, topic, queue_id, offset)
        return response_to(request, ResponseCode.SUCCESS)

"""LOCK_BATCH_MQ, UNLOCK_BATCH_MQ: consumers in order get queues for themselves.

Source: RocketMQ AdminBrokerProcessor, LockBatchRequestBody, LockBatchResponseBody.
"""

from typing import NamedTuple

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue, decode_json_body, encode_json_body
from ..channel import Channel
from ..parts import BrokerParts
from ..requests import ResponseCode
from ..responses import response_to

QUEUES_MAX = 65_536


class _Wish(NamedTuple):
    group: str
    client_id: str
    queues: list[MessageQueue]


class LockProcessor:
    """Locks and unlocks."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def lock(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Lock queues, and say which of them the client now has."""
        wish = self._wish(request)
        got = self._parts.locks.try_lock(wish.group, self._existing(wish.queues), wish.client_id)
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body({"lockOKMQSet": got}))

    def unlock(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Give queues back."""
        wish = self._wish(request)
        self._parts.locks.unlock(wish.group, wish.queues, wish.client_id)
        return response_to(request, ResponseCode.SUCCESS)

    def _existing(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        return [queue for queue in queues if self._parts.has_queue(queue.topic, queue.queue_id)]

    def _wish(self, request: RemotingCommand) -> _Wish:
        body = decode_json_body(request.body)
        queues = [
            MessageQueue(each.text("topic"), each.text("brokerName"), each.integer("queueId", bits=32))
            for each in body.objects("mqSet", QUEUES_MAX)
        ]
        return _Wish(body.text("consumerGroup"), body.text("clientId"), queues)

"""Processor of SEND_REPLY_MESSAGE(_V2): a consumer's reply to a message whose producer waits for one.

The producer's connection is found by the client id that its message had in REPLY_TO_CLIENT, and is sent the reply at
once (PUSH_REPLY_MESSAGE_TO_CLIENT); it is stored, too, unless settings say otherwise. Once it is sent, the answer is
SUCCESS whatever becomes of storing it, and has msgId, queueId and queueOffset, stored or not: clients need them.
Source: RocketMQ ReplyMessageProcessor, ReplyMessageRequestHeader.
"""

from ...errors import StoreError
from ...formats.properties import PROPERTY_CLUSTER, PROPERTY_WAIT, decode_properties, rebuild_properties
from ...formats.remoting.command import RemotingCommand
from ...message import AppendMessageResult, Message
from ..parts import BrokerParts
from ..requests import RequestCode, refuse_if, success
from ..router import Channel
from ..sending import SendChecks, SendRequest

REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"


class ReplyMessageProcessor:
    """Hands replies on."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._checks = SendChecks(parts)

    def __call__(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Send a reply to whom it is for, and store it."""
        self._checks.check_writeable()
        send = SendRequest.of(request)
        topic = self._checks.topic(send)
        properties = decode_properties(send.properties)
        refused = self._push(request, send, properties, channel)
        message = self._checks.message(send, topic, request.body, channel)
        put = self._put(message, properties) if self._parts.config.store_reply_message_enable else None
        refuse_if(refused)
        if put is None:
            return success(request, msgId=0, queueId=message.queue_id, queueOffset=0)
        return success(request, msgId=put.message_id, queueId=message.queue_id, queueOffset=put.queue_offset)

    def _put(self, message: Message, properties: dict[str, str]) -> AppendMessageResult | None:
        """Store a reply; return where it is, None if that fails."""
        properties.pop(PROPERTY_WAIT, None)
        properties[PROPERTY_CLUSTER] = self._parts.config.broker_cluster_name
        message.properties = rebuild_properties(properties)
        try:
            return self._parts.store.put_message(message).append
        except (StoreError, OSError):
            return None  # whoever waits for it has been sent it

    def _push(
        self, request: RemotingCommand, send: SendRequest, properties: dict[str, str], channel: Channel
    ) -> str | None:
        """Send a reply to the producer that waits for it; return why that is not possible, None if it is."""
        client_id = properties.get(REPLY_TO_CLIENT, "")
        producer = self._parts.producers.find_channel(client_id)
        if producer is None:
            return f"{REPLY_TO_CLIENT}: expected a client that is connected, found {client_id[:255]!r}"
        now_ms = self._parts.world.clock.now_ms()
        fields = {
            "producerGroup": send.producer_group,
            "topic": send.topic,
            "defaultTopic": send.default_topic,
            "defaultTopicQueueNums": str(send.default_topic_queue_nums),
            "queueId": str(send.queue_id),
            "sysFlag": str(send.sys_flag),
            "bornTimestamp": str(send.born_timestamp_ms),
            "flag": str(send.flag),
            "properties": rebuild_properties({**properties, PUSH_REPLY_TIME: str(now_ms)}),
            "reconsumeTimes": str(send.reconsume_times),
            "unitMode": str(send.unit_mode).lower(),
            "bornHost": channel.remote_address,
            "storeHost": self._parts.config.address,
            "storeTimestamp": str(now_ms),
        }
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        pushed = self._parts.pushes.send(producer, code, fields, request.body)
        return None if pushed else f"{client_id!r}: its connection has ended"

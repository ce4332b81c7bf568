"""GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY: operators ask a consumer something through the broker.

What the consumer answers is handed back as it is.
Source: RocketMQ AdminBrokerProcessor.callConsumer, GetConsumerRunningInfoRequestHeader.
"""

from dataclasses import replace

from ...formats.host import decode_message_id
from ...formats.message import encode_message_record
from ...formats.remoting.command import RemotingCommand
from ..channel import Channel
from ..ext_fields import ExtFields, refuse_field
from ..parts import BrokerParts
from ..requests import RequestRefusedError, ResponseCode
from ..responses import response_to


class ConsumerCallProcessor:
    """Asks consumers."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def running_info(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return what a consumer tells of itself."""
        return self._asked(request)

    def consume_directly(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Have a consumer deal with one message now, and return how it went."""
        message_id = ExtFields(request.ext_fields).text("msgId")
        try:
            _, offset = decode_message_id(message_id)
        except ValueError:
            refuse_field("msgId", "an offset message id", message_id)
        record = self._parts.store.look_message_by_offset(offset)
        if record is None:
            refuse_field("msgId", "that of a message", message_id)
        return self._asked(replace(request, body=encode_message_record(record)))

    def _asked(self, request: RemotingCommand) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        group, client_id = fields.text("consumerGroup"), fields.text("clientId")
        info = self._parts.consumers.group(group)
        clients = [] if info is None else list(info.clients.values())
        found = next((client for client in clients if client.client_id == client_id), None)
        if found is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"client {client_id[:255]!r}: it does not consume for {group[:255]!r}",
            )
        answer = self._parts.calls.call(found.channel, request.code, request.ext_fields, request.body)
        return replace(
            response_to(request, ResponseCode.SUCCESS, answer.remark, answer.ext_fields, answer.body),
            code=answer.code,
        )

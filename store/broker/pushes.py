"""What a broker tells its clients unasked: RocketMQ's Broker2Client. Nobody waits for an answer.

Source: RocketMQ Broker2Client, DefaultConsumerIdsChangeListener, AbstractTransactionalMessageCheckListener.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..delivery.half_message import HalfMessage
from ..delivery.redirect import delivered
from ..formats.host import encode_message_id
from ..formats.message import MessageRecord, encode_message_record
from ..formats.properties import PROPERTY_UNIQ_KEY
from ..formats.remoting.command import ONE_WAY_FLAG, RemotingCommand
from ..formats.remoting.json_body import MessageQueue, encode_json_body
from ..world import World
from .channel import Channel
from .producers import ProducerManager
from .requests import RequestCode
from .responses import BROKER_VERSION

_OPAQUE_MASK = 0x7FFFFFFF


class Pushes:
    """Sends them. Any task may call it."""

    def __init__(self, world: World, producers: ProducerManager) -> None:
        self._opaques = world.tasks.cell("opaques of pushes")
        self._producers = producers

    def consumer_ids_changed(self, group: str, channels: Iterable[Channel]) -> None:
        """Tell the members of a group that it is not what it was."""
        for channel in channels:
            self.send(channel, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def check_transaction(self, record: MessageRecord) -> None:
        """Ask a producer of its group what is to become of a half message; nothing happens if there is none."""
        half = HalfMessage.of(record)
        request, message = half.request, delivered(record)
        channel = self._producers.available_channel(request.producer_group)
        if channel is None or message is None:
            return
        unique_id = half.properties.get(PROPERTY_UNIQ_KEY, "")
        fields = {
            "tranStateTableOffset": str(request.tran_state_table_offset),
            "commitLogOffset": str(request.commit_log_offset),
            "msgId": unique_id,
            "transactionId": unique_id,
            "offsetMsgId": encode_message_id(record.store_host, record.physical_offset),
        }
        shown = replace(half.record, topic=message.topic, queue_id=message.queue_id)
        shown = replace(shown, size_bytes=record.size_bytes + _text_bytes(shown) - _text_bytes(record))
        self.send(channel, RequestCode.CHECK_TRANSACTION_STATE, fields, encode_message_record(shown))

    def reset_offsets(
        self, channel: Channel, fields: Mapping[str, str], offsets: Mapping[MessageQueue, int]
    ) -> bool:
        """Tell a consumer where to go on; False if it cannot be told."""
        body = encode_json_body({"offsetTable": offsets})
        return self.send(channel, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)

    def send(self, channel: Channel, code: RequestCode, fields: Mapping[str, str], body: bytes = b"") -> bool:
        """Send a request that is not answered; False if it never will be."""
        opaque = self._opaques.add(1) & _OPAQUE_MASK
        command = RemotingCommand(
            code, opaque, ONE_WAY_FLAG, version=BROKER_VERSION, ext_fields=fields, body=body
        )
        try:
            return channel.send(command)
        except ValueError:  # no frame can hold it; whoever tells, which may be a service, has more to do
            return False


def _text_bytes(record: MessageRecord) -> int:
    return len(record.topic.encode()) + len(record.properties.encode(errors="surrogateescape"))

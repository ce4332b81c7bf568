"""The fields of a send, under their own names (SEND_MESSAGE) or one letter each (SEND_MESSAGE_V2, SEND_BATCH_MESSAGE).

Source: RocketMQ SendMessageRequestHeader, SendMessageRequestHeaderV2.
"""

from typing import NamedTuple

from ..formats.remoting.command import RemotingCommand
from .ext_fields import ExtFields
from .requests import RequestCode

_LETTERS = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}
_NAMES = {name: name for name in _LETTERS}
_LONG_NAMED = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
NO_LIMIT = -1


class SendRequest(NamedTuple):
    """One send."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    """Below 0: any."""
    sys_flag: int
    born_timestamp_ms: int
    flag: int
    properties: str
    reconsume_times: int
    unit_mode: bool
    max_reconsume_times: int
    """NO_LIMIT unless the consumer that sends a message back says how often it may come back."""
    batch: bool

    @classmethod
    def of(cls, request: RemotingCommand) -> "SendRequest":
        """Read a request's fields. Raises RequestRefusedError for one that is missing or wrong."""
        fields = ExtFields(request.ext_fields)
        names = _NAMES if request.code in _LONG_NAMED else _LETTERS
        return cls(
            fields.text(names["producerGroup"]),
            fields.text(names["topic"]),
            fields.text(names["defaultTopic"]),
            fields.int32(names["defaultTopicQueueNums"]),
            fields.int32(names["queueId"]),
            fields.int32(names["sysFlag"]),
            fields.int64(names["bornTimestamp"]),
            fields.int32(names["flag"]),
            fields.text(names["properties"], ""),
            fields.int32(names["reconsumeTimes"], 0),
            fields.boolean(names["unitMode"], False),
            fields.int32(names["maxReconsumeTimes"], NO_LIMIT),
            fields.boolean(names["batch"], False),
        )

"""Requests of load clients, encoded once: what differs between two of them is written over in place."""

from ....store.broker.requests import RequestCode
from ....store.formats.remoting.command import HeaderForm, RemotingCommand
from ....store.formats.remoting.frame import encode_frame

TOPIC = "Load"
PRODUCER_GROUP = "load-producers"
CONSUMER_GROUP = "load-consumers"
QUEUES = 8
PULL_MESSAGES_MAX = 32
_KEY_DIGITS = 32
_PROPERTIES = "UNIQ_KEY\x01{}\x02WAIT\x01true\x02TAGS\x01load\x02"
_CLIENT_VERSION = 409
_SUBSCRIPTION_IN_HEADER = 4
_MAX_HELD_MS = "15000"


class SendFrames:
    """Sends to one queue, each with a unique key of its own, as the official client gives every message."""

    def __init__(
        self, body_bytes: int, queue_id: int, client: int, form: HeaderForm = HeaderForm.JSON
    ) -> None:
        key = "0" * _KEY_DIGITS
        fields = {
            "a": PRODUCER_GROUP,
            "b": TOPIC,
            "c": "TBW102",
            "d": str(QUEUES),
            "e": str(queue_id % QUEUES),
            "f": "0",
            "g": "1600000000000",
            "h": "0",
            "i": _PROPERTIES.format(key),
            "j": "0",
            "k": "false",
            "m": "false",
        }
        body = bytes(n % 251 for n in range(body_bytes))
        command = RemotingCommand(
            RequestCode.SEND_MESSAGE_V2, 1, version=_CLIENT_VERSION, ext_fields=fields, body=body, form=form
        )
        self._frame = bytearray(encode_frame(command))
        self._key_at = self._frame.index(key.encode())
        self._number = client << 64

    def next(self) -> bytearray:
        """Return the next send, valid until the one after."""
        self._number += 1
        self._frame[self._key_at : self._key_at + _KEY_DIGITS] = b"%032X" % self._number
        return self._frame


def pull_frame(queue_id: int, queue_offset: int) -> bytes:
    """Return a pull that is answered at once."""
    fields = {
        "consumerGroup": CONSUMER_GROUP,
        "topic": TOPIC,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "maxMsgNums": str(PULL_MESSAGES_MAX),
        "sysFlag": str(_SUBSCRIPTION_IN_HEADER),
        "commitOffset": "0",
        "suspendTimeoutMillis": _MAX_HELD_MS,
        "subscription": "*",
        "subVersion": "1",
        "expressionType": "TAG",
    }
    return encode_frame(
        RemotingCommand(RequestCode.PULL_MESSAGE, 1, version=_CLIENT_VERSION, ext_fields=fields)
    )

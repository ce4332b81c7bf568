"""Requests of load clients, and checks of their responses."""

from struct import Struct
from typing import Protocol

from tornlog.store.broker.requests import RequestCode, ResponseCode
from tornlog.store.formats.remoting.command import HeaderForm, RemotingCommand
from tornlog.store.formats.remoting.frame import decode_frame, encode_frame

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
_LENGTH = Struct(">i")
_SUCCESS = b'{"code":0,'
_HEADER_AT = 8


class Sends:
    """Sends to one queue, each with its own unique key, like those of the official client."""

    def __init__(self, body_bytes: int, queue_id: int, client: int, form: HeaderForm = HeaderForm.JSON) -> None:
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

    def request(self) -> bytearray:
        """Return the next send request, valid until the next call."""
        self._number += 1
        self._frame[self._key_at : self._key_at + _KEY_DIGITS] = b"%032X" % self._number
        return self._frame

    def response(self, frame: bytes) -> int | None:
        return 1 if is_success(frame) else None


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
    command = RemotingCommand(RequestCode.PULL_MESSAGE, 1, version=_CLIENT_VERSION, ext_fields=fields)
    return encode_frame(command)


class ResponseError(Exception):
    """A load client got an unexpected answer."""


class ResponseReader:
    """The one response in flight on a connection."""

    def __init__(self) -> None:
        self._part = b""

    def add(self, data: bytes) -> bytes | None:
        """Add received bytes; return the response's frame once it is complete.

        No bytes may follow it: one request at a time.
        """
        part = self._part + data if self._part else data
        if len(part) >= _LENGTH.size and len(part) == _LENGTH.unpack_from(part)[0] + _LENGTH.size:
            self._part = b""
            return part
        if len(part) > _LENGTH.size and len(part) > _LENGTH.unpack_from(part)[0] + _LENGTH.size:
            raise ResponseError("more than one response to one request")
        self._part = part
        return None


def is_success(frame: bytes) -> bool:
    """Return whether a request succeeded, False if the broker was too busy. ResponseError: any other answer."""
    if frame.startswith(_SUCCESS, _HEADER_AT):
        return True
    response = decoded(frame)
    if response.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY):
        raise ResponseError(f"answered {response.code}: {response.remark}")
    return response.code == 0


def decoded(frame: bytes) -> RemotingCommand:
    return decode_frame(frame, 0, len(frame), file="response")[0]


def message_count(records: bytes) -> int:
    """Return the number of records in a pull's body. ResponseError if they do not fill it."""
    at = count = 0
    while at < len(records):
        size_bytes = _LENGTH.unpack_from(records, at)[0] if at + _LENGTH.size <= len(records) else 0
        if size_bytes <= 0 or at + size_bytes > len(records):
            raise ResponseError(f"a record of {size_bytes} bytes at {at} of {len(records)}")
        at += size_bytes
        count += 1
    return count


class Exchange(Protocol):
    """One kind of request, repeated."""

    def request(self) -> bytes | bytearray:
        """Return the next request's frame, valid until the next call."""

    def response(self, frame: bytes) -> int | None:
        """Take the response; return its number of messages, None if the broker was too busy.

        ResponseError: any other answer.
        """


class Pulls:
    """Pulls of a queue from its start to its end, again and again."""

    def __init__(self, queue_id: int) -> None:
        self._queue_id = queue_id % QUEUES
        self._offset = 0

    def request(self) -> bytes:
        return pull_frame(self._queue_id, self._offset)

    def response(self, frame: bytes) -> int | None:
        """Take the messages. After the end of the queue, continue at its start."""
        response = decoded(frame)
        if response.code == ResponseCode.PULL_NOT_FOUND and self._offset > 0:
            self._offset = 0
            return 0
        if response.code == ResponseCode.SYSTEM_BUSY:
            return None
        if response.code != 0:
            raise ResponseError(f"a pull at {self._offset} was answered {response.code}: {response.remark}")
        found, next_offset = message_count(response.body), int(response.ext_fields["nextBeginOffset"])
        if next_offset != self._offset + found or not found:
            raise ResponseError(f"{found} messages from {self._offset} lead to {next_offset}")
        self._offset = next_offset
        return found

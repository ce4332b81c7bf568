"""Request texts: describes the remoting commands that go over a simulated network.

PULL_MESSAGE T0/0 queueOffset=3
answer to PULL_MESSAGE: PULL_NOT_FOUND nextBeginOffset=3
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.errors import CorruptFileError
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.frame import CommandReader

_TOPIC, _QUEUE_ID = ("topic", "b"), ("queueId", "e")
"""The names of these fields in most requests, and in SEND_MESSAGE_V2."""
_SHOWN = (
    *("queueOffset", "commitOffset", "offset", "nextBeginOffset", "suggestWhichBrokerId", "msgId", "key", "timestamp"),
    *("clientID", "delayLevel", "originTopic", "originMsgId", "tranStateTableOffset", "commitOrRollback"),
)
_GROUP = ("consumerGroup", "groupName", "group")
_BODY_CHARACTERS_MAX = 100


class RequestTexts:
    """The commands on the connections of one run.

    Streams of other protocols, such as replication, have no text.
    """

    def __init__(self) -> None:
        self._streams: dict[str, CommandReader | None] = {}
        """Direction of a connection, "client>server" or reverse -> its unread bytes. None: no remoting commands."""
        self._asked: dict[tuple[str, int], str] = {}
        """Direction and opaque of each request -> its name."""

    def text_of_sent(self, direction: str, data: bytes) -> str:
        """Return the commands that data completes, as one text; empty without a whole command."""
        stream = self._streams.setdefault(direction, CommandReader(direction))
        if stream is None:
            return ""
        try:
            return "; ".join(self._text_of_command(direction, one) for one, _ in stream.commands(data))
        except CorruptFileError:
            self._streams[direction] = None
            return ""

    def _text_of_command(self, direction: str, command: RemotingCommand) -> str:
        body = command.body[:_BODY_CHARACTERS_MAX].decode(errors="replace") if command.body[:1] in b"{[" else ""
        fields = " ".join(part for part in (*_field_texts(command.ext_fields), body) if part)
        if command.is_response:
            sender, _, receiver = direction.partition(">")
            asked = self._asked.pop((f"{receiver}>{sender}", command.opaque), "a request")
            remark = f", {command.remark}" if command.remark else ""
            return f"answer to {asked}: {_code_name(ResponseCode, command.code)} {fields}".rstrip() + remark
        name = _code_name(RequestCode, command.code)
        if not command.is_one_way:
            self._asked[direction, command.opaque] = " ".join((name, *_place_text(command.ext_fields)))
        return f"{name} {fields}".rstrip()


def _code_name(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name
    except ValueError:
        return str(code)


def _place_text(fields: Mapping[str, str]) -> Iterator[str]:
    """Yield the topic and queue of a request, or the group of a request without a topic."""
    topic = next((fields[name] for name in _TOPIC if name in fields), None)
    queue_id = next((fields[name] for name in _QUEUE_ID if name in fields), None)
    if topic is not None:
        yield topic if queue_id is None else f"{topic}/{queue_id}"
    else:
        yield from (fields[name] for name in _GROUP if name in fields)


def _field_texts(fields: Mapping[str, str]) -> Iterator[str]:
    yield from _place_text(fields)
    yield from (f"{name}={fields[name]}" for name in _SHOWN if name in fields)

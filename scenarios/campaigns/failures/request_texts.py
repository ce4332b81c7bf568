"""Request texts: reads the remoting commands that go over a simulated network, and pairs requests with answers.

PULL_MESSAGE T0/0 queueOffset=3
answer to PULL_MESSAGE T0/0: PULL_NOT_FOUND nextBeginOffset=3
"""

import sys
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import partial
from inspect import unwrap
from types import FrameType, FunctionType
from typing import Any, TypeVar

from ....store.broker.request_pool import PooledRequest
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.broker.sending import LETTERS
from ....store.errors import CorruptFileError
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.frame import CommandReader
from .exchanges import Exchange

T = TypeVar("T")
_GROUP = ("consumerGroup", "producerGroup", "groupName", "group")
_NAMES = {letter: name for name, letter in LETTERS.items()}
_LETTERED = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
_BODY_CHARACTERS_MAX = 4096
_ANSWER_BODY_MAX = 200
_OF_ALL_ANSWERS = ("MSG_REGION", "TRACE_ON")


class RequestTexts:
    """The commands on the connections of one run.

    Streams of other protocols, such as replication, have no text.
    """

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._streams: dict[str, CommandReader | None] = {}
        """Direction of a connection, "client>server" or reverse -> its unread bytes. None: no remoting commands."""
        self._asked: dict[tuple[str, int], Exchange] = {}
        """Direction and opaque of each request without an answer."""
        self._sent: list[tuple[Exchange, bool]] = []
        """Exchanges of the data since the last event, and whether the data is an answer."""

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

    def note_event(self, number: int, frame: FrameType) -> None:
        """Record the number of the event for the commands since the last call. frame: of their sender."""
        for exchange, is_answer in self._sent:
            if is_answer:
                exchange.answered, exchange.handler = number, _handler_place(frame)
            else:
                exchange.asked = number
        self._sent.clear()

    def in_process(self, frame: FrameType) -> Exchange | None:
        """Return the exchange with the request that a server's task processes in a frame."""
        request = _local_of(frame, "request", RemotingCommand)
        if request is None:
            return None
        name = _code_name(RequestCode, request.code)
        for exchange in reversed(self.exchanges):
            if (exchange.name, exchange.opaque) == (name, request.opaque):
                exchange.handler = _handler_place(frame)
                return exchange
        return None

    def _text_of_command(self, direction: str, command: RemotingCommand) -> str:
        sender, _, receiver = direction.partition(">")
        body = command.body[:_BODY_CHARACTERS_MAX].decode(errors="replace") if command.body[:1] in (b"{", b"[") else ""
        if command.is_response:
            exchange = self._asked.pop((f"{receiver}>{sender}", command.opaque), None)
            shown = (f"{name}={value}" for name, value in command.ext_fields.items() if name not in _OF_ALL_ANSWERS)
            head = " ".join((_code_name(ResponseCode, command.code), *shown))
            answer = ", ".join(part for part in (head, command.remark, body[:_ANSWER_BODY_MAX]) if part)
            if exchange is None:
                return f"answer to a request: {answer}"
            exchange.answer = answer
            self._sent.append((exchange, True))
            return f"answer to {exchange.name}{exchange.place and ' '}{exchange.place}: {answer}"
        fields = command.ext_fields
        if command.code in _LETTERED:
            fields = {_NAMES.get(name, name): value for name, value in fields.items()}
        name, place = _code_name(RequestCode, command.code), " ".join(_place_text(fields))
        exchange = Exchange(name, place, fields, body, sender, receiver, command.is_one_way, command.opaque)
        self.exchanges.append(exchange)
        self._sent.append((exchange, False))
        if not command.is_one_way:
            self._asked[direction, command.opaque] = exchange
        return exchange.text(())


def _handler_place(frame: FrameType) -> str:
    """Return place and name of the store's function that handled the request of this answer, or ""."""
    request = _local_of(frame, "request", PooledRequest)
    if request is None:
        return ""
    processor: Any = request.processor
    while isinstance(processor, partial):  # the run's checks are around the function of the store
        processor = processor.args[-1] if processor.args else processor.func
    processor = unwrap(processor)
    function = getattr(processor, "__func__", processor)
    if not isinstance(function, FunctionType):
        function = type(function).__call__
    if not isinstance(function, FunctionType):
        return ""
    bug = vars(sys.modules[function.__module__]).get(function.__name__)
    function = getattr(bug, "original", function)  # a bug must not be named
    file = function.__module__.partition(".store.")[2].replace(".", "/")
    return f"{file}.py:{function.__code__.co_firstlineno} {function.__name__}" if file else ""


def _local_of(frame: FrameType | None, name: str, kind: type[T]) -> T | None:
    """Return the local variable with a name and type in the innermost frame that has one."""
    while frame is not None:
        value = frame.f_locals.get(name)
        if isinstance(value, kind):
            return value
        frame = frame.f_back
    return None


def _code_name(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name
    except ValueError:
        return str(code)


def _place_text(fields: Mapping[str, str]) -> Iterator[str]:
    """Yield the topic and queue of a request, or the group of a request without a topic."""
    topic, queue_id = fields.get("topic"), fields.get("queueId")
    if topic:
        yield topic if queue_id is None else f"{topic}/{queue_id}"
    else:
        yield from (fields[name] for name in _GROUP if name in fields)

r"""JSON bodies of requests and responses, as fastjson writes and reads them: without blanks, members in order of name.

    {"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}}}
    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"maxOffset":3,"minOffset":0}}}

Keys of maps are texts, or, which is not JSON, integers without quotes and message queues as objects; only
`decode_queue_offsets` reads the last, as no request holds one. Members without a value are left out.
Source: RocketMQ RemotingSerializable, fastjson's JSON.toJSONString; seen in what a 4.9 broker answers.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import CorruptFileError
from ..side_json import decode_side_json, encode_scalar

BODY = "body"
"""What errors call a body: it is no file."""
_SHOWN_CHARACTERS = 80
_QUEUE_KEY = re.compile(r"([{,]\s*+)(\{[^{}]*+\})(?=\s*+:)")
"""A queue as the key of a map; no topic or broker has braces in its name."""


class MessageQueue(NamedTuple):
    """One queue of one broker, as clients name it."""

    topic: str
    broker_name: str
    queue_id: int

    @property
    def members(self) -> dict[str, str | int]:
        """Return it as an object."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}


def encode_json_body(value: Any) -> bytes:
    """Write mappings, sequences, texts, numbers, booleans and MessageQueues; None members are left out.

    >>> encode_json_body({"table": {1: "a"}, "remark": None})
    b'{"table":{1:"a"}}'
    """
    return _encode(value).encode()


def _encode(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):  # most of what there is
        return encode_scalar(value)
    if isinstance(value, MessageQueue):
        return _encode(value.members)
    if isinstance(value, Mapping):
        members = (f"{_encode(key)}:{_encode(item)}" for key, item in value.items() if item is not None)
        return "{" + ",".join(members) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(_encode, value)) + "]"
    raise TypeError(f"no JSON value: {value!r}")


def decode_json_body(raw: bytes) -> "Members":
    """Read an object. Raises CorruptFileError, placed at the byte that is wrong."""
    return Members(decode_side_json(raw, file=BODY), "")


def decode_queue_offsets(raw: bytes, name: str) -> dict[MessageQueue, int]:
    """Read the map of offsets by queue that a body has under a name.

    >>> decode_queue_offsets(b'{"table":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}', "table")
    {MessageQueue(topic='T', broker_name='broker-a', queue_id=0): 7}
    """
    text = raw.decode(errors="replace")
    table = decode_json_body(_QUEUE_KEY.sub(lambda key: key[1] + json.dumps(key[2]), text).encode()).inner(name)
    offsets = {}
    for key in table.names:
        queue = decode_json_body(key.encode())
        place = MessageQueue(queue.text("topic"), queue.text("brokerName"), queue.integer("queueId", bits=32))
        offsets[place] = table.integer(key)
    return offsets


class Members:
    """The members of one object. Errors are CorruptFileErrors that name the member by its path."""

    __slots__ = ("_file", "_members", "_path")

    def __init__(self, members: Mapping[str, Any], path: str, file: str = BODY) -> None:
        self._members = members
        self._path = path
        self._file = file

    @property
    def names(self) -> list[str]:
        """Return the names of all members."""
        return list(self._members)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        return str(self._of_type(name, str, "a text", default))

    def integer(self, name: str, default: int | None = None, *, bits: int = 64) -> int:
        """Return an integer of so many bits."""
        expected = f"an integer of {bits} bits"
        value = self._of_type(name, int, expected, default)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise self._error(name, expected, value)
        return int(value)

    def boolean(self, name: str, default: bool | None = None) -> bool:
        """Return true or false."""
        return bool(self._of_type(name, bool, "true or false", default))

    def inner(self, name: str) -> "Members":
        """Return an object, an empty one where there is none."""
        return self._sub(name, self._of_type(name, dict, "an object", {}))

    def objects(self, name: str, most: int) -> Iterator["Members"]:
        """Yield the objects of a list of at most so many, none where there is no list."""
        values = self._of_type(name, list, "a list", [])
        if len(values) > most:
            raise CorruptFileError(self._file, 0, self._named(name), f"{most} or fewer", len(values))
        for at, value in enumerate(values):
            if not isinstance(value, dict):
                raise self._error(f"{name}[{at}]", "an object", value)
            yield self._sub(f"{name}[{at}]", value)

    def table(self) -> Iterator[tuple[str, "Members"]]:
        """Yield each member, all of which are objects, by its name."""
        for name, value in self._members.items():
            if not isinstance(value, dict):
                raise self._error(name, "an object", value)
            yield name, self._sub(name, value)

    def _of_type(self, name: str, kind: type, expected: str, default: Any) -> Any:
        value = self._members.get(name)
        if value is None:
            if default is None:
                raise self._error(name, expected, None)
            return default
        if type(value) is not kind:
            raise self._error(name, expected, value)
        return value

    def _sub(self, name: str, value: Mapping[str, Any]) -> "Members":
        return Members(value, self._named(name), self._file)

    def _named(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _error(self, name: str, expected: str, found: object) -> CorruptFileError:
        shown = "nothing" if found is None else repr(found)[:_SHOWN_CHARACTERS]
        return CorruptFileError(self._file, 0, self._named(name[:_SHOWN_CHARACTERS]), expected, shown)

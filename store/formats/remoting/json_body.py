r"""JSON bodies: requests and responses in fastjson's layout.

Bodies contain no blanks, and members are sorted by name.

    {"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}}}
    {"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"maxOffset":3,"minOffset":0}}}

Unlike in JSON, a map key can be an unquoted integer, or a message queue as an object. Only `decode_queue_offsets` reads
message queues as keys, because no request contains them. Members without a value are omitted. Source: RocketMQ
RemotingSerializable, fastjson's JSON.toJSONString, and responses of a 4.9 broker.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from ...errors import CorruptFileError
from ..side_json import encode_scalar
from .fastjson import boolean_of, decode_fastjson, integer_of

BODY = "body"
_SHOWN_CHARACTERS = 80
_MEMBERS_MAX = 64
"""In an object with more members, only exact names are found. RocketMQ's classes have fewer members."""
_QUEUE_KEY = re.compile(r"([{,]\s*+)(\{[^{}]*+\})(?=\s*+:)")
"""Pattern of a message queue as a map key. No topic or broker name contains braces."""


_Value = TypeVar("_Value", str, int, bool)


class MessageQueue(NamedTuple):
    """One queue of one broker."""

    topic: str
    broker_name: str
    queue_id: int

    @property
    def json_members(self) -> dict[str, str | int]:
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}


def encode_json_body(value: Any) -> bytes:
    """Encode mappings, sequences, strings, numbers, booleans and MessageQueues. Members that are None are omitted.

    >>> encode_json_body({"table": {1: "a"}, "remark": None})
    b'{"table":{1:"a"}}'
    """
    return _encode_value(value).encode()


def _encode_value(value: Any) -> str:
    kind = type(value)  # tested first: `isinstance` of an abstract class takes longer than the encoding
    if kind is dict:
        members = [f"{_encode_value(key)}:{_encode_value(item)}" for key, item in value.items() if item is not None]
        return "{" + ",".join(members) + "}"
    if kind is str or kind is int or value is None or isinstance(value, str | int | float):
        return encode_scalar(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, MessageQueue):
        return _encode_value(value.json_members)
    if isinstance(value, Mapping):
        return _encode_value(dict(value))
    if isinstance(value, Sequence):
        return "[" + ",".join(map(_encode_value, value)) + "]"
    raise TypeError(f"not a JSON value: {value!r}")


def decode_json_body(raw: bytes) -> "JsonMembers":
    """Decode a JSON body. Raises CorruptFileError at the wrong byte."""
    return JsonMembers(decode_fastjson(raw, file=BODY), "")


def decode_queue_offsets(raw: bytes, name: str) -> dict[MessageQueue, int]:
    """Decode the map from queues to offsets in the member `name`.

    >>> decode_queue_offsets(b'{"table":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}', "table")
    {MessageQueue(topic='T', broker_name='broker-a', queue_id=0): 7}
    """
    text = raw.decode(errors="replace")
    table = decode_json_body(_QUEUE_KEY.sub(lambda key: key[1] + json.dumps(key[2]), text).encode()).inner_object(name)
    offsets = {}
    for key in table.names:
        queue = decode_json_body(key.encode())
        place = MessageQueue(queue.text("topic"), queue.text("brokerName"), queue.integer("queueId", bits=32))
        offsets[place] = table.integer(key)
    return offsets


class JsonMembers:
    """The members of one object, converted like in fastjson. A CorruptFileError has the path of the member.

    If no member has exactly the requested name, the comparison ignores case, `_` and `-`.
    """

    __slots__ = ("_file", "_members", "_offset", "_path")

    def __init__(self, members: Mapping[str, Any], path: str, file: str = BODY, offset: int = 0) -> None:
        """`offset` is the position of the outermost object."""
        self._members = members
        self._path = path
        self._file = file
        self._offset = offset

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string. Numbers and booleans become their literals; objects and lists become JSON."""
        return self._convert_value(name, _text_of, "a string", default)

    def optional_text(self, name: str) -> str | None:
        return _text_of(self._value_of(name))

    def texts(self) -> dict[str, str]:
        texts = {name: _text_of(value) for name, value in self._members.items()}
        return {name: text for name, text in texts.items() if text is not None}

    def integer(self, name: str, default: int | None = None, *, bits: int = 64) -> int:
        """Return an integer. Fractions are truncated; true is 1 and false is 0."""
        expected = f"a {bits}-bit integer"
        value = self._convert_value(name, integer_of, expected, default)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise self._error(name, expected, value)
        return value

    def boolean(self, name: str, default: bool | None = None) -> bool:
        """Return a boolean. Of all numbers, only 1 is true."""
        return self._convert_value(name, boolean_of, "true or false", default)

    def choice(self, name: str, choices: Sequence[str], default: str, other: str | None = None) -> str:
        """Return one of `choices`. C++ clients write its index.

        Returns `default` for a missing member, and `other` or else `default` for an unknown name.
        """
        found = self._value_of(name)
        if found is None:
            return default
        if type(found) is int and 0 <= found < len(choices):
            return choices[found]
        if not isinstance(found, str | int):
            raise self._error(name, "a name or its number", found)
        named = str(found).upper()
        return named if named in choices else default if other is None else other

    def inner_object(self, name: str) -> "JsonMembers":
        """Return an object, which is empty if the member is missing."""
        return self._sub_members(name, self._require_type(name, dict, "an object", {}))

    def objects(self, name: str, most: int) -> Iterator["JsonMembers"]:
        """Yield the objects of a list of up to `most`. The member may be a single object or missing."""
        found = self._value_of(name)
        values = [found] if isinstance(found, dict) else self._require_type(name, list, "a list", [])
        if len(values) > most:
            raise self._error(name, f"{most} or fewer", len(values))
        for at, value in enumerate(values):
            if not isinstance(value, dict):
                raise self._error(f"{name}[{at}]", "an object", value)
            yield self._sub_members(f"{name}[{at}]", value)

    def table(self) -> Iterator[tuple[str, "JsonMembers"]]:
        """Yield name and value of each member. All values must be objects."""
        for name, value in self._members.items():
            if not isinstance(value, dict):
                raise self._error(name, "an object", value)
            yield name, self._sub_members(name, value)

    def _value_of(self, name: str) -> Any:
        value = self._members.get(name)
        if value is None and name not in self._members and len(self._members) <= _MEMBERS_MAX:
            wanted = _normalized_name(name)
            value = next((each for key, each in self._members.items() if _normalized_name(key) == wanted), None)
        return value

    def _convert_value(
        self, name: str, convert: Callable[[Any], _Value | None], expected: str, default: _Value | None
    ) -> _Value:
        found = self._value_of(name)
        try:
            value = convert(found)
        except ValueError:
            raise self._error(name, expected, found) from None
        if value is None:
            if default is None:
                raise self._error(name, expected, None)
            return default
        return value

    def _require_type(self, name: str, kind: type, expected: str, default: Any) -> Any:
        value = self._value_of(name)
        if value is None:
            return default
        if type(value) is not kind:
            raise self._error(name, expected, value)
        return value

    def _sub_members(self, name: str, value: Mapping[str, Any]) -> "JsonMembers":
        return JsonMembers(value, self._member_path(name), self._file, self._offset)

    def _member_path(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _error(self, name: str, expected: str, found: object) -> CorruptFileError:
        shown = "nothing" if found is None else repr(found)[:_SHOWN_CHARACTERS]
        return CorruptFileError(self._file, self._offset, self._member_path(name[:_SHOWN_CHARACTERS]), expected, shown)


def _text_of(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _encode_value(value)


def _normalized_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")

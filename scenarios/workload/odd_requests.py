"""Odd requests: sends that break one rule of a put, so a store must refuse them.

Broken programs and clients in other languages send such requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ...store.formats.batch import UNIT_BYTES_MIN
from ...store.formats.host import Host
from ...store.formats.messages import Message, MessageBatch

Request = TypeVar("Request", Message, MessageBatch)

FORGED_OFFSET = "INNER_MULTI_QUEUE_OFFSET\0010"
"""An offset in a light queue, as in a forwarded message. A store must replace or remove it."""
_BODY_LENGTH_AT = 16


def _with_number(units: bytes, at: int, number: int) -> bytes:
    return units[:at] + number.to_bytes(4, "big", signed=True) + units[at + 4 :]


_OF_HEAD: Mapping[str, Mapping[str, Any]] = {
    "an empty topic": {"topic": ""},
    "the topic '.'": {"topic": "."},
    "the topic '..'": {"topic": ".."},
    "a topic with a NUL": {"topic": "t\0"},
    "a negative queueId": {"queue_id": -1},
    "a queueId of more than 31 bits": {"queue_id": 1 << 31},
    "a host of 5 bytes": {"born_host": Host(bytes(5), 1)},
    "properties with a NUL": {"properties": "nul\1\0"},
}
_OF_BATCH: Mapping[str, Mapping[str, Any]] = {
    "a delay level for a batch": {"properties": "DELAY\0011"},
    "a transaction flag for a batch": {"sys_flag": 4},
    "a property with a NUL": {"properties": "nul\1\0"},
}
_OF_UNITS: Mapping[str, Callable[[bytes], bytes]] = {
    "no message": lambda _: b"",
    "a last message without its last byte": lambda units: units[:-1],
    "a byte after the last message": lambda units: units + b"\0",
    "a first message shorter than its fields": lambda units: _with_number(units, 0, UNIT_BYTES_MIN - 1),
    "a body longer than its message": lambda units: _with_number(units, _BODY_LENGTH_AT, 1 << 30),
    "a body of negative length": lambda units: _with_number(units, _BODY_LENGTH_AT, -1),
    "a body with a byte of the next field": lambda units: _with_number(
        units, _BODY_LENGTH_AT, int.from_bytes(units[_BODY_LENGTH_AT : _BODY_LENGTH_AT + 4], "big") + 1
    ),
}
FLAWS = tuple(_OF_HEAD)
BATCH_FLAWS = (*_OF_BATCH, *_OF_UNITS)


def with_flaw(request: Request, flaw: str) -> Request:
    """Return a request that breaks the rule named by `flaw`; an empty text changes nothing."""
    if not flaw:
        return request
    if isinstance(request, Message):
        return replace(request, **_OF_HEAD[flaw])
    if flaw in _OF_UNITS:
        return replace(request, units=_OF_UNITS[flaw](request.units))
    return replace(request, head=replace(request.head, **_OF_BATCH[flaw]))

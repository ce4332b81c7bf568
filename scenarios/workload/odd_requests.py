"""Odd requests: sends that break one rule of a put, so a store must refuse them, and unusual forms of valid sends.

Broken programs, and clients in other languages, send such requests. A client may forward properties that only a store
may set, and may end properties with a separator, as RocketMQ's clients did before 4.9.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ...store.formats.batch import UNIT_BYTES_MIN
from ...store.formats.host import Host
from ...store.formats.messages import Message, MessageBatch

Request = TypeVar("Request", Message, MessageBatch)

FORGED_OFFSET = "INNER_MULTI_QUEUE_OFFSET\0010"
"""An offset in a light queue, which a store must replace or remove."""
SEPARATOR = "\2"
_SIZE_AT, _BODY_LENGTH_AT = 0, 16
_PREPARED = 4


def _with_fields(head: Message, **fields: Any) -> Message:
    return replace(head, **fields)


def _with_nul(head: Message) -> Message:
    return replace(head, properties=f"{head.properties}\2nul\1\0")


def _with_delay(head: Message) -> Message:
    return replace(head, properties="DELAY\0011")


def _half_message(head: Message) -> Message:
    return replace(head, sys_flag=head.sys_flag | _PREPARED)


def _without_units(units: bytes) -> bytes:
    return b""


def _cut_by(count: int, units: bytes) -> bytes:
    return units[:-count]


def _with_number(at: int, change: Callable[[int], int], units: bytes) -> bytes:
    number = change(int.from_bytes(units[at : at + 4], "big"))
    return units[:at] + number.to_bytes(4, "big", signed=True) + units[at + 4 :]


def _followed_by(more: int, units: bytes) -> bytes:
    return units + bytes(more)


_OF_HEAD: Mapping[str, Callable[[Message], Message]] = {
    "an empty topic": partial(_with_fields, topic=""),
    "the topic '.'": partial(_with_fields, topic="."),
    "the topic '..'": partial(_with_fields, topic=".."),
    "a topic with a NUL": partial(_with_fields, topic="t\0"),
    "a negative queueId": partial(_with_fields, queue_id=-1),
    "a queueId of more than 31 bits": partial(_with_fields, queue_id=1 << 31),
    "a host of 5 bytes": partial(_with_fields, born_host=Host(bytes(5), 1)),
    "properties with a NUL": _with_nul,
}
_OF_BATCH: Mapping[str, Callable[[Message], Message]] = {
    "a delay level for a batch": _with_delay,
    "a transaction flag for a batch": _half_message,
}
_OF_UNITS: Mapping[str, Callable[[bytes], bytes]] = {
    "no message": _without_units,
    "a last message without its last byte": partial(_cut_by, 1),
    "a first message shorter than its fields": partial(_with_number, _SIZE_AT, lambda _: UNIT_BYTES_MIN - 1),
    "a first message with a body longer than itself": partial(_with_number, _BODY_LENGTH_AT, lambda _: 1 << 30),
    "a first message with a body of negative length": partial(_with_number, _BODY_LENGTH_AT, lambda _: -1),
    "a first message with a byte too much": partial(_with_number, _BODY_LENGTH_AT, lambda size: size + 1),
    "a byte after the last message": partial(_followed_by, 1),
}
FLAWS = tuple(_OF_HEAD)
BATCH_FLAWS = (*_OF_HEAD, *_OF_BATCH, *_OF_UNITS)


def with_flaw(request: Request, flaw: str) -> Request:
    """Return a request that breaks the rule named by `flaw`; an empty text changes nothing."""
    if not flaw:
        return request
    if isinstance(request, Message):
        return _OF_HEAD[flaw](request)
    if flaw in _OF_UNITS:
        return replace(request, units=_OF_UNITS[flaw](request.units))
    return replace(request, head=(_OF_HEAD.get(flaw) or _OF_BATCH[flaw])(request.head))

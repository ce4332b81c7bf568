"""Reads the fields of a request, all of which travel as texts, as what they stand for.

A field that is missing or no such thing refuses the request with SYSTEM_ERROR and a remark that names field, expected
and found. Fields nobody asks for are passed over: newer clients send more of them.
Source: RocketMQ RemotingCommand.decodeCommandCustomHeader.
"""

import re
from collections.abc import Mapping
from typing import NoReturn

from .requests import RequestRefusedError, ResponseCode

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_PLAIN_DIGITS_MAX = 9
"""So many of them are an integer of 32 bits, whichever they are."""
_BOOLEANS = {"true": True, "false": False}
_SHOWN_CHARACTERS = 80


class ExtFields:
    """The fields of one request. Every method takes a default for a field that need not be there; else it must."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field as it is."""
        value = self._fields.get(name, default)
        if value is None:
            refuse_field(name, "a text", None)
        return value

    @property
    def size_characters(self) -> int:
        """Return the length of all names and values together."""
        return sum(len(name) + len(value) for name, value in self._fields.items())

    def int32(self, name: str, default: int | None = None) -> int:
        """Return a field that is an integer of 32 bits."""
        return self._integer(name, default, INT_MAX, "an integer of 32 bits")

    def int64(self, name: str, default: int | None = None) -> int:
        """Return a field that is an integer of 64 bits."""
        return self._integer(name, default, LONG_MAX, "an integer of 64 bits")

    def boolean(self, name: str, default: bool | None = None) -> bool:
        """Return a field that is true or false."""
        text = self._fields.get(name)
        value = default if text is None else _BOOLEANS.get(text.lower())
        if value is None:
            refuse_field(name, "true or false", text)
        return value

    def _integer(self, name: str, default: int | None, most: int, expected: str) -> int:
        text = self._fields.get(name)
        if text is None:
            if default is None:
                refuse_field(name, expected, None)
            return default
        if len(text) <= _PLAIN_DIGITS_MAX and text.isdecimal() and text.isascii():
            return int(text)  # nearly always
        if not _DIGITS.fullmatch(text) or not -most - 1 <= (value := int(text)) <= most:
            refuse_field(name, expected, text)
        return value


def refuse_field(name: str, expected: str, found: str | None) -> NoReturn:
    """Refuse a request for one of its fields; found is None where there is no such field."""
    shown = "no such field" if found is None else repr(found[:_SHOWN_CHARACTERS])
    raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, f"{name}: expected {expected}, found {shown}")

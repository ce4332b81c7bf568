"""Side JSON: encodes and decodes RocketMQ's JSON files, with unquoted integer keys.

    {
    <tab>"offsetTable":{
    <tab><tab>"Orders@billing":{0:12,1:7
    <tab><tab>}
    <tab>}
    }

The example is a `consumerOffset.json` of 4.9. Each entry with a string key starts a new line; entries with integer keys
share a line. The closing brace of a map that is not empty starts a new line. Readers accept quoted and unquoted keys
and ignore unknown fields, which 5.x adds. A file has no checksum, but a truncated file is no valid JSON. Source:
RocketMQ RemotingSerializable.toJson and fastjson's pretty format, seen in the golden stores.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any, Generic, NoReturn, TypeVar

from ..errors import CorruptFileError

SIDE_JSON_BYTES_MAX = 64 << 20
DEPTH_MAX = 32
_INTEGER_DIGITS_MAX = 19
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1

# A whole string is one match, so its contents never count as a key or a brace. A string without an end matches at its
# first quote: otherwise the search would try each later quote up to the end of the text.
_TOKEN = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?P<before>[{,][ \t\r\n]*)(?P<key>-?[0-9]+)(?=[ \t\r\n]*:)|[{\[}\]]|"', re.S
)
# This pattern matches an escaped backslash, a surrogate pair, or an unpaired surrogate.
_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})"
)

_MAY_HAVE_BARE_KEY = re.compile(r"[{,][ \t\r\n]*-?[0-9]")

Table = Mapping[Any, "int | str | Table"]
_encode_plain = json.JSONEncoder(ensure_ascii=False).encode
"""Encode a string, number, boolean or null. `json.dumps` would create an encoder for each call."""


def encode_scalar(value: str | float | None) -> str:
    """Encode like `json.dumps`, but faster."""
    if isinstance(value, str):
        return encode_basestring(value)
    return str(value) if type(value) is int else _encode_plain(value)


class EncodedValue(str):
    """An encoded value."""

    __slots__ = ()


_Value = TypeVar("_Value")


class TableEncoder(Generic[_Value]):
    """Encodes a table repeatedly and caches each encoded value. Values must be replaced, not modified."""

    def __init__(self, members_of: Callable[[_Value], Table], depth: int) -> None:
        """`members_of` converts a value to a JSON object at nesting depth `depth`."""
        self._members_of = members_of
        self._depth = depth
        self._known: dict[str, tuple[_Value, EncodedValue]] = {}

    def encode_table(self, table: Mapping[str, _Value]) -> dict[str, EncodedValue]:
        """Encode a table for `encode_side_json`, sorted by name. Only one task at a time may call encode_table."""
        known = self._known
        self._known = {}
        for name, value in sorted(table.items()):
            last = known.get(name)
            if last is None or last[0] is not value:
                last = value, EncodedValue(_encode_value(self._members_of(value), self._depth))
            self._known[name] = last
        return {name: encoded for name, (_, encoded) in self._known.items()}


def encode_side_json(fields: Mapping[str, Table]) -> bytes:
    r"""Encode an object in RocketMQ's layout. The keys of a table must be all integers or all strings.

    >>> encode_side_json({"offsetTable": {1: 6, 2: 6}})
    b'{\n\t"offsetTable":{1:6,2:6\n\t}\n}'
    """
    return _encode_value(fields, 0).encode()


def _encode_value(value: "int | str | Table", depth: int) -> str:
    if isinstance(value, str):
        return value if isinstance(value, EncodedValue) else encode_scalar(value)
    if isinstance(value, int):
        return encode_scalar(value)
    if not value:
        return "{}"
    line = "\n" + "\t" * (depth + 1)
    entries = [
        f"{key}:{_encode_value(item, depth + 1)}"
        if isinstance(key, int)
        else f"{line}{encode_scalar(key)}:{_encode_value(item, depth + 1)}"
        for key, item in value.items()
    ]
    return "{" + ",".join(entries) + line[:-1] + "}"


def decode_side_json(raw: bytes, *, file: str, file_offset: int = 0) -> dict[str, Any]:
    """Decode an object in a JSON file from file_offset on. All keys become strings. Raises CorruptFileError."""
    if len(raw) > SIDE_JSON_BYTES_MAX:
        raise CorruptFileError(file, file_offset, "file size", f"{SIDE_JSON_BYTES_MAX} or less", len(raw))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(
            file, file_offset + error.start, "text", "UTF-8", raw[error.start : error.end].hex()
        ) from error
    quoted, quotes_at = _with_quoted_keys(text, file, file_offset)
    try:
        found = _DECODER.decode(quoted)
    except json.JSONDecodeError as error:
        inserted = sum(at < error.pos for at in quotes_at)
        offset = file_offset + len(text[: error.pos - inserted].encode())
        raise CorruptFileError(file, offset, "JSON", "an object", error.msg) from error
    except ValueError as error:
        raise CorruptFileError(file, file_offset, "JSON", "numbers in range", error) from error
    if not isinstance(found, dict):
        raise CorruptFileError(file, file_offset, "JSON", "an object", type(found).__name__)
    if "\\" in text:
        _check_surrogates(text, file, file_offset)
    return found


def _check_surrogates(text: str, file: str, file_offset: int) -> None:
    """Raise CorruptFileError at an unpaired surrogate, which cannot be encoded."""
    for escape in _ESCAPES.finditer(text):
        if escape["half"] is not None:
            offset = file_offset + len(text[: escape.start()].encode())
            raise CorruptFileError(file, offset, "JSON", "surrogates in pairs", escape["half"].lower())


def _with_quoted_keys(text: str, file: str, file_offset: int) -> tuple[str, list[int]]:
    """Return the text with all keys quoted, and the positions of added quotes.

    Raises CorruptFileError if the text is nested too deeply.
    """
    if text.count("{") + text.count("[") <= DEPTH_MAX and _MAY_HAVE_BARE_KEY.search(text) is None:
        return text, []  # the common case
    pieces: list[str] = []
    quotes_at: list[int] = []
    copied = length = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] == '"':
            break
        if token[0][0] in "{[":
            depth += 1
            if depth > DEPTH_MAX:
                offset = file_offset + len(text[: token.start()].encode())
                raise CorruptFileError(file, offset, "JSON", f"{DEPTH_MAX} levels or fewer", "more")
        elif token[0] in ("}", "]"):
            depth -= 1
        if token["key"] is None:
            continue
        piece = f'{text[copied : token.start("key")]}"{token["key"]}"'
        pieces.append(piece)
        length += len(piece)
        quotes_at += (length - len(token["key"]) - 2, length - 1)
        copied = token.end()
    pieces.append(text[copied:])
    return "".join(pieces), quotes_at


def _parse_integer(digits: str) -> int:
    if len(digits) < _INTEGER_DIGITS_MAX:
        return int(digits)
    if len(digits.lstrip("-")) > _INTEGER_DIGITS_MAX or not _LONG_MIN <= int(digits) <= _LONG_MAX:
        raise ValueError(digits[:24])
    return int(digits)


def decimal_of(digits: str) -> Decimal:
    """Convert a JSON number with all its digits. Raises ValueError for an exponent of about 20 digits."""
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise ValueError(digits[:24]) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_int=_parse_integer, parse_float=decimal_of, parse_constant=_refuse_constant)


def table_of(fields: Mapping[str, Any], name: str, *, file: str) -> dict[str, Any]:
    """Return the table in a field. The table is empty if the field is missing or null."""
    found = fields.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise CorruptFileError(file, 0, name, "an object", type(found).__name__)
    return found


def numbered_offsets(table: Mapping[str, Any], field: str, *, file: str) -> dict[int, int]:
    """Return the sorted offsets. Raises CorruptFileError for an entry that is not a pair of numbers."""
    offsets = {}
    for key, value in table.items():
        if not re.fullmatch("-?[0-9]{1,10}", key):
            raise CorruptFileError(file, 0, field, "integer keys", _shorten(key))
        offsets[int(key)] = offset_of(value, f"{field}[{key}]", file=file)
    return dict(sorted(offsets.items()))


def offset_of(value: object, field: str, *, file: str) -> int:
    """Return an offset. Raises CorruptFileError unless the value is an integer."""
    if type(value) is not int:
        raise CorruptFileError(file, 0, field, "an integer", _shorten(value))
    return value


def _shorten(value: object) -> str:
    return (str(value) or '""')[:24]

r"""Fastjson dialect: reads the JSON of RocketMQ headers and bodies.

    {'code':10,extFields:{defaultTopicQueueNums:4,"batch":false,},/* comment */,"opaque":2}

    syntax      read
    names       texts, identifiers, numbers
    texts       in double or single quotes; line breaks inside; escapes of JSON, \0 to \7, \v, and \xHH
    numbers     a plus sign, leading zeros, no digits after the point, a suffix L, S or B
    words       true, false; null, NaN and undefined have no value
    commas      any number between members and items; items need none
    blanks      \f, \b and comments count as blanks; one byte order mark may come first

If a name occurs twice in an object, the last member counts. Fastjson also converts values between types, for example a
number to a string. Clients in C++, PHP and Python need this for numbers and booleans. Fastjson also accepts `new
Date(1)`, `Set[1]`, hex strings, and floats with a suffix, which no client writes. This reader refuses these forms,
unpaired surrogates, bytes that are not UTF-8, integers out of range, and nesting deeper than DEPTH_MAX. Source:
fastjson 1.2.69 JSONScanner, DefaultJSONParser, TypeUtils; `tests/golden/fastjson` has fastjson's results.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

from ...errors import CorruptFileError
from ..side_json import DEPTH_MAX, decimal_of, decode_side_json

DIALECT_BYTES_MAX = 256 << 10
"""Size limit of a text that is not plain JSON, which is read 30 times slower."""

_BLANK = re.compile(r"(?:[ \t\r\n\f\b]|//[^\n]*|/\*.*?\*/)*+", re.S)
_SEPARATOR = re.compile(r"(?:[ \t\r\n\f\b,]|//[^\n]*|/\*.*?\*/)*+", re.S)
_TEXT = re.compile(r'"((?:[^"\\]++|\\.)*+)"' + r"|'((?:[^'\\]++|\\.)*+)'", re.S)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.S)
_NUMBER = re.compile(r"([+-]?[0-9]+)(?:(\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)|[LSB]?)")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,40}(?:\.0*)?")
_WORDS = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}
_ESCAPES = (
    dict(zip("\"'\\/btnvfF", "\"'\\/\b\t\n\v\f\f", strict=True)) | {"r": "\r"} | {str(n): chr(n) for n in range(8)}
)
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "Y": True, "N": False, "T": True, "F": False}
_NO_VALUE = ("", "null", "NULL")
"""Strings that fastjson reads as a missing number or boolean."""
_DIGITS_MAX = 20
"""More digits than any 64-bit integer has. The limit prevents the expansion of a huge exponent."""


def decode_fastjson(raw: bytes, *, file: str, offset: int = 0) -> dict[str, Any]:
    """Decode an object at `offset` of the file. Raises CorruptFileError.

    A number that is not a 64-bit integer becomes a Decimal with all its digits.
    """
    try:
        return decode_side_json(raw, file=file, file_offset=offset)  # decodes plain JSON in C
    except CorruptFileError:
        if len(raw) > DIALECT_BYTES_MAX:
            raise
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(
            file, offset + error.start, "text", "UTF-8", raw[error.start : error.end].hex()
        ) from None
    return _DialectReader(text, file, offset).parse_document()


class _DialectReader:
    """Recursive-descent parser of one JSON text."""

    def __init__(self, text: str, file: str, offset: int) -> None:
        self._text = text
        self._file = file
        self._offset = offset
        self._at = 0
        self._depth = 0

    def parse_document(self) -> dict[str, Any]:
        self._at = int(self._text.startswith("\ufeff"))
        if self._next_character(_BLANK) != "{":
            self._raise_error("an object")
        members = self._parse_object()
        if self._next_character(_BLANK):
            self._raise_error("the end")
        assert self._depth == 0, self._depth
        return members

    def _parse_value(self) -> Any:
        char = self._next_character(_BLANK)
        if char == "{":
            return self._parse_object()
        if char == "[":
            return self._parse_list()
        if char and char in "\"'":
            return self._parse_string()
        if (number := _NUMBER.match(self._text, self._at)) is not None:
            return self._parse_number(number)
        word = _WORD.match(self._text, self._at)
        if word is None or word[0] not in _WORDS:
            self._raise_error("a value")
        self._at = word.end()
        return _WORDS[word[0]]

    def _parse_object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._enter_nesting()
        while (char := self._next_character(_SEPARATOR)) != "}":
            name = self._parse_name(char)
            if self._next_character(_BLANK) != ":":
                self._raise_error("a colon")
            self._at += 1
            members[name] = self._parse_value()
            if self._next_character(_BLANK) not in (",", "}"):
                self._raise_error("a comma or the end of the object")
        self._leave_nesting()
        return members

    def _parse_list(self) -> list[Any]:
        items: list[Any] = []
        self._enter_nesting()
        while self._next_character(_SEPARATOR) != "]":
            items.append(self._parse_value())
        self._leave_nesting()
        return items

    def _parse_name(self, char: str) -> str:
        if char and char in "\"'":
            return self._parse_string()
        name = _WORD.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if name is None:
            self._raise_error("a name or the end of the object")
        self._at = name.end()
        return name[0]

    def _parse_string(self) -> str:
        found = _TEXT.match(self._text, self._at)
        if found is None:
            self._raise_error("a string with a closing quote")
        inside = found[found.lastindex or 0]
        if "\\" in inside:
            try:
                inside = _ESCAPE.sub(_unescape, inside).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            except (KeyError, UnicodeDecodeError):
                self._raise_error("a string with known escapes, and surrogates in pairs")
        self._at = found.end()
        return inside

    def _parse_number(self, number: re.Match[str]) -> int | Decimal:
        whole, fraction = number[1], number[2]
        try:
            is_plain = fraction is None and len(whole) <= _DIGITS_MAX
            value = int(whole) if is_plain else decimal_of(whole + (fraction or ""))
        except ValueError:
            self._raise_error("a number")
        self._at = number.end()
        return value

    # -- reading -----------------------------------------------------------------------------------

    def _next_character(self, skipped: re.Pattern[str]) -> str:
        """Skip blanks or separators. Returns an empty string at the end."""
        blank = skipped.match(self._text, self._at)
        assert blank is not None, "the pattern also matches an empty string"
        self._at = blank.end()
        return self._text[self._at : self._at + 1]

    def _enter_nesting(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._raise_error(f"{DEPTH_MAX} levels or fewer")
        self._at += 1

    def _leave_nesting(self) -> None:
        self._depth -= 1
        self._at += 1

    def _raise_error(self, expected: str) -> NoReturn:
        offset = self._offset + len(self._text[: self._at].encode())
        raise CorruptFileError(self._file, offset, "JSON", expected, repr(self._text[self._at : self._at + 24]))


def _unescape(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2]
    return _ESCAPES[escape[3]] if digits is None else chr(int(digits, 16))


def integer_of(value: Any) -> int | None:
    """Convert a value. Returns None for a missing value. Raises ValueError if fastjson would fail."""
    if type(value) is int:  # the common case
        return value
    if isinstance(value, str):
        if value in _NO_VALUE:
            return None
        value = value.replace(",", "")
        if not _INTEGER_TEXT.fullmatch(value):
            raise ValueError
        return int(value.partition(".")[0])
    if isinstance(value, Decimal) and value.adjusted() >= _DIGITS_MAX:
        raise ValueError  # `int` would expand a huge exponent
    if isinstance(value, Mapping | list):
        raise ValueError
    return None if value is None else int(value)


def boolean_of(value: Any) -> bool | None:
    """Convert a value. Returns None for a missing value. Raises ValueError if fastjson would fail."""
    if isinstance(value, str) and value not in _NO_VALUE:
        found = _BOOLEANS.get(value, _BOOLEANS.get(value.lower()))
        if found is None:
            raise ValueError
        return found
    number = integer_of(value)
    return None if number is None else number == 1
